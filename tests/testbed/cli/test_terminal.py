"""What a user reads before and after a run."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from testbed.analysis import metrics
from testbed.analysis.totals import totals
from testbed.cli import terminal
from testbed.fidelity import Certificate, Invariant, Verdict
from testbed.host.cores import CorePlan
from testbed.host.survey import StepTime, Survey
from testbed.planning import planner
from testbed.profile.schema import DeviceGroup, DeviceProfile, Experiment, LinkProfile

CORES = CorePlan(aggregator=0, evaluator=0, devices=(1, 1))
SURVEY = Survey(
    parameters=10_000,
    samples=(320, 320),
    steps=(StepTime(samples=32, seconds=0.016, alone=0.008, slow=0.032),),
    crowd={1: 2},
)


def shown(show: Any, *arguments: Any) -> str:
    file = io.StringIO()
    show(Console(file=file, width=200), *arguments)
    return file.getvalue()


def fleet_of(seconds_per_sample: float | None, name: str = "pi") -> Experiment:
    throttle = "none" if seconds_per_sample is None else "pace"
    profile = DeviceProfile(seconds_per_sample=seconds_per_sample, throttle=throttle)
    group = DeviceGroup(name=name, link=LinkProfile(), profile=profile, count=2)
    return Experiment(name="mixed", strategy="fedavg", devices=(group,))


def plan_of(seconds_per_sample: float | None, name: str = "pi") -> planner.Plan:
    plan = planner.plan(fleet_of(seconds_per_sample, name), SURVEY, CORES, 1.0)
    return replace(plan, memory_bytes=2 * 10**9, memory_free=8 * 10**9)


# ---- the plan


def test_a_plan_that_fits_says_so_with_every_core_and_the_dilation_that_would_do() -> None:
    plan = plan_of(0.01)
    text = shown(terminal.show_plan, fleet_of(0.01), plan)
    assert text.startswith("mixed: 2 devices, dilation 1\n")
    rows = [line.split() for line in text.splitlines()]
    assert ["core", "devices", "computing", "aggregator", "evaluator", "demand", "of"] in rows
    assert ["1", "2", f"{plan.demand:.2f}", "0.00", "0.00", f"{plan.demand:.2f}", "0.80"] in rows
    assert "memory: about 2.00 GB, 8.0 GB are free" in text
    assert "most demanding: pi-1, a step of 32 samples in 320 ms of host time, of which a core computes 32.0 ms" in text
    assert "a step of 32 on this host: 8.00 ms alone, 16.0 ms in company, 32.0 ms in a slow moment" in text
    assert "it fits\n" in text
    assert f"smallest dilation that fits: {plan.smallest_dilation:g}\n" in text


def test_a_plan_that_does_not_fit_says_why_and_what_would() -> None:
    plan = plan_of(0.002)
    text = shown(terminal.show_plan, fleet_of(0.002), plan)
    assert "it does not fit\n" in text
    assert str(planner.refusal(plan)) in text
    assert f"--dilation {plan.smallest_dilation:g}" in text


def test_a_plan_without_throttled_devices_needs_no_dilation() -> None:
    plan = plan_of(None)
    text = shown(terminal.show_plan, fleet_of(None), plan)
    assert "it fits" in text
    assert "most demanding" not in text
    assert "smallest dilation" not in text
    assert terminal.demand(plan) == "demand: devices are not throttled and take what they get"


def test_the_demand_of_a_run_is_one_line() -> None:
    fitting, forced = plan_of(0.01), plan_of(0.002)
    assert terminal.demand(fitting).endswith(f"core 1 {fitting.demand:.2f} of at most 0.80, dilation 1")
    assert "too small" not in terminal.demand(fitting)
    assert "this host is too small, and it was told to run all the same" in terminal.demand(forced)


@pytest.mark.parametrize("speed", [0.01, 0.002, None])
def test_a_plan_is_plain_json(speed: float | None) -> None:
    plan = plan_of(speed)
    table = json.loads(json.dumps(terminal.plan_table(plan), allow_nan=False))
    assert (table["fits"], table["dilation"], table["capacity"]) == (plan.fits, 1.0, planner.CAPACITY)
    assert table["smallest_dilation"] == plan.smallest_dilation
    assert [row["device"] for row in table["devices"]] == [step.device.name for step in plan.steps]
    assert [row["demand"] for row in table["cores"]] == [core.total for core in plan.cores]
    assert table["survey"]["crowd"] == {"1": 2}


# ---- the certificate


LINES = (
    Invariant(
        name="step time", verdict=Verdict.FAIL, found="round trips of pi-1 60% off", limits="≤ 5 %", worst="pi-1"
    ),
    Invariant(name="link delay", verdict=Verdict.WARN, found="p99 3 ms", limits="p99 ≤ 2 ms", worst="phone-2"),
    Invariant(name="causality", verdict=Verdict.PASS, found="0 too early", limits="none before"),
    Invariant(name="canary", verdict=Verdict.NOT_MEASURED, found="no device is paced"),
)


def summary(*lines: Invariant, verdict: Verdict = Verdict.FAIL, **changes: Any) -> dict[str, Any]:
    certificate = Certificate(verdict=verdict, dilation=1.0, invariants=lines or LINES)
    plain = {"host_energy": None, "rounds": None, "fidelity": certificate.as_table()}
    return metrics.summary(totals([])) | plain | changes


def test_a_certificate_shows_its_verdict_and_every_line_that_is_not_plain_good() -> None:
    lines = shown(terminal.show_summary, summary(), Path("runs/x")).splitlines()
    assert "fidelity: FAIL (1 of 4 invariants hold; fidelity.json has the figures)" in lines
    (failed,) = [line for line in lines if "step time" in line]
    assert failed.split()[0] == "FAIL"
    assert "round trips of pi-1 60% off" in failed
    assert "≤ 5 %" in failed
    (unknown,) = [line for line in lines if "canary" in line]
    assert unknown.strip() == "not measured canary: no device is paced"
    assert not any("causality" in line for line in lines)


def test_a_good_certificate_is_one_line() -> None:
    good = Invariant(name="causality", verdict=Verdict.PASS, found="0 too early", limits="none before")
    text = shown(terminal.show_summary, summary(good, verdict=Verdict.PASS), Path("runs/x"))
    assert text.splitlines()[-1] == "fidelity: PASS (1 of 1 invariants hold; fidelity.json has the figures)"


def test_a_line_that_is_not_good_names_the_worst_device() -> None:
    text = shown(terminal.show_summary, summary(), Path("runs/x"))
    (warned,) = [line for line in text.splitlines() if "link delay" in line]
    assert "phone-2" in warned


# ---- the summary


def test_a_summary_of_a_task_without_accuracy_has_its_other_metrics() -> None:
    scores = {name: {"last": last, "lowest": 0.0, "highest": 9.0} for name, last in (("mse", 3.16312), ("loss", 1.5))}
    assert "mse 3.163, loss 1.5 after 0 versions" in shown(terminal.show_summary, summary(scores=scores), Path("x"))
    assert "accuracy not measured after 0 versions" in shown(terminal.show_summary, summary(), Path("x"))


def test_a_summary_tells_what_had_to_be_mended() -> None:
    text = shown(terminal.show_summary, summary(restarts=2, resumed=1), Path("x"))
    assert "2 devices started again, 1 times resumed" in text
    assert "resumed" not in shown(terminal.show_summary, summary(), Path("x"))


def test_a_summary_says_how_the_run_ended_and_where_its_results_are() -> None:
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
        "computing": {"asked_s": 4.0, "obtained_s": 5.0, "slowest": "a", "slowest_ratio": 1.25},
    }
    lines = shown(terminal.show_summary, summary(**changes), Path("runs/x")).splitlines()
    assert lines[:6] == [
        "stopped: 8 seconds are over",
        "accuracy 0.500 (best 0.750) after 3 versions in 8.0 s",
        "8 dispatched = 3 applied + 1 rejected + 1 lost + 1 superseded + 2 in_flight",
        "  1 lost: gave up",
        "computing: asked 4.0 s, obtained 5.0 s (1.250×)",
        "results in runs/x",
    ]


def lines_of(**changes: Any) -> list[str]:
    """What is shown between the summary of every run and the place of its results."""
    lines = shown(terminal.show_summary, summary(**changes), Path("runs/x")).splitlines()
    return lines[3 : lines.index("results in runs/x")]


def test_a_run_without_restarts_rounds_and_final_model_says_nothing_of_them() -> None:
    assert lines_of() == []


def test_a_run_that_restarted_devices_says_what_was_thrown_away() -> None:
    assert lines_of(superseded=3, abandoned_s=4.25) == ["abandoned: 4.25 s of computing, thrown away for a newer model"]
    assert lines_of(superseded=3, abandoned_s=0.0) == []


ENERGY = {
    "model": "proxy",
    "total_j": 812.4,
    "by_phase_j": {},
    "wasted_j": 95.0,
    "lost_transfers_j": 3.0,
    "wasted_by_fate_j": {"lost": 20.0, "rejected": 15.0, "superseded": 60.0},
    "joules_per_update": 1.9,
}


def test_a_run_with_power_models_says_what_it_used_and_what_of_it_was_in_vain() -> None:
    assert lines_of(energy=ENERGY) == [
        "energy (proxy): 812 J, of which 95 J (11.7%) wasted: superseded 60, lost 20, rejected 15; 1.9 J per update"
    ]
    nothing = ENERGY | {"wasted_j": 0.0, "wasted_by_fate_j": {}, "joules_per_update": None, "total_j": 0.0}
    assert lines_of(energy=nothing) == ["energy (proxy): 0 J"]


def test_a_run_says_what_the_highest_level_took_and_what_its_target_took() -> None:
    took = {"seconds": 12.34, "joules": 240.2, "bytes": 18_240_000}
    levels = {"0.8": took, "0.85": took | {"seconds": 13.0}, "0.9": took | {"joules": None}}
    assert lines_of(to_accuracy=levels) == ["to accuracy 0.9: 12.3 s, 18.2 MB"]
    assert lines_of(to_accuracy=levels, target_accuracy=0.85) == [
        "to accuracy 0.85: 13.0 s, 240 J (proxy), 18.2 MB",
        "to accuracy 0.9: 12.3 s, 18.2 MB",
    ]
    assert lines_of(to_accuracy=levels, target_accuracy=0.9) == ["to accuracy 0.9: 12.3 s, 18.2 MB"]
    assert lines_of(to_accuracy=levels, target_accuracy=0.95) == ["to accuracy 0.9: 12.3 s, 18.2 MB"]  # not reached


def test_the_joules_of_the_host_are_told_where_they_were_measured() -> None:
    measured = {"joules": {"intel-rapl:0": 1000.25, "intel-rapl:1": 234.5}, "seconds": 41.26, "what": "measured"}
    assert lines_of(host_energy=measured) == ["host: 1235 J in 41.3 s (RAPL, measured; whole packages)"]


def test_a_run_with_rounds_says_how_many_and_their_sums_beside_the_seconds_and_joules_of_the_run() -> None:
    rounds = {"count": 7, "cumulative_delay_s": 3.5, "energy_proxy_j": 27.5}
    assert lines_of(rounds=rounds, seconds=60.0, energy_j=421.25) == [
        "rounds: 7, Σ(max − min) 3.5 s of 60.0 s, Σ P·τ 27.5 J (proxy); the whole fleet: 421.25 J (proxy)"
    ]
    (line,) = lines_of(rounds=rounds | {"energy_proxy_j": None}, seconds=60.0)
    assert line.endswith("Σ P·τ no joules without power models; the whole fleet: no joules without power models")


def test_a_run_that_handed_out_the_final_model_says_where_it_is_and_has_it_in_the_account() -> None:
    changes = {
        "dispatched": 9,
        "applied": 3,
        "superseded": 2,
        "delivered": 3,
        "in_flight": 1,
        "final_model": {"on": 3, "of": 4, "seconds": 2.5},
    }
    assert lines_of(**changes) == ["final model: on 3 of 4 devices, 2.5 s after the end"]
    text = shown(terminal.show_summary, summary(**changes), Path("runs/x"))
    account = "9 dispatched = 3 applied + 0 rejected + 0 lost + 2 superseded + 3 delivered + 1 in_flight"
    assert account in text.splitlines()
    assert "delivered" not in shown(terminal.show_summary, summary(), Path("runs/x"))


def test_host_seconds_are_told_where_they_are_not_emulated_ones() -> None:
    text = shown(terminal.show_summary, summary(dilation=4.0, seconds=8.0, host_seconds=32.0), Path("runs/x"))
    assert "in 8.0 s (32.0 s on this host)" in text


def test_a_run_that_computed_for_less_than_a_millisecond_has_a_summary() -> None:
    tiny = {"asked_s": 0.0, "obtained_s": 0.001, "slowest": "a", "slowest_ratio": 2.0}
    assert "computing" in shown(terminal.show_summary, summary(computing=tiny), Path("runs/x"))


# ---- names are names


@pytest.mark.parametrize("speed", [0.01, 0.0001])
def test_a_name_that_looks_like_markup_is_shown_as_it_is(speed: float) -> None:
    text = shown(terminal.show_plan, fleet_of(speed, "[red]x"), plan_of(speed, "[red]x"))
    assert "[red]x-1" in text
    line = Invariant(
        name="[b]n", verdict=Verdict.FAIL, found="[red]x-1 is off", limits="[/red] ≤ 5 %", worst="[red]x-1"
    )
    text = shown(terminal.show_summary, summary(line, stopped="[red]over"), Path("runs/[bold]x"))
    for name in ("[b]n", "[red]x-1 is off", "[/red] ≤ 5 %", "[red]over", "runs/[bold]x"):
        assert name in text


def test_a_name_that_looks_like_an_emoji_is_shown_as_it_is() -> None:
    assert ":bomb:-1" in shown(terminal.show_plan, fleet_of(0.01, ":bomb:"), plan_of(0.01, ":bomb:"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0000 ms"),
        (1e-7, "0.0001 ms"),
        (1.234e-5, "0.0123 ms"),
        (1.234e-3, "1.23 ms"),
        (0.01234, "12.3 ms"),
        (0.1234, "123 ms"),
        (1.234, "1234 ms"),
    ],
)
def test_milliseconds_have_three_figures_where_that_is_sensible(seconds: float, text: str) -> None:
    assert terminal._ms(seconds) == text
