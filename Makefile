# Each target installs what it needs into .venv. Required: Python ≥ 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := testbed devices aggregator run_testbed.py tests

# Some machines have real data sets and recorded traces beside the project; without them their tests are skipped.
REAL := $(abspath ../shared)
ifneq ($(wildcard $(REAL)/data),)
export EDGEBED_DATA ?= $(REAL)/data
endif
ifneq ($(wildcard $(REAL)/traces),)
export EDGEBED_TRACES ?= $(REAL)/traces
endif

.PHONY: run test lint bench bench-page bench-fedlab chaos papers metrics-page format clean

run: $(READY)
	$(BIN)/python run_testbed.py run profiles/experiments/quickstart.toml

test: $(READY)
	$(BIN)/python -m pytest -n auto -m "not live"
	$(BIN)/python -m pytest -m live  # one at a time: they measure the timing of devices

lint: $(READY)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

# figures beside their aims and the last committed ones; BENCH="race --turns 1" chooses
bench: $(READY)
	$(BIN)/python -m tests.benchmarks $(BENCH)

# the tables of docs/benchmarks.md, from tests/benchmarks/history.jsonl
bench-page: $(READY)
	$(BIN)/python -m tests.benchmarks.records.page

# FedLab in .venv-fedlab, for the race
bench-fedlab: $(READY)
	$(BIN)/python -m tests.benchmarks.rivals.fedlab

chaos: $(READY)
	$(BIN)/python -m tests.chaos --write docs/reliability.md
	$(BIN)/python -m tests.chaos fuzz --write docs/reliability.md

# PAPER=audg|afl|asafl|asyncfeded|eafl runs only that one
papers: $(READY)
	$(BIN)/python -m testbed.papers $(PAPER)

# the tables of docs/metrics.md, from the types of the result files
metrics-page: $(READY)
	$(BIN)/python -m testbed.runs.results.result_schemas docs/metrics.md

format: $(READY)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt "torch==2.13.0"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@
