"""The event files, read by TensorBoard's own reader."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from testbed.analysis.totals import Totals, totals
from testbed.cli import main
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.trace import Scored, TraceWriter
from testbed.runs import tensorboard
from tests.testbed.analysis import histories
from tests.testbed.examples import MINIMAL, device_spec, write_profile
from tests.testbed.history.test_packing import Pretended, carried_out
from tests.testbed.runs.test_run_folder import filled

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


def written(total: Totals, folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Tag → step, wall time and value, as TensorBoard reads them."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator").EventAccumulator
    tensorboard.write(total, folder)
    found = accumulator(str(folder))
    found.Reload()
    return {
        tag: [(event.step, event.wall_time, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def test_scores_and_versions_are_read_back_at_their_version_and_at_the_hosts_time(tmp_path: Path) -> None:
    start = STARTED.timestamp()
    first, second = start + 8.0, start + 12.0  # dilation 2
    assert written(totals(EVENTS), tmp_path / "tensorboard") == {
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
    found = written(totals([HEADER, joined, *EVENTS[2:4], histories.stopped(8.0)]), tmp_path / "tensorboard")
    assert set(found) == {"scores/accuracy", "scores/loss", "fleet/bytes"}


def test_the_same_trace_gives_the_same_file_again(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    tensorboard.write(totals(EVENTS), tmp_path)
    [file] = tmp_path.iterdir()
    before = file.read_bytes()
    tensorboard.write(totals(EVENTS), tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_a_run_that_has_not_begun_has_no_file(tmp_path: Path) -> None:
    tensorboard.write(totals([]), tmp_path / "tensorboard")
    assert list(tmp_path.iterdir()) == []


# ---- the option


def test_a_run_has_the_folder_on_request_only(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    for wanted in (False, True):
        folder = filled(tmp_path / str(wanted))
        folder.trace.unlink()
        writer = TraceWriter(folder.trace)
        for event in EVENTS:
            writer.write(event)
        writer.close()
        folder.write_results([device_spec("a")], tensorboard=wanted)
        assert (folder.path / "tensorboard").is_dir() == wanted


def test_without_tensorboard_a_run_that_wants_it_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(UserError, match=r"pip install tensorboard, or 'edgebed\[tensorboard\]'"):
        tensorboard.check()
    monkeypatch.setattr(sys, "path", sys.path.copy())
    path = write_profile(tmp_path, MINIMAL)
    assert main.main(["run", str(path), "--out", str(tmp_path / "runs"), "--tensorboard"]) == 2
    assert "--tensorboard: needs tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_run_that_does_not_want_it_does_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    code, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert code == 0
    assert not (run / "tensorboard").exists()
