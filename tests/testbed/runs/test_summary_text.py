"""What a user reads after a run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from rich.console import Console

from testbed.analysis import metrics
from testbed.analysis.totals import totals
from testbed.host.rapl import HostEnergy
from testbed.runs import summary_text
from testbed.runs.results.certificate import Certificate, Invariant, Verdict
from testbed.runs.results.summary import (
    ComputingSeconds,
    CostToReach,
    FinalModelDelivery,
    FleetEnergy,
    MetricRange,
    ModelOutOfRange,
    RoundSums,
    Summary,
)


def shown(summary: Summary, path: Path = Path("runs/x")) -> str:
    file = io.StringIO()
    summary_text.show(Console(file=file, width=200), summary, path)
    return file.getvalue()


# ---- the certificate


LINES = (
    Invariant(
        name="step time", verdict=Verdict.FAIL, found="round trips of pi-1 60% off", limits="≤ 5 %", worst="pi-1"
    ),
    Invariant(name="link delay", verdict=Verdict.WARN, found="p99 3 ms", limits="p99 ≤ 2 ms", worst="phone-2"),
    Invariant(name="causality", verdict=Verdict.PASS, found="0 too early", limits="none before"),
    Invariant(name="canary", verdict=Verdict.NOT_MEASURED, found="no device is paced"),
)


def summary(*lines: Invariant, verdict: Verdict = Verdict.FAIL, **changes: Any) -> Summary:
    certificate = Certificate(verdict=verdict, dilation=1.0, invariants=lines or LINES)
    return replace(metrics.summary(totals([])), fidelity=certificate, **changes)


def test_a_certificate_shows_its_verdict_and_every_invariant_that_did_not_pass() -> None:
    lines = shown(summary()).splitlines()
    assert "fidelity: FAIL (1 of 4 invariants hold; fidelity.json has the figures)" in lines
    (failed,) = [line for line in lines if "step time" in line]
    assert failed.split()[0] == "FAIL"
    assert "round trips of pi-1 60% off" in failed
    assert "≤ 5 %" in failed
    (unknown,) = [line for line in lines if "canary" in line]
    assert unknown.strip() == "not measured canary: no device is paced"
    assert not any("causality" in line for line in lines)


def test_a_certificate_that_passed_is_one_line() -> None:
    good = Invariant(name="causality", verdict=Verdict.PASS, found="0 too early", limits="none before")
    text = shown(summary(good, verdict=Verdict.PASS))
    assert text.splitlines()[-1] == "fidelity: PASS (1 of 1 invariants hold; fidelity.json has the figures)"


def test_an_invariant_that_did_not_pass_names_the_worst_device() -> None:
    text = shown(summary())
    (warned,) = [line for line in text.splitlines() if "link delay" in line]
    assert "phone-2" in warned


# ---- the summary


def test_a_summary_of_a_task_without_accuracy_has_its_other_metrics() -> None:
    last = {"mse": 3.16312, "loss": 1.5}
    scores = {name: MetricRange(last=value, lowest=0.0, highest=9.0) for name, value in last.items()}
    assert "mse 3.163, loss 1.5 after 0 versions" in shown(summary(scores=scores))
    assert "accuracy not measured after 0 versions" in shown(summary())


def test_a_summary_shows_restarted_devices_and_resumptions() -> None:
    text = shown(summary(restarts=2, resumed=1))
    assert "2 restarted devices, 1 times resumed" in text
    assert "resumed" not in shown(summary())


def test_a_summary_shows_that_updates_were_scaled_down_and_that_the_model_is_out_of_range() -> None:
    found = ModelOutOfRange(count=2, time_s=1.5, version=9, device="pi-1", norm=1.5e17)
    text = shown(summary(clipped=3, out_of_range=found))
    assert "3 updates were scaled down to aggregator.clip" in text
    assert (
        "the model is out of range since version 9, after an update of pi-1 (norm 1.5e+17): lower training.lr" in text
    )
    assert "(norm not finite)" in shown(summary(out_of_range=replace(found, norm=None)))
    assert "aggregator.clip" not in shown(summary())


def test_a_summary_shows_refusals_in_one_line_with_the_most_frequent_reasons() -> None:
    refusals = {"a handshake that failed": 450_000, "unknown device": 7_000, "not msgpack": 400, "3 frames": 35, "x": 1}
    lines = shown(summary(refused=457_436, refusals=refusals)).splitlines()
    assert (
        "refused: 457436 messages and connections; 450000 × a handshake that failed; 7000 × unknown device;"
        " 400 × not msgpack; 2 other reasons in summary.json"
    ) in lines
    assert "refused" not in shown(summary())


def test_a_summary_shows_how_the_run_ended_and_where_its_results_are() -> None:
    changes = {
        "stopped": "8 seconds are over",
        "final_accuracy": 0.5,
        "best_accuracy": 0.75,
        "versions": 3,
        "seconds": 8.0,
        "host_seconds": 8.0,
        "dispatched": 8,
        "applied": 3,
        "rejected": 1,
        "lost": 1,
        "superseded": 1,
        "in_flight": 2,
        "reasons": {"lost: gave up": 1},
        "computing": ComputingSeconds(asked_s=4.0, obtained_s=5.0, slowest="a", slowest_ratio=1.25),
    }
    lines = shown(summary(**changes)).splitlines()
    assert lines[:6] == [
        "stopped: 8 seconds are over",
        "accuracy 0.500 (best 0.750) after 3 versions in 8.0 s",
        "8 dispatched = 3 applied + 1 rejected + 1 lost + 1 superseded + 2 in_flight",
        "  1 lost: gave up",
        "computing: asked 4.0 s, obtained 5.0 s (1.250×)",
        "results in runs/x",
    ]


def lines_of(**changes: Any) -> list[str]:
    """Return the lines between those that every run has and the run folder."""
    lines = shown(summary(**changes)).splitlines()
    return lines[3 : lines.index("results in runs/x")]


def test_a_run_without_restarts_rounds_and_final_model_shows_none_of_them() -> None:
    assert lines_of() == []


def test_abandoned_computing_is_shown() -> None:
    assert lines_of(superseded=3, abandoned_s=4.25) == ["abandoned: 4.25 s of computing, discarded for a newer model"]
    assert lines_of(superseded=3, abandoned_s=0.0) == []


ENERGY = FleetEnergy(
    model="proxy",
    total_j=812.4,
    by_phase_j={},
    wasted_j=95.0,
    lost_transfers_j=3.0,
    wasted_by_fate_j={"lost": 20.0, "rejected": 15.0, "superseded": 60.0},
    joules_per_update=1.9,
)


def test_a_run_with_power_models_shows_energy_used_and_wasted() -> None:
    assert lines_of(energy=ENERGY) == [
        "energy (proxy): 812 J, of which 95 J (11.7%) wasted: superseded 60, lost 20, rejected 15; 1.9 J per update"
    ]
    nothing = replace(ENERGY, wasted_j=0.0, wasted_by_fate_j={}, joules_per_update=None, total_j=0.0)
    assert lines_of(energy=nothing) == ["energy (proxy): 0 J"]


def test_the_costs_up_to_the_highest_level_and_the_target_are_shown() -> None:
    took = CostToReach(seconds=12.34, joules=240.2, bytes=18_240_000)
    levels = {"0.8": took, "0.85": replace(took, seconds=13.0), "0.9": replace(took, joules=None)}
    assert lines_of(to_accuracy=levels) == ["to accuracy 0.9: 12.3 s, 18.2 MB"]
    assert lines_of(to_accuracy=levels, target_accuracy=0.85) == [
        "to accuracy 0.85: 13.0 s, 240 J (proxy), 18.2 MB",
        "to accuracy 0.9: 12.3 s, 18.2 MB",
    ]
    assert lines_of(to_accuracy=levels, target_accuracy=0.9) == ["to accuracy 0.9: 12.3 s, 18.2 MB"]
    assert lines_of(to_accuracy=levels, target_accuracy=0.95) == ["to accuracy 0.9: 12.3 s, 18.2 MB"]  # not reached


def test_the_joules_of_the_host_are_shown_if_they_were_measured() -> None:
    measured = HostEnergy(joules={"intel-rapl:0": 1000.25, "intel-rapl:1": 234.5}, seconds=41.26, what="measured")
    assert lines_of(host_energy=measured) == ["host: 1235 J in 41.3 s (RAPL, measured; whole packages)"]


def test_rounds_are_shown_beside_the_seconds_and_joules_of_the_run() -> None:
    rounds = RoundSums(count=7, cumulative_delay_s=3.5, energy_proxy_j=27.5)
    assert lines_of(rounds=rounds, seconds=60.0, energy_j=421.25) == [
        "rounds: 7, Σ(max − min) 3.5 s of 60.0 s, Σ P·τ 27.5 J (proxy); the whole fleet: 421.25 J (proxy)"
    ]
    (line,) = lines_of(rounds=replace(rounds, energy_proxy_j=None), seconds=60.0)
    assert line.endswith("Σ P·τ no joules without power models; the whole fleet: no joules without power models")


def test_a_broadcast_final_model_is_shown_and_counted() -> None:
    changes = {
        "dispatched": 9,
        "applied": 3,
        "superseded": 2,
        "delivered": 3,
        "in_flight": 1,
        "final_model": FinalModelDelivery(on=3, of=4, seconds=2.5),
    }
    assert lines_of(**changes) == ["final model: on 3 of 4 devices, 2.5 s after the end"]
    text = shown(summary(**changes))
    account = "9 dispatched = 3 applied + 0 rejected + 0 lost + 2 superseded + 3 delivered + 1 in_flight"
    assert account in text.splitlines()
    assert "delivered" not in shown(summary())


def test_host_seconds_are_shown_where_they_differ_from_emulated_seconds() -> None:
    text = shown(summary(dilation=4.0, seconds=8.0, host_seconds=32.0))
    assert "in 8.0 s (32.0 s on this host)" in text


def test_a_run_that_computed_for_less_than_a_millisecond_has_a_summary() -> None:
    tiny = ComputingSeconds(asked_s=0.0, obtained_s=0.001, slowest="a", slowest_ratio=2.0)
    assert "computing" in shown(summary(computing=tiny))


def test_a_name_that_looks_like_markup_is_shown_as_it_is() -> None:
    line = Invariant(
        name="[b]n", verdict=Verdict.FAIL, found="[red]x-1 is off", limits="[/red] ≤ 5 %", worst="[red]x-1"
    )
    text = shown(summary(line, stopped="[red]over"), Path("runs/[bold]x"))
    for name in ("[b]n", "[red]x-1 is off", "[/red] ≤ 5 %", "[red]over", "runs/[bold]x"):
        assert name in text
