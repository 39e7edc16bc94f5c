"""``--compress``: the trace is packed after the results are written, and is complete at every moment."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.process.checkpoint import CHECKPOINT, FORMAT
from testbed.analysis import trace_reading
from testbed.cli import execution, main
from testbed.common import statefile
from testbed.common.errors import UserError
from testbed.history import packing, trace
from testbed.history.trace import TraceWriter
from testbed.runs import resuming
from testbed.runs.run_folder import RunFolder
from tests.testbed.analysis.test_metrics import EVENTS
from tests.testbed.examples import MINIMAL, device_spec, write_profile

# ---- packing


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    _write(path)
    return path


def _write(path: Path) -> None:
    writer = TraceWriter(path)
    for event in EVENTS:
        writer.write(event)
    writer.close()


def test_a_packed_trace_contains_the_same_bytes_and_replaces_the_plain_one(plain: Path) -> None:
    before = plain.read_bytes()
    packed = packing.pack(plain)
    assert list(plain.parent.iterdir()) == [packed]
    assert packed.name == "trace.jsonl.gz"
    assert gzip.decompress(packed.read_bytes()) == before
    assert list(trace.read(packed)) == EVENTS


def test_packing_reports_its_progress(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_CHUNK", plain.stat().st_size // 4 + 1)
    shares: list[float] = []
    packing.pack(plain, shares.append)
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (4, 1.0)


def test_an_empty_trace_can_be_packed(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").touch()
    assert list(trace.read(packing.pack(tmp_path / "trace.jsonl"))) == []


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError])
def test_when_packing_fails_only_the_plain_trace_is_left(plain: Path, problem: type[BaseException]) -> None:
    def progress(share: float) -> None:
        assert len(list(plain.parent.iterdir())) == 2  # there is a part of it
        raise problem

    before = plain.read_bytes()
    with pytest.raises(problem):
        packing.pack(plain, progress)
    assert list(plain.parent.iterdir()) == [plain]
    assert plain.read_bytes() == before


def test_the_packed_trace_is_complete_before_the_plain_one_is_removed(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Path, missing_ok: bool = False) -> None:
        if self == plain:
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        packing.pack(plain)
    for name in ("trace.jsonl", "trace.jsonl.gz"):
        assert list(trace.read(plain.with_name(name))) == EVENTS
    assert trace_reading.file_of(plain.parent) == plain


# ---- a run


class Pretended:
    """Stands for the processes of a run: they write a trace, or none, and end with a code."""

    def __init__(self, code: int = 0, *, torn: bool = False, silent: bool = False, checkpoint: bool = False) -> None:
        self._code, self._torn, self._silent, self._checkpoint = code, torn, silent, checkpoint

    def __call__(self, run: Any, core_plan: Any, folder: RunFolder, *_: Any, **__: Any) -> tuple[int, Any, None]:
        if not self._silent:
            _write(folder.trace)
        if self._torn:
            folder.trace.write_bytes(folder.trace.read_bytes()[:-5])
        if self._checkpoint:
            notes = {"format": FORMAT, "t": "1.0", "version": "1", "trace_bytes": "0"}
            statefile.draft({}, ()).write(folder.path / CHECKPOINT, notes)
        return self._code, SimpleNamespace(devices=[device_spec("a"), device_spec("b")]), None


@pytest.fixture(autouse=True)
def own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())


def carried_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pretended: Pretended, *options: str, profile: str = MINIMAL
) -> tuple[int, Path]:
    """The exit code, and the run folder."""
    monkeypatch.setattr(execution, "_run_processes", pretended)
    path = write_profile(folder, profile)
    code = main.main(["run", str(path), "--out", str(folder / "runs"), *options])
    [run] = (folder / "runs").iterdir()
    return code, run


def traces(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("trace*"))


def test_the_trace_of_a_run_that_can_be_resumed_stays_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resuming, "_ended", lambda folder, of: None)  # it was killed: its trace has no end
    code, run = carried_out(tmp_path, monkeypatch, Pretended(130, checkpoint=True), "--compress")
    assert (code, traces(run)) == (130, ["trace.jsonl.gz"])
    assert f"run_testbed.py resume {run}" in "".join(capsys.readouterr().out.split("\n"))


@pytest.mark.parametrize("code", [0, 1, 130])
def test_the_trace_is_packed_on_request_after_any_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    found, run = carried_out(tmp_path, monkeypatch, Pretended(code), "--compress")
    assert (found, traces(run)) == (code, ["trace.jsonl.gz"])
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["applied"] == 3


def test_a_profile_may_request_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = carried_out(tmp_path, monkeypatch, Pretended(), profile=f"compress = true\n{MINIMAL}")
    assert traces(run) == ["trace.jsonl.gz"]


def test_without_a_request_the_trace_stays_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert traces(run) == ["trace.jsonl"]


def test_a_run_without_a_trace_packs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, run = carried_out(tmp_path, monkeypatch, Pretended(1, silent=True), "--compress")
    assert (code, traces(run)) == (1, [])


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "packing was interrupted; the uncompressed trace is kept"),
        (
            OSError(28, "No space left on device"),
            0,
            "cannot be packed: No space left on device; the uncompressed trace is kept",
        ),
    ],
)
def test_a_run_whose_trace_cannot_be_packed_keeps_it_with_its_results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: BaseException,
    code: int,
    said: str,
) -> None:
    def raising(path: Path, progress: object) -> Path:
        raise problem

    monkeypatch.setattr(packing, "pack", raising)
    found, run = carried_out(tmp_path, monkeypatch, Pretended(), "--compress", "--quiet")
    assert (found, traces(run)) == (code, ["trace.jsonl"])
    output = capsys.readouterr()
    assert output.err == f"warning: {run / 'trace.jsonl'}: {said}\n"
    assert output.out == f"{run}\n"


def test_the_key_is_checked_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_profile(tmp_path, f"compress = 1\n{MINIMAL}")
    assert main.main(["run", str(path), "--out", str(tmp_path / "runs")]) == 2
    assert "compress is 1; it must be true or false" in capsys.readouterr().err
    assert main.main(["list", "keys", "--format", "json"]) == 0
    tables = {row["name"]: row["parameters"] for row in json.loads(capsys.readouterr().out)}
    [[_, default, _, meaning]] = [row for row in tables["(top level)"] if row[0] == "compress"]
    assert (default, "compress trace.jsonl" in meaning) == ("False", True)
    assert "trace" in [row[0] for row in tables["[replay]"]]


# ---- a torn trace


def test_a_torn_last_line_is_in_the_summary_and_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    code, run = carried_out(tmp_path, monkeypatch, Pretended(1, torn=True), "--compress")
    assert (code, traces(run)) == (1, ["trace.jsonl.gz"])
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["torn_line"] == len(EVENTS)
    note = f"note: the last line ({len(EVENTS)}) of trace.jsonl is torn, as a crash leaves it; it is left out"
    assert note in capsys.readouterr().out.splitlines()
    torn: list[int] = []
    assert list(trace.read(run / "trace.jsonl.gz", torn.append)) == EVENTS[:-1]
    assert torn == [len(EVENTS)]


def test_a_complete_trace_is_not_called_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert "torn_line" not in json.loads((run / "summary.json").read_text(encoding="utf-8"))


# ---- finding a trace


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_trace_is_found_by_its_run_folder_or_by_itself(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert trace_reading.file_of(tmp_path) == trace_reading.file_of(tmp_path / name) == tmp_path / name


def test_a_missing_trace_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no trace\.jsonl"):
        trace_reading.file_of(tmp_path)
    with pytest.raises(UserError, match="there is no such run folder or trace"):
        trace_reading.file_of(tmp_path / "absent")
