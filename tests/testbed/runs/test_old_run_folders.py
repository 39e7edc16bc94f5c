"""Run folders of trace schema 4 give the figures that the code which wrote them gave.

``tests/fixtures/schema4`` holds three such folders, and in ``expected`` what the commands of that code printed about
them. A key that has another name today is listed here; sentences are not compared, only their number.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.cli.main import main
from testbed.common.files import statefile
from testbed.fidelity.certify import certify
from testbed.history import trace
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.profile import fleet
from testbed.replay import recording
from testbed.report import sections
from testbed.report.content import report_data, report_tables
from testbed.report.content.report_data import RunData
from testbed.report.figures import heads, style
from testbed.runs.results import columns
from testbed.runs.stored_run import StoredRun
from tests.testbed.runs.folders import plain

RUNS = ("clusters", "delays", "asafl")
OLD = Path(__file__).parents[2] / "fixtures" / "schema4"
RENAMED = {"rule": "strategy"}
"""Keys of the old output → keys of today."""
FIGURES = {"notes": "samples", "taken_up_p99_s": "handled_p99_s"}
"""The same for the figures of a certificate."""
SENTENCES = ("notes", "verdict", "target_is", "paired_by", "title")
"""Keys whose values are sentences: how many, and whether there is one, is compared."""
CONSTANTS = ["--L", "1", "--mu", "0.1", "--R", "5", "--G", "2", "--phi", "0.5"]


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the three old runs, which is also the current one; nothing is written into the fixtures."""
    for name in RUNS:
        shutil.copytree(OLD / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest) -> RunData:
    return report_data.gather(StoredRun.open(OLD / request.param))


def expected(name: str) -> Any:
    return _in_todays_words(json.loads((OLD / "expected" / name).read_text(encoding="utf-8")))


def _in_todays_words(value: Any) -> Any:
    """Output with the keys of today; sentences are replaced by their number."""
    if isinstance(value, dict):
        return {
            RENAMED.get(key, key): _count(item) if key in SENTENCES else _in_todays_words(item)
            for key, item in value.items()
            if key != "files"
        }
    return [_in_todays_words(item) for item in value] if isinstance(value, list) else value


def _count(sentences: Any) -> int:
    return len(sentences) if isinstance(sentences, list) else int(bool(sentences))


def printed(capsys: pytest.CaptureFixture[str], place: Path, *command: str, code: int = 0) -> Any:
    """What a command prints as JSON, with paths below ``place`` made relative."""
    capsys.readouterr()
    assert main([*command, "--format", "json"]) == code
    return _in_todays_words(json.loads(capsys.readouterr().out.replace(f"{place}/", "")))


def test_the_folders_are_of_the_old_schema() -> None:
    for name in RUNS:
        with gzip.open(OLD / name / "trace.jsonl.gz", "rt") as file:
            assert json.loads(next(file))["schema"] == 4


# ---- commands


@pytest.mark.parametrize("name", RUNS)
def test_trace_show_gives_the_same_figures(name: str, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, old, "trace", "show", name) == expected(f"{name}/trace-show.json")


def test_trace_compare_gives_the_same_figures(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = printed(capsys, old, "trace", "compare", "clusters", "clusters")
    assert same == expected("trace-compare-same.json")
    different = printed(capsys, old, "trace", "compare", "delays", "asafl", code=1)
    assert different == expected("trace-compare-different.json")


@pytest.mark.parametrize("name", RUNS)
def test_trace_export_writes_the_same_files(name: str, old: Path) -> None:
    for form, files in expected("exports.json")[name].items():
        out = old / "exported" / form
        assert main(["trace", "export", name, "--format", form, "--out", str(out)]) == 0
        assert {path.name: _digest(path, form) for path in out.iterdir()} == files


def _digest(path: Path, form: str) -> str:
    """The first line of a CSV names the version of the program: it is left out."""
    content = path.read_bytes()
    return hashlib.sha256(content.partition(b"\n")[2] if form == "csv" else content).hexdigest()


def test_theory_gives_the_same_bounds(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, old, "theory", "delays", *CONSTANTS)
    assert found == expected("theory.json")


def test_compare_gives_the_same_figures(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, old, "compare", *RUNS, "--out", "compared") == expected("compare.json")
    for name in ("compare.csv", "paired.csv", "runs.csv"):
        written = (old / "compared" / name).read_text(encoding="utf-8").replace(f"{old}/", "")
        assert written == (OLD / "expected" / name).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_report_writes_a_page_with_the_same_key_figures(name: str, old: Path) -> None:
    assert main(["report", name, "--figures", "figures"]) == 0
    page = (old / name / "report.html").read_text(encoding="utf-8")
    before = expected(f"{name}/report.json")
    for figure, value, _ in before["key_figures"]:
        assert f"<dt>{figure}</dt>" in page
        assert f"<strong>{value}</strong>" in page
    drawn = [each for section in before["figures"].values() for each in section]
    assert {path.stem for path in Path("figures").iterdir()} == set(drawn)


# ---- the values of a report


def test_facts_and_key_figures_are_the_same(run: RunData) -> None:
    before = expected(f"{run.header.name}/report.json")
    facts = dict(report_tables.facts(run))
    assert set(facts) == set(before["facts"])
    for name in set(facts) - {"what it does"}:  # a sentence
        assert facts[name] == before["facts"][name]
    assert [list(each) for each in report_tables.key_figures(run)] == before["key_figures"]
    assert [list(each) for each in report_tables.levels(run)] == before["levels"]
    assert run.missing == run.notes == []


def test_the_table_of_devices_is_the_same(run: RunData) -> None:
    columns = {each.title: [list(cell) for cell in each.cells] for each in report_tables.device_columns(run)}
    assert columns == expected(f"{run.header.name}/report.json")["device_columns"]


def test_clusters_and_their_heads_are_the_same(run: RunData) -> None:
    before, found = expected(f"{run.header.name}/report.json"), run.clusters
    values = {
        "clusterings": [asdict(each) for each in found.clusterings],
        "replaced": [asdict(each) for each in found.replaced],
        "head_terms": [asdict(each) for each in found.head_terms],
        "by_heads": found.by_heads,
        "by_devices": found.by_devices,
        "merged": found.merged,
    }
    assert _plain(values) == before["clusters"]
    assert _plain([table.rows for table in heads.tables(run)]) == before["head_tables"]


def test_figures_and_their_values_are_the_same(run: RunData) -> None:
    before = expected(f"{run.header.name}/report.json")
    with style.style():
        drawn = [[picture.name for picture in section.pictures] for section in sections.draw(run)]
    assert drawn == list(before["figures"].values())
    assert run.wasted == before["wasted"]
    lanes = before["lanes"]
    assert run.lanes.shares.round(12).tolist() == lanes["shares"]
    assert (run.lanes.dropped, len(run.lanes.scripted)) == (lanes["dropped"], lanes["scripted"])


def _plain(value: Any) -> Any:
    """As JSON would store it: keys are texts, tuples are lists."""
    return json.loads(json.dumps(value))


# ---- the files of the run folder


def test_the_files_of_the_folder_still_follow_from_its_trace(run: RunData) -> None:
    for name, rows in (("metrics.csv", run.scores), ("versions.csv", run.versions), ("devices.csv", run.devices)):
        cells = [columns.as_cells(row) for row in rows]
        assert [_texts(row, written) for row, written in zip(cells, _rows(run, name), strict=True)] == _rows(run, name)
    stored = json.loads((run.path.parent / "summary.json").read_text(encoding="utf-8"))
    found = plain(run.summary)
    newer = {"schema", "replay", "torn_line", "clipped", "out_of_range", "model_sha256", "clock"}
    assert found.keys() - stored.keys() == newer
    follow = stored.keys() - {"fidelity", "host_energy"}  # these need more than the trace
    assert {key: found[key] for key in follow} == {key: stored[key] for key in follow}


def _rows(run: RunData, name: str) -> list[dict[str, str]]:
    with (run.path.parent / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _texts(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, str]:
    return {name: "" if row.get(name) is None else str(row[name]) for name in columns}


def test_the_certificate_still_follows_from_the_trace(run: RunData) -> None:
    folder = run.path.parent
    stored = json.loads((folder / "fidelity.json").read_text(encoding="utf-8"))
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    survey = msgspec.convert(meta["calibration"], type=Survey, strict=False)
    devices = fleet.concrete(profile_loader.load(folder / "profile.toml"), survey)
    found = plain(certify(trace.read(run.path), devices))
    assert list(_lines(found)) == list(_lines(stored))


def _lines(certificate: Mapping[str, Any]) -> Iterator[object]:
    yield certificate["verdict"]
    for line in certificate["invariants"]:
        figures = {FIGURES.get(key, key): value for key, value in line["figures"].items()}
        yield _plain([line["name"], line["verdict"], line["worst"], figures])


def test_an_old_trace_can_be_replayed(run: RunData) -> None:
    found = recording.gather(trace.read(run.path), use="obtained")
    assert msgspec.to_builtins(found, str_keys=True) == expected(f"{run.header.name}/recording.json")


def test_the_stored_files_are_read_as_their_types(run: RunData) -> None:
    stored = StoredRun.open(run.path.parent)
    assert stored.metrics.rows == tuple(run.scores)
    assert stored.versions.rows == tuple(run.versions)
    assert stored.devices.rows == tuple(run.devices)
    assert stored.summary.fidelity == stored.certificate is not None
    assert stored.meta is not None
    assert stored.meta.calibration is not None
    assert stored.profile is not None
    assert stored.profile.name == run.header.name
    beyond = {"fidelity": None, "host_energy": None}
    newer = {"model_sha256": run.summary.model_sha256}
    assert msgspec.structs.replace(stored.summary, **beyond, **newer) == run.summary


# ---- what is refused


def test_resuming_an_old_run_is_refused_in_one_line(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its checkpoint has no note about its format: that came with schema 5."""
    folder = old / "clusters"
    notes = {"t": "6.0", "version": "8", "trace_bytes": "100"}
    (folder / "checkpoints").mkdir()
    statefile.draft({"version": 8}, ()).write(folder / "checkpoints" / "latest.safetensors", notes)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    capsys.readouterr()
    assert main(["resume", str(folder)]) == 2
    refused = capsys.readouterr().err
    assert refused.startswith(f"error: {folder}: ")
    assert "another version of Edgebed" in refused
    assert refused.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
