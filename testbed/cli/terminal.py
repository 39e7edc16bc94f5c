"""What a user reads before and after a run: the plan, the summary, the certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.common.console import say
from testbed.doctor.benchmark import HostCalibration
from testbed.doctor.checks import Finding
from testbed.planning.planner import CAPACITY, Plan, refusal
from testbed.profile.schema import Experiment

_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red", "not measured": "dim"}


# ---- before a run


def demand(plan: Plan) -> str:
    """One line: what is asked of the cores, and at which dilation."""
    if not plan.steps:
        return "demand: devices are not throttled and take what they get"
    cores = ", ".join(f"core {core.core} {core.total:.2f}" for core in plan.cores)
    verdict = "" if plan.fits else "; this host is too small, and it was told to run all the same"
    return f"demand: {cores} of at most {CAPACITY:.2f}, dilation {plan.dilation:g}{verdict}"


def plan_table(plan: Plan) -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "fits": plan.fits,
        "dilation": plan.dilation,
        "smallest_dilation": plan.smallest_dilation,
        "capacity": CAPACITY,
        "cores": [
            {
                "core": core.core,
                "devices": core.devices,
                "demand": core.total,
                "computing": core.computing,
                "aggregator": core.aggregator,
                "evaluator": core.evaluator,
            }
            for core in plan.cores
        ],
        "devices": [
            {
                "device": step.device.name,
                "samples": step.samples,
                "step_host_s": step.asked,
                "needed_host_s": step.needed,
                "share": step.share,
            }
            for step in plan.steps
        ],
        "memory_bytes": plan.memory_bytes,
        "memory_free": plan.memory_free,
        "updates_per_second": plan.updates_per_second,
        "service_seconds": plan.service_seconds,
        "survey": msgspec.to_builtins(plan.survey, str_keys=True),
    }


def show_plan(console: Console, experiment: Experiment, plan: Plan, calibrated: HostCalibration | None = None) -> None:
    say(console, f"{experiment.name}: {len(plan.devices)} devices, dilation {plan.dilation:g}")
    table = Table(box=None, pad_edge=False)
    for column in ("core", "devices", "computing", "aggregator", "evaluator", "demand", "of"):
        table.add_column(column, justify="right")
    for core in plan.cores:
        shares = (f"{share:.2f}" for share in (core.computing, core.aggregator, core.evaluator))
        style = "red" if core.total > CAPACITY else "green"
        table.add_row(str(core.core), str(core.devices), *shares, Text(f"{core.total:.2f}", style), f"{CAPACITY:.2f}")
    console.print(table)
    for line in _plan_lines(plan):
        say(console, line)
    if calibrated is not None:
        seconds = len(plan.devices) * calibrated.fork
        say(console, f"start-up: {seconds:.1f} s for {len(plan.devices)} forks, after the template")
    if plan.fits:
        console.print("it fits", style="green")
        if plan.steps:
            say(console, f"smallest dilation that fits: {plan.smallest_dilation:g}")
    else:
        console.print("it does not fit", style="red")
        say(console, str(refusal(plan)))


def _plan_lines(plan: Plan) -> list[str]:
    rate = plan.updates_per_second
    lines = [
        f"memory: about {plan.memory_bytes / 1e9:.2f} GB, {plan.memory_free / 1e9:.1f} GB are free",
        f"updates: at most {rate:.2f} per emulated second, {rate / plan.dilation:.2f} per host second,"
        f" {plan.service_seconds * 1e3:.2f} ms of the aggregator each",
    ]
    if plan.steps:
        step = max(plan.steps, key=lambda step: step.share)
        lines.append(
            f"most demanding: {step.device.name}, a step of {step.samples} samples in {_ms(step.asked)} of host time,"
            f" of which a core computes {_ms(step.needed)} ({step.share:.1%})"
        )
        timed = plan.survey.steps[-1]
        lines.append(
            f"a step of {timed.samples} on this host: {_ms(timed.alone)} alone, {_ms(timed.seconds)} in company,"
            f" {_ms(timed.slow)} in a slow moment, which the plan reckons with"
        )
    return lines


def _ms(seconds: float) -> str:
    figures = max(0, 2 - math.floor(math.log10(max(seconds * 1e3, 1e-6))))
    return f"{seconds * 1e3:.{min(figures, 4)}f} ms"


def show_findings(console: Console, findings: Sequence[Finding], calibrated: HostCalibration | None) -> None:
    """What the doctor found, and what was measured."""
    table = Table(box=None)
    for column in ("", "what", "found", "what that means"):
        table.add_column(column)
    for finding in findings:
        mark = {True: "[green]ok[/green]", False: "[red]no[/red]", None: "[dim]—[/dim]"}[finding.ok]
        table.add_row(mark, finding.what, finding.found, finding.means)
    console.print(table)
    if calibrated is None:
        say(console, "not calibrated: run_testbed.py doctor --calibrate measures and stores how exact this host is")
        return
    say(console, f"calibrated {calibrated.measured}:")
    say(console, f"  a sleeping process wakes {_ms(calibrated.sleep_p50)} late (p99 {_ms(calibrated.sleep_p99)})")
    say(
        console,
        f"  a step of 32 digits takes {_ms(calibrated.step_alone)} alone, {_ms(calibrated.step_company)} in company,"
        f" {_ms(calibrated.step_slow)} in a slow moment",
    )
    say(console, f"  loopback {calibrated.loopback / 1e6:.0f} MB/s, a fork {_ms(calibrated.fork)}")


# ---- after a run


def show_summary(console: Console, summary: dict[str, Any], path: Path) -> None:
    accuracy, scores = summary["final_accuracy"], summary["scores"]
    if accuracy is None:
        shown = ", ".join(f"{name} {value['last']:.4g}" for name, value in scores.items()) or "accuracy not measured"
    else:
        shown = f"accuracy {accuracy:.3f} (best {summary['best_accuracy']:.3f})"
    final = summary["final_model"]
    fates = ("applied", "rejected", "lost", "superseded", *(["delivered"] if final else []), "in_flight")
    account = " + ".join(f"{summary[key]} {key}" for key in fates)
    say(console, f"stopped: {summary['stopped']}")
    host = f" ({summary['host_seconds']} s on this host)" if summary["host_seconds"] != summary["seconds"] else ""
    say(console, f"{shown} after {summary['versions']} versions in {summary['seconds']} s{host}")
    say(console, f"{summary['dispatched']} dispatched = {account}")
    for reason, count in summary["reasons"].items():
        say(console, f"  {count} {reason}")
    mended = {"devices started again": summary["restarts"], "times resumed": summary["resumed"]}
    if any(mended.values()):
        say(console, ", ".join(f"{count} {what}" for what, count in mended.items() if count))
    computing = summary["computing"]
    if computing is not None:
        asked, obtained = computing["asked_s"], computing["obtained_s"]
        ratio = f" ({obtained / asked:.3f}×)" if asked else ""
        say(console, f"computing: asked {asked} s, obtained {obtained} s{ratio}")
    for line in (*_energy_lines(summary), *_special_lines(summary)):
        say(console, line)
    say(console, f"results in {path}")
    _show_certificate(console, summary["fidelity"])


def _energy_lines(summary: dict[str, Any]) -> list[str]:
    """Joules of the fleet by its power models, what it took to be so good, and joules of the host by its own meter."""
    lines = [] if summary["energy"] is None else [_proxy(summary["energy"])]
    reached, target = summary["to_accuracy"], summary["target_accuracy"]
    told = {*list(reached)[-1:], *([] if target is None else [f"{target:g}"])}
    for level in [level for level in reached if level in told]:
        took = reached[level]
        joules = "" if took["joules"] is None else f" {_figure(took['joules'])} J (proxy),"
        lines.append(f"to accuracy {level}: {took['seconds']:.1f} s,{joules} {_figure(took['bytes'] / 1e6)} MB")
    if (host := summary["host_energy"]) is not None:
        joules = _figure(sum(host["joules"].values()))
        lines.append(f"host: {joules} J in {host['seconds']:.1f} s (RAPL, measured; whole packages)")
    return lines


def _proxy(energy: dict[str, Any]) -> str:
    total, wasted, each = energy["total_j"], energy["wasted_j"], energy["joules_per_update"]
    line = f"energy (proxy): {_figure(total)} J"
    if wasted:
        fates = sorted(energy["wasted_by_fate_j"].items(), key=lambda fate: -fate[1])
        line += f", of which {_figure(wasted)} J ({wasted / total:.1%}) wasted: "
        line += ", ".join(f"{fate} {_figure(joules)}" for fate, joules in fates)
    return line if each is None else f"{line}; {_figure(each)} J per update"


def _figure(number: float) -> str:
    """Three figures, more where there are more before the point."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _special_lines(summary: dict[str, Any]) -> list[str]:
    """What only some runs have: restarted devices, rounds, a final model that is handed out, a torn trace."""
    lines = []
    if summary["superseded"] and summary["abandoned_s"]:
        lines.append(f"abandoned: {summary['abandoned_s']} s of computing, thrown away for a newer model")
    if (rounds := summary["rounds"]) is not None:
        proxy, ours = (
            "no joules without power models" if joules is None else f"{joules} J (proxy)"
            for joules in (rounds["energy_proxy_j"], summary["energy_j"])
        )
        lines.append(
            f"rounds: {rounds['count']}, Σ(max − min) {rounds['cumulative_delay_s']} s of {summary['seconds']} s,"
            f" Σ P·τ {proxy}; the whole fleet: {ours}"
        )
    if (final := summary["final_model"]) is not None:
        lines.append(f"final model: on {final['on']} of {final['of']} devices, {final['seconds']} s after the end")
    if (replay := summary.get("replay")) is not None:
        lines += _replay_lines(replay)
    if (line := summary.get("torn_line")) is not None:
        lines.append(f"note: the last line ({line}) of trace.jsonl is torn, as a crash leaves it; it is left out")
    return lines


def _replay_lines(replay: dict[str, Any]) -> list[str]:
    """How near a replay came to what was recorded."""
    if "problem" in replay:
        return [f"replay ({replay['mode']}): not certified: {replay['problem']}"]
    delays, share = replay["delays"]["all"], replay["arrivals_in_order"]
    lines = [f"replay ({replay['mode']}) of {replay['trace']}:"]
    if delays is not None:
        off = f"p50 {_ms(delays['p50_s'])}, p99 {_ms(delays['p99_s'])}"
        beyond = f"{replay['beyond_the_recording']} beyond the recording ({replay['end']})"
        lines.append(f"  {delays['count']} delays off by {off}; {beyond}")
    if differ := replay["losses_differ"]:
        lines.append(
            f"  {differ} of {replay['transfers_common']} transfers got through in one run and not in the other"
        )
    order = "none to compare" if share is None else f"{share:.1%} of {replay['arrivals_common']} in the recorded order"
    same = "the same" if replay["same_staleness"] else "another"
    model = {True: "the same final model", False: "another final model", None: "no model to compare"}
    lines.append(f"  arrivals: {order}; {same} sequence of staleness; {model[replay['same_model']]}")
    return lines


def _show_certificate(console: Console, fidelity: dict[str, Any]) -> None:
    """The verdict, and every line that is not plain good."""
    verdict = fidelity["verdict"]
    passed = sum(line["verdict"] == "PASS" for line in fidelity["invariants"])
    console.print(
        Text.assemble(
            "fidelity: ",
            (verdict, f"bold {_COLOURS[verdict]}"),
            f" ({passed} of {len(fidelity['invariants'])} invariants hold; fidelity.json has the figures)",
        ),
        soft_wrap=True,
    )
    for line in fidelity["invariants"]:
        if line["verdict"] != "PASS":
            worst = line["worst"]
            named = f"; worst: {worst}" if worst is not None and worst not in line["found"] else ""
            limits = f" [{line['limits']}]" if line["verdict"] in ("WARN", "FAIL") else ""
            mark = (line["verdict"], _COLOURS[line["verdict"]])
            text = f" {line['name']}: {line['found']}{named}{limits}"
            console.print(Text.assemble("  ", mark, text), soft_wrap=True)
