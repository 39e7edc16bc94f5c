"""What cannot be read is refused with one line that names the file and the remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.common.errors import NotARun, ProfileError, UnreadableFile, UserError
from testbed.runs import sweep_state
from testbed.runs.stored_run import StoredRun
from tests.testbed.runs.complete import RESULTS, complete_run

TABLES = tuple(name for name in RESULTS if name.endswith(".csv"))
REMEDY = "; restore it, or delete it to do without it"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return complete_run(tmp_path_factory.mktemp("place"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def refused(kind: type[UserError], read: Callable[[], object]) -> str:
    """The text of the error, which is one line and exactly of this type."""
    with pytest.raises(UserError) as caught:
        read()
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


def attribute_of(file: str) -> str:
    names = {"fidelity.json": "certificate", "replay.json": "replay_certificate"}
    return names.get(file, file.partition(".")[0])


def read(folder: Path, file: str) -> object:
    return getattr(StoredRun.open(folder), attribute_of(file))


# ---- what is no run


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    text = refused(NotARun, lambda: StoredRun.open(tmp_path))
    assert text == f"{tmp_path}: has no trace.jsonl; name the folder of a run, such as runs/NAME-YYYYmmdd-HHMMSS"


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    text = refused(NotARun, lambda: StoredRun.open(tmp_path / "gone"))
    assert text.startswith(f"{tmp_path / 'gone'}: there is no such run folder or trace; ")


@pytest.mark.parametrize("name", ["summary.json", "report.html", "trace.json", "trace.gz", "trace.jsonl.xz"])
def test_another_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    text = refused(NotARun, lambda: StoredRun.open(tmp_path / name))
    problem = "is a file, but no trace of a run (.jsonl, .jsonl.gz); name the folder of a run"
    assert text == f"{tmp_path / name}: {problem}"


def test_the_folder_of_a_sweep(tmp_path: Path) -> None:
    (tmp_path / sweep_state.NAME).touch()
    (tmp_path / "trace.jsonl").touch()
    text = refused(NotARun, lambda: StoredRun.open(tmp_path))
    assert text.startswith(f"{tmp_path}: is the folder of a sweep; name one of its runs")


# ---- half-written and newer files


@pytest.mark.parametrize("file", RESULTS)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0], ids=lambda share: f"{share:.0%}")
def test_a_half_written_result_file(folder: Path, file: str, share: float) -> None:
    path = folder / file
    text = path.read_text(encoding="utf-8").rstrip()
    path.write_text(text[: int(share * len(text)) - 1] if share else "", encoding="utf-8")
    problem = refused(UnreadableFile, lambda: read(folder, file))
    assert problem.startswith(f"{path}: is not complete, or ")
    assert problem.endswith(REMEDY)


@pytest.mark.parametrize("file", TABLES)
@pytest.mark.parametrize("change", [",5", "#"], ids=["a cell too many", "text for a number"])
def test_a_table_with_a_wrong_line(folder: Path, file: str, change: str) -> None:
    path = folder / file
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[-1] = f"{lines[-1]}{change}" if change.startswith(",") else lines[-1].replace(".", change)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    problem = refused(UnreadableFile, lambda: read(folder, file))
    assert problem.startswith(f"{path}: is not complete, or not a {file} of a run: ")
    assert problem.endswith(REMEDY)


@pytest.mark.parametrize("file", TABLES)
def test_a_table_without_one_of_its_columns(folder: Path, file: str) -> None:
    path = folder / file
    text = path.read_text(encoding="utf-8").replace("time_s", "when").replace("samples", "amount")
    path.write_text(text, encoding="utf-8")
    problem = refused(UnreadableFile, lambda: read(folder, file))
    assert "missing required field" in problem
    assert problem.startswith(f"{path}: ")


@pytest.mark.parametrize("file", ["summary.json", "fidelity.json", "replay.json", "meta.json"])
@pytest.mark.parametrize("text", ["[1]", "5", "null", '{"seed": []}'])
def test_another_json_file_under_the_name_of_a_result(folder: Path, file: str, text: str) -> None:
    path = folder / file
    path.write_text(text, encoding="utf-8")
    problem = refused(UnreadableFile, lambda: read(folder, file))
    assert problem.startswith(f"{path}: is not a {file} of a run: ")
    assert problem.endswith(REMEDY)


@pytest.mark.parametrize("file", ["summary.json", "meta.json"])
def test_a_newer_schema_of_a_file_even_if_its_keys_are_unknown(folder: Path, file: str) -> None:
    path = folder / file
    path.write_text('{"schema": 99, "seed": {"unheard": "of"}}', encoding="utf-8")
    problem = refused(UnreadableFile, lambda: read(folder, file))
    assert problem == f"{path}: schema 99, of a newer version of Edgebed; this one reads up to 1: update it"


@pytest.mark.parametrize("file", [*RESULTS, "meta.json"])
def test_bytes_that_are_no_text(folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"\xff\xfe\x00")
    problem = refused(UnreadableFile, lambda: read(folder, file))
    assert problem.startswith(f"{folder / file}: is not ")
    assert problem.endswith(REMEDY)


@pytest.mark.parametrize("file", [*RESULTS, "meta.json"])
def test_a_folder_in_the_place_of_a_file(folder: Path, file: str) -> None:
    (folder / file).unlink()
    (folder / file).mkdir()
    problem = refused(UnreadableFile, lambda: read(folder, file))
    assert problem == f"{folder / file}: cannot be read: Is a directory{REMEDY}"


# ---- the trace


def test_a_newer_schema_of_the_trace(folder: Path) -> None:
    path = folder / "trace.jsonl"
    path.write_text('{"kind":"header","t":0.0,"schema":99,"unheard":1}\n', encoding="utf-8")
    run = StoredRun.open(folder)
    for use in (lambda: run.header, lambda: list(run.events()), lambda: run.computed_summary):
        problem = refused(UserError, use)
        assert problem.startswith(f"{path}, line 1: schema 99; this version reads 4 to ")
        assert problem.endswith("; choose another run")


@pytest.mark.parametrize("content", [b"", b'{"kind":"hea'], ids=["empty", "torn"])
def test_a_trace_without_a_header(folder: Path, content: bytes) -> None:
    (folder / "trace.jsonl").write_bytes(content)
    run = StoredRun.open(folder)
    for use in (lambda: run.header, lambda: run.totals, lambda: run.computed_summary):
        problem = refused(UserError, use)
        assert problem == (
            f"{folder / 'trace.jsonl'}: has no header, so that its strategy is unknown; choose another run"
        )


def test_events_that_contradict_each_other(folder: Path) -> None:
    path = folder / "trace.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"joined"' not in line), encoding="utf-8")
    problem = refused(UserError, lambda: StoredRun.open(folder).totals)
    assert problem.startswith(f"{path}: its events are inconsistent (")
    assert problem.endswith("; choose another run")


# ---- the model and the profile


def test_a_run_without_a_final_model(folder: Path) -> None:
    (folder / "checkpoints" / "final.safetensors").unlink()
    problem = refused(UserError, StoredRun.open(folder).model)
    assert problem == (
        f"{folder}: has no final model (checkpoints/final.safetensors): the run did not end, or the file was removed,"
        " or this is a trace alone; resume the run, or run the experiment again"
    )


@pytest.mark.parametrize("size", [0, 4, 50])
def test_a_damaged_final_model(folder: Path, size: int) -> None:
    path = folder / "checkpoints" / "final.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    problem = refused(UnreadableFile, StoredRun.open(folder).model)
    assert problem.startswith(f"{path}: is not complete, or damaged: ")
    assert problem.endswith("; run the experiment again")


def test_a_profile_that_is_no_toml(folder: Path) -> None:
    path = folder / "profile.toml"
    path.write_text("name = ", encoding="utf-8")
    run = StoredRun.open(folder)
    for use in (lambda: run.profile_table, lambda: run.profile):
        problem = refused(UnreadableFile, use)
        assert problem.startswith(f"{path}: not valid TOML: ")
        assert problem.endswith(REMEDY)
    assert run.profile_text == "name = "


def test_a_profile_that_is_no_text(folder: Path) -> None:
    (folder / "profile.toml").write_bytes(b"\xff\xfe")
    problem = refused(UnreadableFile, lambda: StoredRun.open(folder).profile_text)
    assert problem.startswith(f"{folder / 'profile.toml'}: cannot be read: ")
    assert problem.endswith(REMEDY)


def test_a_profile_of_another_kind(folder: Path) -> None:
    path = folder / "profile.toml"
    path.write_text("unheard = 5\n", encoding="utf-8")
    run = StoredRun.open(folder)
    problem = refused(ProfileError, lambda: run.profile)
    assert problem.startswith(f"{path}: ")
    assert run.profile_table == {"unheard": 5}
