"""What ``resume`` checks before any process starts: checkpoint, trace and profile are those of the interrupted run."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from aggregator.process import checkpoint
from aggregator.process.checkpoint import CHECKPOINT, Checkpoints
from testbed.cli.main import main
from testbed.common.errors import UserError
from testbed.common.files import statefile
from testbed.common.parameters import as_table
from testbed.history.rollback import roll_back
from testbed.history.trace import Event, TraceWriter, read
from testbed.history.trace_mark import mark_of
from testbed.loading import profile_loader
from testbed.loading.profile_files import SHIPPED
from testbed.profile.schema import Checkpoint, Experiment
from testbed.runs import resuming
from tests.testbed.examples import EVENTS, write_profile

PROFILE = """
name = "mine"
strategy = "fedasync"
stop = {{ seconds = {seconds} }}
devices = [{{ profile = "rpi4", count = {count}, name = "{name}" }}]
"""
BEFORE, AFTER = EVENTS, EVENTS[1:4]


def profile(seconds: float = 60.0, count: int = 2, name: str = "pi") -> str:
    return PROFILE.format(seconds=seconds, count=count, name=name)


@dataclass
class Interrupted:
    """The folder of a run that was killed some events after its last checkpoint."""

    folder: Path
    experiment: Experiment
    checkpoint_bytes: int

    @property
    def trace(self) -> Path:
        return self.folder / "trace.jsonl"

    def check(self) -> None:
        saved = resuming.checked(self.folder)
        experiment = profile_loader.load(self.folder / "profile.toml")
        resuming.check_profile(self.folder, experiment, saved)
        resuming.check(self.folder, experiment, saved)

    def write_profile(self, text: str) -> None:
        """Write the profile as a run does: with all defaults."""
        experiment = profile_loader.load(write_profile(self.folder, text, "source.toml"))
        (self.folder / "profile.toml").write_text(tomli_w.dumps(as_table(experiment)), encoding="utf-8")


def state(folder: Path, experiment: Experiment) -> Checkpoints:
    return Checkpoints(folder, experiment, lambda: 0.0, lambda: None, "aggregator", Checkpoint())


@pytest.fixture
def run(tmp_path: Path) -> Interrupted:
    folder = tmp_path / "run"
    folder.mkdir()
    experiment = profile_loader.load(write_profile(folder, profile(), "source.toml"))
    writer = TraceWriter(folder / "trace.jsonl")
    for event in BEFORE:
        writer.write(event)
    writer.flush()
    checkpoints = state(folder, experiment)
    model = np.arange(1000, dtype=np.float32)
    checkpoints.take_last(12.5, 7, writer.mark, lambda: {"model": model, "flags": np.array([True]), "empty": model[:0]})
    checkpoints.wait()
    for event in AFTER:
        writer.write(event)
    writer.close()
    found = Interrupted(folder, experiment, (folder / CHECKPOINT).stat().st_size)
    found.write_profile(profile())
    return found


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def refusal(run: Interrupted, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command line says; it must be one line, with exit code 2 and an unchanged folder."""
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    assert main(["resume", str(run.folder), "--no-report"]) == 2
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before
    out, error = capsys.readouterr()
    assert (out, error.count("\n"), error[:7]) == ("", 1, "error: ")
    return error


def test_a_run_as_it_was_left_may_be_resumed(run: Interrupted) -> None:
    run.check()


# ---- the profile


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (profile().replace("fedasync", "fedavg"), "strategy.name is 'fedavg', but was 'fedasync' when the run began"),
        (profile(count=1), "devices[0].count is 1, but was 2 when the run began;"),
        (profile(name="other"), "devices[0].name is 'other', but was 'pi' when the run began;"),
        (profile() + "seed = 3\n", "seed is 3, but was 0 when the run began;"),
        (profile() + "[evaluation]\nevery = 5\n", "evaluation.every is 5.0, but was 1.0"),
        (profile().replace("stop = { ", "stop = { versions = 5, "), "stop.versions is 5, but was unset"),
        (
            profile().replace("}]", '}, { profile = "rpi5" }]'),
            "the number of devices is 2, but was 1 when the run began (and ",
        ),
    ],
)
def test_another_profile_is_refused(text: str, told: str, run: Interrupted, capsys: pytest.CaptureFixture[str]) -> None:
    run.write_profile(text)
    error = refusal(run, capsys)
    assert f"profile.toml: {told}" in error
    assert "undo the edit, or start a new run with this profile" in error


def test_the_end_and_the_dilation_may_change(run: Interrupted) -> None:
    run.write_profile(profile(seconds=90.0) + "dilation = 2\n")
    run.check()


def test_another_form_of_the_same_profile_is_the_same(run: Interrupted) -> None:
    write_profile(run.folder, "# a comment\n" + profile(), "profile.toml")  # without the defaults
    run.check()


def _shipped() -> list[Path]:
    return sorted((SHIPPED / "experiments").rglob("*.toml"))


@pytest.mark.parametrize("path", _shipped(), ids=lambda path: path.relative_to(SHIPPED).as_posix())
def test_every_shipped_profile_is_the_same_after_it_was_stored(path: Path, tmp_path: Path) -> None:
    experiment = profile_loader.load(path)
    (tmp_path / "profile.toml").write_text(tomli_w.dumps(as_table(experiment)), encoding="utf-8")
    writer = state(tmp_path, experiment)
    (tmp_path / "trace.jsonl").write_bytes(b"")
    writer.take_last(0.0, 0, mark_of(tmp_path / "trace.jsonl", 0), dict)
    writer.wait()
    resuming.check_profile(tmp_path, profile_loader.load(tmp_path / "profile.toml"), resuming.checked(tmp_path))


# ---- the checkpoint


def test_a_flipped_bit_in_a_tensor_is_refused(run: Interrupted, capsys: pytest.CaptureFixture[str]) -> None:
    flip(run.folder / CHECKPOINT, run.checkpoint_bytes - 10)
    error = refusal(run, capsys)
    assert "latest.safetensors is damaged" in error
    assert "restore it from a copy, or run the experiment again" in error


def test_no_flipped_bit_changes_what_is_resumed(run: Interrupted) -> None:
    path, chance = run.folder / CHECKPOINT, random.Random(1)
    whole, notes = path.read_bytes(), statefile.notes_of(path)
    for _ in range(300):
        flip(path, chance.randrange(len(whole)), chance.randrange(8))
        try:
            run.check()
        except UserError:
            pass  # expected
        else:
            assert statefile.notes_of(path) == notes  # a blank within the header of the file
        path.write_bytes(whole)


def test_a_checkpoint_without_hashes_is_refused(run: Interrupted, capsys: pytest.CaptureFixture[str]) -> None:
    old = {"format": "3", "t": "12.5", "version": "7", "trace_bytes": "10"}
    statefile.draft([], ()).write(run.folder / CHECKPOINT, old)
    error = refusal(run, capsys)
    assert "cannot be checked by this one; resume it with that version" in error


def test_arrays_of_any_byte_order_are_hashed_as_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "state"
    statefile.draft([np.arange(4, dtype=">f4"), np.array(3.5), np.arange(6).reshape(2, 3).T], ()).write(path, {})
    statefile.check(path)


# ---- the trace


def test_a_damaged_line_before_the_checkpoint_is_refused_with_its_number(
    run: Interrupted, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run.trace.read_bytes().splitlines(keepends=True)
    lines[4] = b"#" + lines[4][1:]
    run.trace.write_bytes(b"".join(lines))
    error = refusal(run, capsys)
    assert "trace.jsonl, line 5: " in error
    assert "this line has changed since the checkpoint; restore it from a copy" in error


def test_a_changed_number_before_the_checkpoint_is_refused(
    run: Interrupted, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run.trace.read_bytes()
    run.trace.write_bytes(text.replace(b'"seed":7', b'"seed":6', 1))
    error = refusal(run, capsys)
    assert f"has changed since the checkpoint, in one of its first {len(BEFORE)} lines" in error


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "damage",
    [
        lambda after: b"",
        lambda after: after[:-5],  # torn, as a crash leaves it
        lambda after: b"#" + after[1:],
        lambda after: b"\0" * len(after),
    ],
)
def test_lines_after_the_checkpoint_may_be_missing_torn_or_damaged(damage: Damage, run: Interrupted) -> None:
    length = checkpoint.saved(run.folder).trace.bytes
    text = run.trace.read_bytes()
    run.trace.write_bytes(text[:length] + damage(text[length:]))
    run.check()
    roll_back(run.folder, length)
    assert list(read(run.trace)) == list(BEFORE)


def test_a_packed_trace_is_checked_as_well(run: Interrupted, capsys: pytest.CaptureFixture[str]) -> None:
    text = run.trace.read_bytes()
    run.trace.unlink()
    (run.folder / "trace.jsonl.gz").write_bytes(gzip.compress(text))
    copy = run.folder.with_name("copy")
    shutil.copytree(run.folder, copy)
    run.check()
    (copy / "trace.jsonl.gz").write_bytes(gzip.compress(text.replace(b'"seed":7', b'"seed":6', 1)))
    with pytest.raises(UserError, match="has changed since the checkpoint"):
        resuming.checked(copy)


def test_a_resumed_writer_continues_the_hash(run: Interrupted) -> None:
    """The second checkpoint of a resumed run describes the whole trace: what was kept, and what was appended."""
    length = checkpoint.saved(run.folder).trace.bytes
    writer = TraceWriter(run.trace, continues_at=length)
    roll_back(run.folder, length)
    more: tuple[Event, ...] = EVENTS[2:]
    for event in more:
        writer.write(event)
    writer.flush()
    assert writer.mark == mark_of(run.trace, run.trace.stat().st_size)
    writer.close()
    assert list(read(run.trace)) == [*BEFORE, *more]
