"""Traces with numbers that no run has: each command ends soon, with a result or with one line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.common.errors import UserError
from testbed.report.content.report_data import gather
from testbed.runs.stored_run import StoredRun
from testbed.trace_tools import trace_comparison
from tests.testbed.cli.guarded import executed, refusal
from tests.testbed.report.examples import write

WHOLE = (0, 1, 10**6, 10**12, 10**15, 2**53)
FRACTIONS = (0.0, -1.0, 1e-300, 5e-324, 1e-9, 3e11, 1e12, -1e12)
LARGEST = (1e300, -1e300)
"""Only for what a strategy or a task defines: weights, losses and metrics."""
_DEFINED_BY_OTHERS = ("metrics", "weights", "loss")


def lines_of(folder: Path) -> list[dict[str, Any]]:
    path = write(folder)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rewrite(folder: Path, lines: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "trace.jsonl").write_text(text, encoding="utf-8")


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each number in a line."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(each, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool) and path != ("schema",):
        yield path


def put(value: Any, path: tuple[Any, ...], chance: random.Random) -> None:
    for key in path[:-1]:
        value = value[key]
    if isinstance(value[path[-1]], int):
        value[path[-1]] = chance.choice(WHOLE)
    else:
        value[path[-1]] = chance.choice(FRACTIONS + (LARGEST if path[0] in _DEFINED_BY_OTHERS else ()))


def with_staleness(folder: Path, *staleness: int) -> None:
    """Write a run whose versions have these, one after another."""
    lines, given = lines_of(folder), list(staleness)
    for line in lines:
        if line["kind"] == "aggregated":
            line["staleness"] = [given.pop(0) if given else 0 for _ in line["staleness"]]
    rewrite(folder, lines)


@pytest.mark.parametrize("staleness", [(10**15,), (2**53, 7), (10**6, 10**15)])
def test_a_report_of_any_staleness_is_written_soon(staleness: tuple[int, ...], tmp_path: Path) -> None:
    with_staleness(tmp_path, *staleness)
    done = executed("report", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{max(staleness)} at most" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("1e300", "Expected `float` <= 1000000000000.0"),
        ("-1e13", "Expected `float` >= -1000000000000.0"),
        ("NaN", "JSON is malformed"),
        ("Infinity", "JSON is malformed"),
        ("1e999", "Number out of range"),
    ],
)
def test_a_time_that_no_run_has_is_refused_with_its_line(number: str, told: str, tmp_path: Path) -> None:
    lines = lines_of(tmp_path)
    lines[5]["t"] = 4711.5
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "trace.jsonl").write_text(text.replace("4711.5", number), encoding="utf-8")
    for words in (("report", tmp_path), ("trace", "show", tmp_path), ("compare", tmp_path)):
        error = refusal(*words)
        assert "trace.jsonl, line 6: " in error
        assert told in error


def test_a_count_with_thirty_digits_is_refused(tmp_path: Path) -> None:
    with_staleness(tmp_path, 10**30)
    assert "Expected `int` <= 9007199254740992 - at `$.staleness[0]`" in refusal("report", tmp_path)


def test_a_job_number_that_is_far_ahead_is_refused(tmp_path: Path) -> None:
    lines = lines_of(tmp_path)
    next(line for line in lines if line["kind"] == "downloaded")["job"] = 10**12
    rewrite(tmp_path, lines)
    error = refusal("trace", "compare", tmp_path, tmp_path)
    assert "the trace has its job 1,000,000,000,000, but almost none before it; choose another run" in error


@pytest.mark.parametrize("seed", range(8))
def test_whatever_a_number_is_the_results_are_computed_or_the_trace_is_refused(seed: int, tmp_path: Path) -> None:
    chance, whole = random.Random(seed), lines_of(tmp_path)
    computed = 0
    for _ in range(40):
        lines = json.loads(json.dumps(whole))
        for _ in range(chance.choice((1, 1, 2))):
            line = chance.choice(lines)
            put(line, chance.choice(list(numbers(line))), chance)
        rewrite(tmp_path, lines)
        try:
            gather(StoredRun.open(tmp_path))
            trace_comparison.compare([tmp_path / "trace.jsonl"] * 2, "obtained", None)
        except UserError:
            continue
        computed += 1
    assert computed >= 5
