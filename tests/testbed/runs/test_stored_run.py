"""A stored run: from its files, from its trace alone, packed, and after a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from testbed.analysis import metrics
from testbed.analysis.totals import totals
from testbed.common.errors import UserError
from testbed.common.json_text import json_text
from testbed.history import packing
from testbed.profile.schema import Experiment
from testbed.runs.results.certificate import Certificate
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.stored_run import StoredRun
from tests.testbed.runs.complete import ENERGY, EVENTS, MODEL, RESULTS, SCORES, complete_run
from tests.testbed.runs.folders import counted_reads

TABLES = ("metrics", "versions", "devices", "rounds")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return complete_run(tmp_path_factory.mktemp("place"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A complete run that a test may change."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def without_results(folder: Path) -> Path:
    for name in RESULTS:
        (folder / name).unlink()
    return folder


# ---- complete


def test_a_complete_run_is_read_from_its_files(folder: Path) -> None:
    run = StoredRun.open(folder)
    assert (run.path, run.folder, run.trace) == (folder, folder, folder / "trace.jsonl")
    assert repr(run) == f"StoredRun.open({str(folder)!r})"
    assert run.header == EVENTS[0]
    assert list(run.events()) == EVENTS
    summary = run.summary
    assert (summary.schema, summary.name, summary.applied, summary.target_accuracy) == (1, "demo", 1, 0.75)
    assert (summary.host_energy, summary.torn_line) == (ENERGY, None)
    assert isinstance(run.certificate, Certificate)
    assert isinstance(run.replay_certificate, ReplayCertificate)
    assert (summary.fidelity, summary.replay) == (run.certificate, run.replay_certificate)
    assert [row.scores for row in run.metrics.rows] == [{"accuracy": 0.75}, SCORES]
    assert (run.versions["version"], run.devices["device"], run.rounds["round"]) == ([1], ["a"], [1])


def test_profile_meta_and_model_are_read(folder: Path) -> None:
    run = StoredRun.open(folder)
    assert isinstance(run.profile, Experiment)
    assert (run.profile.name, run.profile.seed, run.target_accuracy) == ("demo", 7, 0.75)
    assert run.profile_table is not None
    strategy = run.profile_table["strategy"]
    assert (strategy["name"], strategy["fraction"], strategy["optimizer"]) == ("fedavg", 1.0, "sgd")
    assert run.profile_text == (folder / "profile.toml").read_text(encoding="utf-8")
    meta = run.meta
    assert meta is not None
    assert meta.calibration is not None
    assert meta.core_plan is not None
    assert (meta.seed, meta.dilation, meta.calibration.crowd, meta.core_plan.devices) == (7, 2.0, {1: 1}, (0,))
    assert meta.profile is not None
    assert (meta.pids["rpi4-1"], Path(meta.profile).name) == (42, "mine.toml")
    model = run.model()
    assert model.keys() == MODEL.keys()
    assert all(np.array_equal(model[name], MODEL[name]) for name in MODEL)


def test_a_run_is_opened_by_its_folder_or_its_trace_as_text_or_path(folder: Path) -> None:
    places = (folder, str(folder), folder / "trace.jsonl", f"{folder}/trace.jsonl")
    assert {StoredRun.open(place).path for place in places} == {folder}


# ---- from the trace alone


def test_values_computed_from_the_trace_are_those_in_the_files(folder: Path) -> None:
    stored = StoredRun.open(folder)
    for name in (*TABLES, "summary"):
        assert getattr(stored, name)
    computed = StoredRun.open(without_results(folder))
    for name in TABLES:
        before, after = getattr(stored, name), getattr(computed, name)
        assert before.rows == after.rows
        assert dict(before) == dict(after)
        assert len(before.rows) > 0
    assert computed.stored_summary is None
    for field in computed.summary.__struct_fields__:
        if field not in ("fidelity", "replay", "host_energy"):  # these need more than the trace
            assert getattr(stored.summary, field) == getattr(computed.summary, field)
    assert (computed.summary.fidelity, computed.summary.replay, computed.summary.host_energy) == (None, None, None)
    assert (computed.certificate, computed.replay_certificate) == (None, None)


def test_a_packed_run_is_read_like_a_plain_one(folder: Path) -> None:
    plain = StoredRun.open(folder)
    values = [plain.header, list(plain.events()), plain.computed_summary]
    packing.pack(folder / "trace.jsonl")
    packed = StoredRun.open(folder)
    assert (packed.trace, packed.folder) == (folder / "trace.jsonl.gz", folder)
    assert [packed.header, list(packed.events()), packed.computed_summary] == values
    assert packed.summary == plain.summary
    assert StoredRun.open(without_results(folder)).devices == plain.devices


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.gz"])
def test_the_neighbours_of_a_trace_with_another_name_are_not_its_files(folder: Path, name: str) -> None:
    trace = folder / "trace.jsonl"
    trace.rename(folder / "mine.jsonl")
    if name.endswith(".gz"):
        packing.pack(folder / "mine.jsonl")
    for file in (*RESULTS, "meta.json", "profile.toml"):
        (folder / file).write_text("damaged", encoding="utf-8")  # and nobody notices
    run = StoredRun.open(folder / name)
    assert (run.folder, run.path, run.trace) == (None, folder / name, folder / name)
    assert (run.stored_summary, run.certificate, run.replay_certificate, run.meta) == (None, None, None, None)
    assert (run.profile, run.profile_table, run.profile_text, run.target_accuracy) == (None, None, None, None)
    assert (run.header, run.summary.applied, run.summary.target_accuracy) == (EVENTS[0], 1, None)
    assert (len(run.metrics.rows), len(run.versions.rows), len(run.devices.rows), len(run.rounds.rows)) == (2, 1, 1, 1)
    with pytest.raises(UserError, match="has no final model"):
        run.model()


# ---- killed


def test_a_killed_run_has_what_was_recorded(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints")
    trace = without_results(folder) / "trace.jsonl"
    trace.write_bytes(trace.read_bytes()[:-5])
    run = StoredRun.open(folder)
    assert (run.header, run.torn_line, run.torn_note()) == (EVENTS[0], None, None)  # not read to its end yet
    assert (run.summary.stopped, run.summary.torn_line) == ("the aggregator ended early", len(EVENTS))
    assert run.torn_line == len(EVENTS)
    assert run.torn_note() == f"{trace}, line {len(EVENTS)}: is torn, as a crash leaves it; it is left out"
    assert list(run.events()) == EVENTS[:-1]
    assert [len(getattr(run, name).rows) for name in TABLES] == [2, 1, 1, 1]
    assert (run.certificate, run.replay_certificate) == (None, None)
    assert run.profile is not None
    assert run.meta is not None
    expected = metrics.summary(totals(EVENTS[:-1]), 0.75)
    assert run.summary == replace(expected, rounds=run.summary.rounds, torn_line=len(EVENTS))


# ---- laziness


@pytest.mark.parametrize("damaged", [*RESULTS, "meta.json", "profile.toml", "trace.jsonl"])
def test_a_file_that_is_not_asked_for_is_not_read(folder: Path, damaged: str) -> None:
    (folder / damaged).write_text("damaged", encoding="utf-8")
    run = StoredRun.open(folder)
    needs = {
        "summary": "summary.json",
        "certificate": "fidelity.json",
        "replay_certificate": "replay.json",
        "meta": "meta.json",
        "profile": "profile.toml",
        "header": "trace.jsonl",
        **{name: f"{name}.csv" for name in TABLES},
    }
    for attribute, file in needs.items():
        if file == damaged:
            with pytest.raises(UserError) as caught:
                getattr(run, attribute)
            assert str(caught.value).startswith(str(folder / damaged))
        else:
            assert getattr(run, attribute) is not None


def test_without_the_profile_the_results_are_the_same_but_for_the_target(folder: Path) -> None:
    (without_results(folder) / "profile.toml").write_text("name = ", encoding="utf-8")
    run = StoredRun.open(folder)
    assert (run.target_accuracy, run.summary.target_accuracy, run.summary.applied) == (None, None, 1)


def test_the_results_of_a_complete_run_need_no_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted_reads(monkeypatch)
    run = StoredRun.open(folder)
    for name in (*TABLES, "summary", "certificate", "replay_certificate", "meta", "profile"):
        assert getattr(run, name) is not None
    assert found == []
    rounds = run.rounds.rows
    (folder / "rounds.csv").unlink()  # deleted: the summary says that there are rounds, and the trace has them
    assert StoredRun.open(folder).rounds.rows == rounds
    assert len(found) == 1
    stored = run.summary
    (folder / "summary.json").write_text(json_text(replace(stored, rounds=None)))
    assert StoredRun.open(folder).rounds.rows == (), "a strategy without rounds: no trace is read"
    assert len(found) == 1


def test_the_trace_is_decoded_once_for_all_attributes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted_reads(monkeypatch)
    run = StoredRun.open(without_results(folder))
    for name in (*TABLES, "summary", "computed_summary", "totals", "header", "target_accuracy"):
        assert getattr(run, name) is not None
        assert getattr(run, name) is not None
    assert found == [folder / "trace.jsonl"]


def test_the_header_is_read_without_the_rest_of_the_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "trace.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    found = counted_reads(monkeypatch)
    run = StoredRun.open(folder)
    assert run.header is run.header == EVENTS[0]
    assert found == [folder / "trace.jsonl"]


def test_a_pass_with_more_checkers_serves_the_attributes_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted_reads(monkeypatch)
    run = StoredRun.open(without_results(folder))
    spans: list[object] = []
    scanned = run.scan(listeners=[spans.append])
    assert len(spans) > 0
    assert run.totals is scanned.total
    assert run.rounds.rows == tuple(scanned.rounds)
    assert len(found) == 1
