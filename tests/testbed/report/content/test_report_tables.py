"""The tables of a report."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from testbed.history import trace
from testbed.history.trace import Event
from testbed.host.rapl import HostEnergy
from testbed.report.content import report_tables
from testbed.report.content.report_data import RunData
from tests.testbed.analysis import histories
from tests.testbed.report.examples import HEADER, REPLAY, SMALL, gathered, without_power, write


@pytest.fixture
def small(tmp_path: Path) -> RunData:
    return gathered(write(tmp_path, beside=True))


def run_of(folder: Path, events: list[Event]) -> RunData:
    return gathered(write(folder, events))


def test_what_was_run(small: RunData) -> None:
    facts = dict(report_tables.facts(small))
    assert facts["strategy"] == "fedasync (alpha 0.5)"
    assert facts["task"] == "digits (model small-cnn)"
    assert facts["time"] == "8.0 s emulated, 16.0 s on the host (dilation 2)"
    assert facts["began"] == "2026-01-02 03:04:05 UTC on a host"
    assert (facts["seed"], facts["devices"], facts["stopped"]) == ("7", "2", "over")


def test_facts_of_a_bare_trace_name_what_is_unknown(tmp_path: Path) -> None:
    facts = dict(report_tables.facts(run_of(tmp_path, SMALL[:-1])))
    assert facts["task"] == "unknown: there is no profile.toml beside the trace"
    assert facts["stopped"] == "the trace has no end"


def test_resumptions_and_restarts_are_shown_only_if_there_were_any(tmp_path: Path, small: RunData) -> None:
    (tmp_path / "other").mkdir()
    resumed = trace.Resumed(t=7.5, version=0, undone=2, dilation=4.0, started="")
    facts = dict(report_tables.facts(run_of(tmp_path / "other", [*SMALL[:-1], resumed, SMALL[-1]])))
    assert facts["resumed"] == "from a checkpoint, at 7.5 s"
    assert "dilation 4" in facts["time"]
    assert not {"resumed", "restarted devices"} & dict(report_tables.facts(small)).keys()


def test_refusals_are_shown_with_their_reasons_if_there_were_any(tmp_path: Path, small: RunData) -> None:
    (tmp_path / "other").mkdir()
    refusals = [
        trace.Refusal(t=2.0, peer="stranger/", reason="a handshake that failed", count=457_000),
        trace.Refusal(t=2.0, peer="stranger/<b>", reason="unknown device", count=435),
    ]
    facts = dict(report_tables.facts(run_of(tmp_path / "other", [*SMALL[:-1], *refusals, SMALL[-1]])))
    shown = " ".join(facts["refused"].split())  # thin spaces between thousands
    assert shown == "457 435 messages and connections: 457 000 × a handshake that failed; 435 × unknown device"
    assert "refused" not in dict(report_tables.facts(small))


def test_the_key_figures(small: RunData) -> None:
    cards = {card.name: (card.value, card.more) for card in report_tables.key_figures(small)}
    assert cards["final accuracy"] == ("0.750", "best 0.750")
    assert cards["versions"] == ("2", "in 8.0 s")
    assert cards["updates applied"] == ("2", "of 3 dispatched; 1 in flight")
    assert cards["mean staleness"] == ("0", "0 at most, in versions")
    assert cards["bytes"] == ("3.2 kB", "200 B up, 3 kB down")
    assert cards["wasted energy (proxy)"][0] == "0.5 J"
    assert "energy (proxy)" in cards
    assert cards["fairness"] == ("0.500", "Jain's index; Gini 0.500")


ROUNDS: list[Event] = [
    trace.Round(t=4.0, number=1, devices=["a", "b"], seconds=[2.0, 3.5]),
    trace.Round(t=7.0, number=2, devices=["a"], seconds=[2.0]),
]


def test_rounds_are_key_figures_with_the_measures_of_their_paper(tmp_path: Path) -> None:
    run = run_of(tmp_path, [*SMALL[:-1], *ROUNDS, SMALL[-1]])
    cards = {card.name: (card.value, card.more) for card in report_tables.key_figures(run)}
    assert cards["rounds"] == ("2", "Σ(max − min) 1.5 s")
    assert cards["E_proxy"] == (f"{histories.WATTS.compute * 7.5:.0f} J", "Σ P·τ of the rounds")


def test_rounds_without_power_models_have_no_joules(tmp_path: Path) -> None:
    run = run_of(tmp_path, without_power([*SMALL[:-1], *ROUNDS, SMALL[-1]], "b"))
    assert [card.value for card in report_tables.key_figures(run) if "E_proxy" in card.name] == ["no power model"]


def test_a_strategy_without_rounds_has_no_key_figures_of_them(small: RunData) -> None:
    assert not {"rounds", "E_proxy"} & {card.name for card in report_tables.key_figures(small)}


def test_joules_are_always_called_a_proxy(small: RunData) -> None:
    for card in report_tables.key_figures(small):
        assert f"{card.value} {card.more} ".count(" J ") == 0 or "proxy" in card.name
    for column in report_tables.device_columns(small):
        assert not any(cell.text.endswith(" J") for cell in column.cells) or "proxy" in column.title
    assert (
        report_tables.energy_note(small) == "Joules are a proxy: watts by state × emulated seconds, not a measurement."
    )


def test_without_power_models_there_are_no_joules_and_not_0(tmp_path: Path) -> None:
    run = run_of(tmp_path, without_power(SMALL, "a", "b"))
    [energy] = [card for card in report_tables.key_figures(run) if "energy" in card.name]
    assert (energy.value, energy.more) == ("no power model", "so there are no joules")
    assert {row[2] for row in report_tables.levels(run)} == {"no power model"}
    assert report_tables.energy_note(run) == "No device has a power model, so there are no joules."
    assert not [column for column in report_tables.device_columns(run) if "proxy" in column.title]


def test_devices_without_a_power_model_are_counted(tmp_path: Path) -> None:
    run = run_of(tmp_path, without_power(SMALL, "b"))
    [energy] = [card for card in report_tables.key_figures(run) if "energy" in card.name]
    assert (energy.value, energy.more) == ("no power model", "for 1 device: no joules of the fleet")
    assert report_tables.energy_note(run).endswith("Without a power model, and left out: 1 device.")
    [column] = [column for column in report_tables.device_columns(run) if column.title == "energy (proxy)"]
    assert [cell.text for cell in column.cells] == ["55.5 J", "–"]  # 40 computing, 8 idle, 1.5 receiving, 6 sending
    assert [cell.order for cell in column.cells] == ["55.5", ""]


def test_a_run_in_which_nothing_was_scored(tmp_path: Path) -> None:
    run = run_of(tmp_path, [event for event in SMALL if not isinstance(event, trace.Scored)])
    assert report_tables.key_figures(run)[0] == ("final accuracy", "–", "no version was scored")
    assert report_tables.levels(run) == []


def test_costs_of_accuracies(small: RunData) -> None:
    assert [row[:2] for row in report_tables.levels(small)] == [
        ("0.5", "4.0 s"),
        ("0.6", "7.0 s"),
        ("0.7", "7.0 s"),
        ("0.75", "7.0 s"),
    ]
    assert report_tables.levels(small)[0][3] == "2.1 kB"


def test_a_replay(small: RunData, tmp_path: Path) -> None:
    assert report_tables.replay(small) == (
        "strict replay of runs/old/trace.jsonl: 100.0 % of 2 arrivals in the recorded order; the same sequence of"
        " staleness; no final model to compare; 1 delay beyond the recording (loop)."
    )
    assert report_tables.replay_rows(small) == [
        ("computing", "2", "1 ms", "2 ms", "3 ms"),
        ("all", "2", "1 ms", "2 ms", "3 ms"),
    ]
    other = run_of(tmp_path / "other", SMALL)
    assert (report_tables.replay(other), report_tables.replay_rows(other)) == ("", [])


@pytest.mark.parametrize(
    ("same", "model"), [(True, "the same final model, bit by bit"), (False, "another final model")]
)
def test_a_replay_with_a_final_model(tmp_path: Path, same: bool, model: str) -> None:
    path = write(tmp_path, beside=True)
    changes = {"same_model": same, "arrivals_in_order": None, "same_staleness": False}
    (tmp_path / "replay.json").write_text(json.dumps(REPLAY | changes), encoding="utf-8")
    text = report_tables.replay(gathered(path))
    assert f"no arrivals to compare; another sequence of staleness; {model};" in text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"same_losses": True, "same_versions": True, "transfers_common": 8, "losses_differ": 0},
            "the same local losses; the same number of versions;"
            " none of 8 transfers arrived in one run and were lost in the other;",
        ),
        (
            {"same_losses": False, "same_versions": False, "transfers_common": 8, "losses_differ": 2},
            "other local losses; another number of versions;"
            " 2 of 8 transfers arrived in one run and were lost in the other;",
        ),
    ],
)
def test_what_a_newer_certificate_compares(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    path = write(tmp_path, beside=True)
    (tmp_path / "replay.json").write_text(json.dumps(REPLAY | changes), encoding="utf-8")
    assert f"the same sequence of staleness; {text}" in report_tables.replay(gathered(path))


def test_a_replay_without_its_recording_shows_the_problem(tmp_path: Path) -> None:
    path = write(tmp_path)
    table = {"trace": "runs/old", "mode": "strict", "problem": "runs/old: does not exist"}
    (tmp_path / "replay.json").write_text(json.dumps(table), encoding="utf-8")
    run = gathered(path)
    assert report_tables.replay(run) == "strict replay of runs/old: not certified: runs/old: does not exist."
    assert (report_tables.replay_rows(run), run.notes) == ([], [])


def test_the_joules_of_the_host_are_called_measured(small: RunData) -> None:
    measured = HostEnergy(joules={"0": 100.0, "1": 20.0}, seconds=16.0, what="measured by RAPL")
    stored = msgspec.json.encode(msgspec.structs.replace(small.summary, host_energy=measured))
    (small.path.parent / "summary.json").write_bytes(stored)
    assert dict(report_tables.facts(gathered(small.path)))["energy of the host"] == "120 J in 16.0 s, measured by RAPL"


def test_columns_without_values_are_left_out(small: RunData) -> None:
    titles = [column.title for column in report_tables.device_columns(small)]
    assert titles[:3] == ["device", "samples", "jobs"]
    assert "dead" in titles
    assert not {"rejected", "superseded", "suspended"} & set(titles)


def test_every_column_has_a_cell_for_every_device(small: RunData) -> None:
    assert {len(column.cells) for column in report_tables.device_columns(small)} == {2}


def test_a_run_without_devices_has_tables(tmp_path: Path) -> None:
    run = run_of(tmp_path, [msgspec.structs.replace(HEADER, parameters={})])
    assert [column.title for column in report_tables.device_columns(run)] == ["device"]
    assert dict(report_tables.facts(run))["strategy"] == "fedasync"


def test_the_compression_of_updates_is_shown_only_if_there_is_one(tmp_path: Path, small: RunData) -> None:
    def compressed(event: trace.Event) -> trace.Event:
        if not isinstance(event, trace.Joined):
            return event
        return msgspec.structs.replace(event, compress_updates="topk:0.01" if event.device == "a" else "none")

    (tmp_path / "other").mkdir()
    facts = dict(report_tables.facts(run_of(tmp_path / "other", [compressed(event) for event in SMALL])))
    assert facts["compressed updates"] == "topk:0.01 (1 device), none (1 device)"
    assert "compressed updates" not in dict(report_tables.facts(small))
