"""``sweep.json``: the state from which an interrupted sweep continues."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from testbed.common.errors import UserError
from testbed.runs.sweep_state import DONE, FAILED, NAME, RUNNING, SweepCell, SweepStore, finished_runs, known, opened

COMMAND = ["run_testbed.py", "sweep", "my profile.toml"]


def cells(*names: str, digest: str = "d") -> list[SweepCell]:
    return [SweepCell(name=name, words=["run"], digest=digest, seconds=1.0) for name in names]


def finish(store: SweepStore, cell: SweepCell) -> Path:
    """Mark a run as finished without errors."""
    run = store.folder / cell.name / "run"
    run.mkdir(parents=True)
    (run / "trace.jsonl").touch()
    cell.state, cell.run = DONE, f"{cell.name}/run"
    store.save()
    return run


def test_a_sweep_continues_where_it_stopped(tmp_path: Path) -> None:
    with opened(tmp_path / "s", cells("a", "b"), COMMAND) as store:
        run = finish(store, store.cells[0])
        store.cells[1].state = RUNNING
        store.save()
    with opened(tmp_path / "s", cells("b", "a"), COMMAND) as again:  # the order does not matter
        assert [(cell.name, again.is_finished(cell)) for cell in again.cells] == [("a", True), ("b", False)]
    assert finished_runs(tmp_path / "s") == [run]
    assert [cell.state for cell in known(tmp_path / "s", cells("a", "b"))] == [DONE, RUNNING]


def test_a_run_whose_folder_is_gone_is_not_finished(tmp_path: Path) -> None:
    with opened(tmp_path, cells("a"), COMMAND) as store:
        (finish(store, store.cells[0]) / "trace.jsonl").unlink()
        assert not store.is_finished(store.cells[0])
    assert finished_runs(tmp_path) == []


def test_the_words_of_the_new_command_count(tmp_path: Path) -> None:
    with opened(tmp_path, cells("a"), COMMAND):
        pass
    new = cells("a")
    new[0].words = ["run", "spelled otherwise"]
    with opened(tmp_path, new, COMMAND) as store:
        assert store.cells[0].words == ["run", "spelled otherwise"]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (cells("a"), "b is not in this plan"),
        (cells("a", "b", "c"), "it has no c"),
        (cells("a", "b", digest="e"), "the experiment of a is not the same; a profile or a setting has changed"),
    ],
)
def test_another_plan_for_the_same_folder_is_refused(tmp_path: Path, other: list[SweepCell], problem: str) -> None:
    with opened(tmp_path, cells("a", "b"), COMMAND):
        pass
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(UserError) as caught, opened(tmp_path, other, COMMAND):
        pass
    assert str(caught.value) == (
        f"--out {tmp_path}: contains another sweep: {problem}; choose another folder, or repeat its own command"
        " (run_testbed.py sweep 'my profile.toml')"
    )
    assert (tmp_path / NAME).read_bytes() == before


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        opened(tmp_path, cells("a"), COMMAND),
        pytest.raises(UserError, match="a sweep is running there"),
        opened(tmp_path, cells("a"), COMMAND),
    ):
        pass


def test_the_files_of_a_failed_attempt_are_moved_and_nothing_is_overwritten(tmp_path: Path) -> None:
    with opened(tmp_path, cells("a"), COMMAND) as store:
        assert store.set_aside(store.cells[0]) is None
        for number in (1, 2):
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "half").write_text(str(number))
            assert store.set_aside(store.cells[0]) == tmp_path / "unfinished" / f"a-{number}"
        assert (tmp_path / "unfinished" / "a-1" / "half").read_text() == "1"


def test_a_crash_while_writing_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, cells("a"), COMMAND) as store:
        before = (tmp_path / NAME).read_bytes()
        store.cells[0].state = FAILED
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                store.save()
        assert (tmp_path / NAME).read_bytes() == before
        store.save()
    assert msgspec.json.decode((tmp_path / NAME).read_bytes())["cells"][0]["state"] == FAILED


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "cannot be read"), ('{"schema":99,"command":[],"cells":[]}', "this version reads 1")]
)
def test_a_foreign_sweep_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(UserError, match=problem), opened(tmp_path, cells("a"), COMMAND):
        pass


def test_a_folder_that_cannot_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written to"), opened(tmp_path / "file" / "s", cells("a"), COMMAND):
        pass
