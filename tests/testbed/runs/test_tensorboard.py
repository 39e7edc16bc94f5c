"""The event files, read by TensorBoard's own reader."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.trace import Scored
from testbed.runs import run_results, tensorboard
from testbed.runs.run_results import RunResults
from tests.testbed.analysis import histories
from tests.testbed.examples import device_spec
from tests.testbed.execution.pretended import Pretended, carried_out
from tests.testbed.runs.folders import new_folder, write_results, write_trace

STARTED = datetime(2024, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC)
HEADER = trace.Header(
    t=0.0,
    schema=trace.SCHEMA,
    name="demo",
    strategy="fedavg",
    seed=7,
    dilation=2.0,
    demand=0.5,
    pressure=None,
    started=STARTED.isoformat(timespec="milliseconds"),
    host="h",
)
EVENTS: list[trace.Event] = [
    HEADER,
    histories.joined(),
    histories.sent(1),
    Scored(t=0.5, version=0, made=0.0, metrics={"accuracy": 0.125, "loss": 2.5}),
    histories.download(1, 0.0, 1.0),
    histories.trained(1, 3.0, 2.0),
    histories.upload(1, 3.0, 3.5),
    histories.sent(2, 3.0),
    histories.made(1, 4.0, 1, 2, weights=[0.5, 0.25]),
    histories.sent(3, 4.0),
    histories.made(2, 6.0, 3),
    Scored(t=6.5, version=2, made=6.0, metrics={"accuracy": 0.75, "loss": 1.25}),
    histories.stopped(8.0),
]
"""Version 1 is not scored, and version 0 is not made."""


def results(folder: Path, events: list[trace.Event]) -> RunResults:
    """The results of a trace with these events; there is no file if there are none."""
    path = folder / "trace.jsonl"
    return run_results.compute(write_trace(path, events) if events else path, [device_spec("a")])


def written(results: RunResults, folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Tag → step, wall time and value, as TensorBoard reads them."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator").EventAccumulator
    tensorboard.write(results, folder)
    found = accumulator(str(folder))
    found.Reload()
    return {
        tag: [(event.step, event.wall_time, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def test_scores_and_versions_are_read_back_at_their_version_and_at_the_hosts_time(tmp_path: Path) -> None:
    start = STARTED.timestamp()
    first, second = start + 8.0, start + 12.0  # dilation 2
    assert written(results(tmp_path, EVENTS), tmp_path / "tensorboard") == {
        "scores/accuracy": [(0, start, 0.125), (2, second, 0.75)],
        "scores/loss": [(0, start, 2.5), (2, second, 1.25)],
        "fleet/joules": [(0, start, 0.0), (2, second, 31.0)],  # as in test_energy: 26 until 3.5, then 2 W
        "fleet/bytes": [(0, start, 0.0), (2, second, 1100.0)],
        "versions/updates": [(1, first, 2.0), (2, second, 1.0)],
        "versions/weight": [(1, first, 0.75), (2, second, 1.0)],
        "versions/latency_s": [(1, first, 4.0), (2, second, 2.0)],
        "versions/mean_staleness": [(1, first, 0.0), (2, second, 0.0)],
        "versions/max_staleness": [(1, first, 0.0), (2, second, 0.0)],
    }


def test_unknown_values_are_left_out(tmp_path: Path) -> None:
    joined = histories.joined(watts=None)
    events = [HEADER, joined, *EVENTS[2:4], histories.stopped(8.0)]
    found = written(results(tmp_path, events), tmp_path / "tensorboard")
    assert set(found) == {"scores/accuracy", "scores/loss", "fleet/bytes"}


def test_the_same_trace_gives_the_same_file_again(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    computed, folder = results(tmp_path, EVENTS), tmp_path / "tensorboard"
    tensorboard.write(computed, folder)
    [file] = folder.iterdir()
    before = file.read_bytes()
    tensorboard.write(computed, folder)
    assert [path.read_bytes() for path in folder.iterdir()] == [before]


def test_a_run_that_has_not_begun_has_no_file(tmp_path: Path) -> None:
    tensorboard.write(results(tmp_path, []), tmp_path / "tensorboard")
    assert list(tmp_path.iterdir()) == []


# ---- the option


def test_a_run_has_the_folder_on_request_only(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    for wanted in (False, True):
        folder = new_folder(tmp_path / str(wanted), EVENTS)
        write_results(folder, [device_spec("a")], tensorboard=wanted)
        assert (folder.path / "tensorboard").is_dir() == wanted


def test_without_tensorboard_there_is_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(UserError, match=r"pip install tensorboard, or 'edgebed\[tensorboard\]'"):
        tensorboard.check()


def test_a_run_that_does_not_want_it_does_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    code, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert code == 0
    assert not (run / "tensorboard").exists()
