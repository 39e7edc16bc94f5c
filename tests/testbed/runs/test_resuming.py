"""Resuming an interrupted run: its checkpoint, and the events that are undone before it continues."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from aggregator.process import checkpoint
from testbed.cli.main import main
from testbed.common.errors import UserError
from testbed.common.files import statefile
from testbed.history import rollback
from testbed.loading import profile_loader
from testbed.profile import fleet
from testbed.profile.schema import ScriptedEvent
from testbed.runs import resuming
from testbed.runs.run_folder import RunFolder
from tests.testbed.examples import MINIMAL, device_spec, write_profile

BEFORE, AFTER = b'{"kind":"header"}\n{"kind":"joined"}\n', b'{"kind":"left"}\n{"kind":"resent"}\n'


NOTES = {
    "t": "12.5",
    "version": "7",
    "trace_bytes": str(len(BEFORE)),
    "trace_sha256": hashlib.sha256(BEFORE).hexdigest(),
    "profile": MINIMAL,
}


def stopped(reason: str) -> bytes:
    return json.dumps({"kind": "stopped", "reason": reason}).encode() + b"\n"


def run_folder(folder: Path, trace: bytes = BEFORE + AFTER, *, notes: dict[str, str] | None = None) -> Path:
    write_profile(folder, MINIMAL, "profile.toml")
    (folder / "trace.jsonl").write_bytes(trace)
    saved = NOTES if notes is None else notes
    statefile.draft([], ()).write(folder / checkpoint.CHECKPOINT, {"format": checkpoint.FORMAT} | saved)
    return folder


def test_a_checkpoint_says_how_far_the_run_was(tmp_path: Path) -> None:
    found = checkpoint.saved(run_folder(tmp_path))
    assert (found.at, found.version, found.trace.bytes) == (12.5, 7, len(BEFORE))


def test_events_after_the_checkpoint_are_moved_to_another_file(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert rollback.roll_back(folder, checkpoint.saved(folder).trace.bytes) == 2
    assert (folder / "trace.jsonl").read_bytes() == BEFORE
    assert (folder / "undone-1.jsonl").read_bytes() == AFTER


def test_without_later_events_no_file_is_made(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, BEFORE)
    assert rollback.roll_back(folder, checkpoint.saved(folder).trace.bytes) == 0
    assert not list(folder.glob("undone*"))


def test_events_that_were_undone_before_are_not_overwritten(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    saved = checkpoint.saved(folder)
    rollback.roll_back(folder, saved.trace.bytes)
    (folder / "trace.jsonl").write_bytes(BEFORE + b"other\n")
    assert rollback.roll_back(folder, saved.trace.bytes) == 1
    assert (folder / "undone-1.jsonl").read_bytes() == AFTER
    assert (folder / "undone-2.jsonl").read_bytes() == b"other\n"


def test_a_trace_that_was_packed_is_unpacked(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    (folder / "trace.jsonl.gz").write_bytes(gzip.compress(BEFORE + AFTER))
    (folder / "trace.jsonl").unlink()
    checkpoint.saved(folder)
    assert (folder / "trace.jsonl").read_bytes() == BEFORE + AFTER
    assert not (folder / "trace.jsonl.gz").exists()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run folder; name one"):
        resuming.check_folder(tmp_path)


def test_a_run_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    (run_folder(tmp_path) / checkpoint.CHECKPOINT).unlink()
    with pytest.raises(UserError, match=r"has no checkpoint; .*run it again"):
        checkpoint.saved(tmp_path)


@pytest.mark.parametrize("notes", [{}, NOTES | {"t": "x"}])
def test_a_checkpoint_without_readable_notes_is_refused(notes: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        checkpoint.saved(run_folder(tmp_path, notes=notes))


def test_a_trace_that_is_too_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is shorter than at the checkpoint"):
        checkpoint.saved(run_folder(tmp_path, BEFORE[:-3]))


def test_a_run_without_a_trace_is_refused(tmp_path: Path) -> None:
    (run_folder(tmp_path) / "trace.jsonl").unlink()
    with pytest.raises(UserError, match=r"has no trace\.jsonl"):
        checkpoint.saved(tmp_path)


FULL = stopped("the trace could not be written: No space left on device")


@pytest.mark.parametrize("end", [b"", stopped("interrupted"), FULL, b'{"kind":"stop'])
def test_a_run_that_was_interrupted_or_killed_may_be_resumed(end: bytes, tmp_path: Path) -> None:
    folder = run_folder(tmp_path, BEFORE + AFTER + end)
    resuming.check(folder, profile_loader.load(folder / "profile.toml"), checkpoint.saved(folder))


def test_a_run_that_has_ended_is_resumed_only_with_a_later_end(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, BEFORE + stopped("12.5 seconds are over"))
    saved = checkpoint.saved(folder)
    for seconds in (12.5, 10.0):
        experiment = profile_loader.load(folder / "profile.toml", [], {"stop.seconds": seconds})
        with pytest.raises(UserError, match=r"has ended \(12\.5 seconds are over\); a larger --seconds S"):
            resuming.check(folder, experiment, saved)
    resuming.check(folder, profile_loader.load(folder / "profile.toml", [], {"stop.seconds": 20.0}), saved)


def test_a_run_cannot_be_resumed_with_an_earlier_end(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with pytest.raises(UserError, match=r"has already reached 12\.5 s; --seconds must be above"):
        resuming.check(
            folder, profile_loader.load(folder / "profile.toml", [], {"stop.seconds": 5.0}), checkpoint.saved(folder)
        )


def test_a_run_that_ended_for_another_reason_is_not_resumed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, BEFORE + stopped("version 7 is reached"))
    experiment = profile_loader.load(folder / "profile.toml", [], {"stop.seconds": 600.0})
    with pytest.raises(UserError, match=r"has ended \(version 7 is reached\); there is nothing left"):
        resuming.check(folder, experiment, checkpoint.saved(folder))
    assert not resuming.is_possible(folder, experiment)


def test_the_path_of_the_profile_is_stored(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert resuming.source(folder) == folder / "profile.toml"
    (folder / "meta.json").write_text(json.dumps({"profile": "/somewhere/mine.toml"}))
    assert resuming.source(folder) == Path("/somewhere/mine.toml")


def test_devices_that_the_script_killed_are_dead() -> None:
    def scripted(*events: tuple[float, str]) -> tuple[ScriptedEvent, ...]:
        return tuple(ScriptedEvent(at=at, device="*", do=do) for at, do in events)

    devices = [
        replace(device_spec("killed"), script=scripted((1.0, "kill"), (9.0, "rejoin"))),
        replace(device_spec("back"), script=scripted((1.0, "kill"), (4.0, "rejoin"), (9.0, "kill"))),
        replace(device_spec("slowed"), script=(ScriptedEvent(at=1.0, device="*", do="speed", value=0.5),)),
        device_spec("plain"),
    ]
    assert fleet.dead_at(devices, 5.0) == {"killed"}
    assert fleet.dead_at(devices, 9.0) == {"back"}
    assert fleet.dead_at(devices, 0.5) == frozenset()


def test_two_processes_do_not_run_in_one_folder(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path, "demo", datetime(2024, 1, 2, 3, 4, 5))
    with pytest.raises(UserError, match="this run is under way"):
        RunFolder(folder.path)


def test_the_command_line_refuses_a_missing_folder_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", str(tmp_path / "nothing")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_a_strict_replay_with_compressed_updates_is_not_resumed(tmp_path: Path) -> None:
    """Its devices would begin without the residuals that those of the recorded run had."""
    folder = run_folder(tmp_path)
    strict = {"replay.trace": str(folder), "replay.mode": "strict"}
    experiment = profile_loader.load(folder / "profile.toml", ["compress_updates=int8"], strict)
    with pytest.raises(UserError, match=r"its devices have lost their residuals.*: start the replay again"):
        resuming.check(folder, experiment, checkpoint.saved(folder))
    assert not resuming.is_possible(folder, experiment)
    plain = profile_loader.load(folder / "profile.toml", [], strict)
    resuming.check(folder, plain, checkpoint.saved(folder))
