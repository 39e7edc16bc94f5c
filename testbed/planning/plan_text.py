"""The plan of a run as text: for the command ``plan``, and at the start of a run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.common.console import milliseconds, say
from testbed.planning.planner import CAPACITY, Plan, refusal
from testbed.profile.schema import DeviceProfile, Experiment
from testbed.profile.speed import derived_speed


def demand(plan: Plan) -> str:
    """Return one line: the demand on each core, and the dilation."""
    if not plan.steps:
        return "demand: devices are not throttled: they use whatever CPU time is free"
    cores = ", ".join(f"core {core.core} {core.total:.2f}" for core in plan.cores)
    verdict = "" if plan.fits else "; host too small; running anyway (--no-admission)"
    return f"demand: {cores} of at most {CAPACITY:.2f}, dilation {plan.dilation:g}{verdict}"


def show(console: Console, experiment: Experiment, plan: Plan, *, fork_seconds: float | None = None) -> None:
    """Print the plan. ``fork_seconds`` is the measured time of one fork, if the host was calibrated."""
    devices = len(plan.devices)
    say(console, f"{experiment.name}: {devices} devices, dilation {plan.dilation:g}")
    for note in plan.survey.notes:
        say(console, note)
    say(console, f"core plan: {plan.core_plan}")
    console.print(_cores(plan))
    for line in (*_lines(plan), *_derived_speeds(experiment)):
        say(console, line)
    if fork_seconds is not None:
        say(console, f"start-up: {devices * fork_seconds:.1f} s for {devices} forks, after the template")
    if plan.fits:
        console.print("it fits", style="green")
        if plan.steps:
            say(console, f"smallest dilation that fits: {plan.smallest_dilation:g}")
    else:
        console.print("it does not fit", style="red")
        say(console, str(refusal(plan)))


def _cores(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("core", "devices", "computing", "aggregator", "evaluator", "demand", "of"):
        table.add_column(column, justify="right")
    for core in plan.cores:
        shares = (f"{share:.2f}" for share in (core.computing, core.aggregator, core.evaluator))
        style = "red" if core.total > CAPACITY else "green"
        table.add_row(str(core.core), str(core.devices), *shares, Text(f"{core.total:.2f}", style), f"{CAPACITY:.2f}")
    return table


def _lines(plan: Plan) -> list[str]:
    rate = plan.updates_per_second
    lines = [
        f"memory: about {plan.memory_bytes / 1e9:.2f} GB, {plan.memory_free / 1e9:.1f} GB are free",
        f"updates: at most {rate:.2f} per emulated second, {rate / plan.dilation:.2f} per host second,"
        f" {plan.service_seconds * 1e3:.2f} ms of the aggregator each",
    ]
    if plan.steps:
        step = max(plan.steps, key=lambda step: step.share)
        asked, needed = milliseconds(step.asked), milliseconds(step.needed)
        lines.append(
            f"most demanding: {step.device.name}, a step of {step.samples} samples in {asked} of host time,"
            f" of which a core computes {needed} ({step.share:.1%})"
        )
        timed = plan.survey.steps[-1]
        alone, loaded, slow = (milliseconds(seconds) for seconds in (timed.alone, timed.seconds, timed.slow))
        lines.append(
            f"a step of {timed.samples} on this host: {alone} alone, {loaded} beside other processes"
            f" (p90 {slow}, which the plan uses)"
        )
    if plan.survey.is_remembered:
        lines.append(f"{plan.survey.origin}; --survey new measures again")
    return lines


def _derived_speeds(experiment: Experiment) -> list[str]:
    """Name the devices whose speed was neither measured nor timed."""
    found: dict[str, list[str]] = {}
    for group in experiment.devices:
        if isinstance(group.profile, DeviceProfile) and (key := derived_speed(group, group.profile, experiment)):
            found.setdefault(key, []).append(group.name or "devices")
    return [
        f"speed of {', '.join(dict.fromkeys(names))}: derived from the FLOPs of {key}, not measured"
        for key, names in found.items()
    ]
