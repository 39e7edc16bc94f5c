"""Packing a trace: it is complete at every moment."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from testbed.analysis import trace_reading
from testbed.common.errors import UserError
from testbed.history import packing, trace
from tests.testbed.analysis.test_metrics import EVENTS
from tests.testbed.runs.folders import write_trace

# ---- packing


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.jsonl", EVENTS)


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
