# Each target installs what it needs into .venv. Required: Python ≥ 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FLOWER := .venv-flower
SOURCES := testbed devices aggregator run_testbed.py tests

# Some machines have real data sets and recorded traces beside the project; without them their tests are skipped.
REAL := $(abspath ../shared)
ifneq ($(wildcard $(REAL)/data),)
export EDGEBED_DATA ?= $(REAL)/data
endif
ifneq ($(wildcard $(REAL)/traces),)
export EDGEBED_TRACES ?= $(REAL)/traces
endif

WORKERS ?= $(shell nproc)
# A live test waits for half of its time, so each core carries three.
RUNS_AT_ONCE ?= $(shell expr 3 \* $$(nproc))
PYTEST := $(BIN)/python -m pytest
BRIEF := not slow and not timing and not browser
TOUCHED_MOST := tests/aggregator tests/devices tests/testbed/profile tests/testbed/wire tests/testbed/planning \
	tests/testbed/processes tests/testbed/history tests/test_layering.py

.PHONY: run test quick test-timing test-all test-nightly test-flower test-hf lint bench bench-page bench-fedlab chaos papers metrics-page format clean

run: $(READY)
	$(BIN)/python run_testbed.py run profiles/experiments/quickstart.toml

# docs/testing.md says what each of these targets proves, and how long it takes
test: $(READY)
	$(PYTEST) -n $(WORKERS) -m "not live and $(BRIEF)"
	$(PYTEST) -n $(RUNS_AT_ONCE) --dist loadgroup -m "live and $(BRIEF)"

quick: $(READY)
	$(PYTEST) -n $(WORKERS) -m "not live and $(BRIEF)" $(TOUCHED_MOST)

test-timing: $(READY)
	$(PYTEST) -m timing --refuse-busy

# on a busy host, timing tests are skipped here, and everything else is judged
test-all: export EDGEBED_PROPERTIES = thorough
test-all: $(READY)
	$(PYTEST) -n $(WORKERS) -m "not live and not timing"
	$(PYTEST) -n $(RUNS_AT_ONCE) --dist loadgroup -m "live and not timing"
	$(PYTEST) -m timing

test-nightly: $(READY)
	EDGEBED_PROPERTIES=random $(PYTEST) -n $(WORKERS) -m "not live and not timing and not browser"

# Flower projects, in .venv-flower: flwr needs older versions of some packages than we do
test-flower: $(FLOWER)/.ready
	$(FLOWER)/bin/python -m pytest -n $(WORKERS) tests/flower

# the tests of Hugging Face folders, in .venv-hf: pyarrow is large, and nothing else needs it
test-hf:
	$(PYTHON) -m venv $(VENV)-hf
	$(VENV)-hf/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt "torch==2.13.0"
	$(VENV)-hf/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--constraint constraints-hf.txt --editable ".[hf]" hypothesis jsonschema pytest pytest-timeout pytest-xdist
	$(VENV)-hf/bin/python -m pytest tests/testbed/learning/data/own_files/test_hugging_face.py tests/live/test_own_data.py

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
	$(BIN)/python -m tests.chaos sockets --write docs/reliability.md

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
	rm -rf $(VENV) $(VENV)-hf $(FLOWER) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt "torch==2.13.0"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

$(FLOWER)/.ready: pyproject.toml constraints-flower.txt
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/pip install --quiet --disable-pip-version-check --constraint constraints-flower.txt "torch==2.13.0"
	$(FLOWER)/bin/pip install --quiet --disable-pip-version-check --constraint constraints-flower.txt \
		--editable ".[flower]" pytest pytest-timeout pytest-xdist hypothesis
	touch $@
