"""Compares the survey with what the steps of the run needed, and forgets a remembered survey that was wrong."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.history import trace
from testbed.history.event_pass import Handlers
from testbed.host import survey_memory
from testbed.planning.planner import Plan
from testbed.runs.results.certificate import Certificate, Verdict

WRONG = 1.5
"""A survey is wrong if the steps of a run needed more than this many times its CPU seconds, or as much less."""
_JOB_SECONDS = 2e-3
_WAKE_SECONDS = 5e-4
"""CPU seconds of a device beside its steps: for each job (copying the model, sending events), and for waking up and
checking messages at each step. On two idle cores they were about 2 and 0.4 ms."""
_FEWEST_STEPS = 20


@dataclass(slots=True)
class _DeviceUse:
    jobs: int = 0
    steps: int = 0
    cpu: float = 0.0


class StepUses:
    """A checker: the jobs, steps and CPU seconds of each device."""

    def __init__(self) -> None:
        self.devices: dict[str, _DeviceUse] = {}

    def handlers(self) -> Handlers:
        return {trace.Trained: self._computed, trace.Abandoned: self._computed}

    def _computed(self, event: trace.ComputeEvent) -> None:
        if event.use is not None and event.steps:
            device = self.devices.setdefault(event.device, _DeviceUse())
            device.jobs += 1
            device.steps += event.steps
            device.cpu += event.use.cpu


def ratio(plan: Plan, uses: StepUses) -> float | None:
    """Return the CPU seconds of all steps, divided by those that the survey expects; None if too few were metered.

    1 if they are not more than the survey's with what a device needs beside its steps, and not less than without.
    """
    compared = [(uses.devices[step.device.name], step.usual) for step in plan.steps if step.device.name in uses.devices]
    if sum(device.steps for device, _ in compared) < _FEWEST_STEPS:
        return None
    expected = sum(device.steps * seconds for device, seconds in compared)
    cpu = sum(device.cpu for device, _ in compared)
    beside = sum(device.jobs * _JOB_SECONDS + device.steps * _WAKE_SECONDS for device, _ in compared)
    return max(min(cpu / expected, 1.0), (cpu - beside) / expected)


def recheck(plan: Plan, uses: StepUses, certificate: Certificate | None) -> list[str]:
    """Forget the survey of a run if its steps contradict it; returns a line that says so, or nothing.

    A busy host makes steps longer than they are, so its runs do not count.
    """
    found = ratio(plan, uses)
    if found is None or 1 / WRONG <= found <= WRONG or _was_busy(plan, certificate):
        return []
    survey_memory.drop(plan.survey.key)
    return [
        f"the {plan.survey.origin} was wrong: steps needed {found:.2g} times its CPU seconds; the next run measures"
    ]


def remember_service(plan: Plan, strategy: str, certificate: Certificate | None) -> None:
    """Remember what the aggregator needed for an update, so that the next plan reckons with it and not with a guess."""
    lines = {} if certificate is None else {line.name: line for line in certificate.invariants}
    seconds = lines["aggregator"].figures.get("service_host_s") if "aggregator" in lines else None
    if seconds and not _was_busy(plan, certificate):
        survey_memory.note_service(plan.survey.key, strategy, float(seconds))


def _was_busy(plan: Plan, certificate: Certificate | None) -> bool:
    """Whether other programs slowed this host before the run, or the canary during it."""
    if plan.survey.pressure is not None and plan.survey.pressure > survey_memory.BUSY:
        return True
    lines = () if certificate is None else certificate.invariants
    return any(line.name == "canary" and line.verdict is Verdict.FAIL for line in lines)
