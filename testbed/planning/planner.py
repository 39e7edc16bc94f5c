"""Whether this host is large enough for a run, before it starts: what each core is asked for, and what would fit.

Demand is the share of a core that a process needs while it computes: host seconds of a step over the seconds that the
step may take. It is a peak, all devices computing at once, because that is when deadlines are missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import psutil

from testbed.common.errors import ProfileError, UserError
from testbed.host.capacity import bytes_needed
from testbed.host.cores import CorePlan
from testbed.host.survey import Survey
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.traces import rate as rates

CAPACITY = 0.8
"""Of a core. The rest is for what cannot be planned: the kernel, neighbours, bad luck in the queue."""
_COMFORT = 1.2
_ROUNDING = 1e-9
_JOB_SECONDS = 1.5e-3
_BEAT_SECONDS = 2.5e-4
_UPDATE_SECONDS = 6e-4
_SECONDS_PER_BYTE = 2e-9
"""CPU seconds around the training, on a core of 2020: a device's job, a heartbeat (both ends together), the
aggregator's update; and of moving and adding a vector. `make bench` compares the plan with what was used."""
_MEAN_JITTER = math.sqrt(2 / math.pi)
"""Of |N(0, 1)|."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDemand:
    """Shares of one core that are asked for."""

    core: int
    devices: int
    computing: float
    free: float = 0.0
    """For devices that are not throttled, beside others that are."""
    aggregator: float
    evaluator: float

    @property
    def total(self) -> float:
        """Without the evaluator: it yields to everybody, and scores less often instead."""
        return self.computing + self.free + self.aggregator


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDemand:
    """One step of a throttled device, in host seconds: what it may take, and what it takes on a core of this host."""

    device: DeviceSpec
    samples: int
    asked: float
    needed: float

    usual: float
    """As ``needed``, but not in one of the host's slow moments."""

    @property
    def share(self) -> float:
        """Of a core, that deadlines need."""
        return self.needed / self.asked

    @property
    def quota(self) -> float:
        """Of a core, that gives the device its speed."""
        return min(1.0, self.usual / self.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run asks of this host, at one dilation."""

    dilation: float
    survey: Survey
    devices: tuple[DeviceSpec, ...]
    steps: tuple[StepDemand, ...]
    cores: tuple[CoreDemand, ...]
    memory_bytes: int
    memory_free: int
    updates_per_second: float
    """Emulated, at most: when nobody waits for anybody. Of the throttled devices: the others have no rate to plan."""
    service_seconds: float
    """Host seconds of the aggregator for one update."""

    @property
    def demand(self) -> float:
        """Of the core that is asked for most."""
        return max(core.total for core in self.cores)

    @property
    def fits(self) -> bool:
        return self.keeps_deadlines and self.memory_bytes <= self.memory_free

    @property
    def keeps_deadlines(self) -> bool:
        return self.demand <= CAPACITY * (1 + _ROUNDING)

    @property
    def smallest_dilation(self) -> float:
        """At which the demand would be just within the capacity, rounded up to three figures."""
        exact = self.dilation * self.demand / CAPACITY
        if not 0 < exact < math.inf:
            return exact
        unit = 10.0 ** (math.floor(math.log10(exact)) - 2)
        return float(f"{math.ceil(exact / unit - _ROUNDING) * unit:.3g}")

    @property
    def shortest_step(self) -> StepDemand | None:
        """Of the paced devices; None where there is none."""
        paced = [step for step in self.steps if step.device.throttle == "pace"]
        return min(paced, key=lambda step: step.asked, default=None)


def plan(experiment: Experiment, survey: Survey, cores: CorePlan, dilation: float) -> Plan:
    devices = fleet.concrete(experiment, survey)
    steps = {
        device.name: _step(device, experiment, survey, dilation)
        for device in devices
        if device.seconds_per_sample is not None
    }
    rate = sum(1.0 / _cycle(device, experiment, survey) for device in devices if device.name in steps)
    around_job = _JOB_SECONDS + survey.model_bytes * _SECONDS_PER_BYTE
    service = _UPDATE_SECONDS + survey.model_bytes * _SECONDS_PER_BYTE
    beats = _BEAT_SECONDS / 2 / (experiment.presence.beat * dilation)
    evaluations = 1.0 / max(survey.evaluation_seconds, experiment.evaluation.every * dilation, 1e-3)
    demands = []
    for core in sorted({cores.aggregator, cores.evaluator, *cores.devices}):
        here = [device for device, place in zip(devices, cores.devices, strict=True) if place == core]
        throttled = [device for device in here if device.name in steps]
        computing = sum(
            steps[device.name].share + beats + around_job / (_cycle(device, experiment, survey) * dilation)
            for device in throttled
        )
        free = len(here) - len(throttled) if throttled else 0  # each takes whatever the others leave it, and more
        aggregates = core == cores.aggregator
        demands.append(
            CoreDemand(
                core=core,
                devices=len(here),
                computing=computing,
                free=float(free),
                aggregator=rate / dilation * service + beats * len(devices) if aggregates else 0.0,
                evaluator=survey.evaluation_seconds * evaluations if core == cores.evaluator else 0.0,
            )
        )
    differences = experiment.strategy_parameters.get("memory") == "light"
    return Plan(
        dilation=dilation,
        survey=survey,
        devices=tuple(devices),
        steps=tuple(steps.values()),
        cores=tuple(demands),
        memory_bytes=bytes_needed(len(devices), survey.model_bytes, differences=differences),
        memory_free=psutil.virtual_memory().available,
        updates_per_second=rate,
        service_seconds=service,
    )


def settled(experiment: Experiment, survey: Survey, cores: CorePlan) -> Plan:
    """The plan at the dilation that the experiment names; ``auto`` is 1, or a little more than the smallest that fits.

    More, because a host that is shared may be slower in a minute than it was in the survey.
    """
    if experiment.stop.target_accuracy is not None and survey.metrics and "accuracy" not in survey.metrics:
        known = ", ".join(survey.metrics)
        problem = f"is set, and task {experiment.task_name} has no accuracy (it has: {known}); use another way to stop"
        raise ProfileError(experiment.name, "stop.target_accuracy", problem)
    if experiment.dilation != "auto":
        return plan(experiment, survey, cores, float(experiment.dilation))
    at_one = plan(experiment, survey, cores, 1.0)
    if at_one.keeps_deadlines:
        return at_one
    return plan(experiment, survey, cores, at_one.smallest_dilation * _COMFORT)


def refusal(plan: Plan) -> UserError:
    """Why the plan does not fit, with the figures and the way out."""
    remedy = f"--dilation {plan.smallest_dilation:g} is the smallest that fits (auto takes a little more)"
    if plan.memory_bytes > plan.memory_free:
        return UserError(
            f"devices: {len(plan.devices)} devices of this model need about {plan.memory_bytes / 1e9:.1f} GB of memory"
            f" and {plan.memory_free / 1e9:.1f} GB are free; use fewer devices"
        )
    crowded = max(plan.cores, key=lambda core: core.free)
    if crowded.free:
        return UserError(
            f"core {crowded.core}: {crowded.free:g} devices without a throttle would take it from the"
            f" {crowded.devices - crowded.free:g} that have deadlines to keep; give them a speed, or run them alone;"
            " --no-admission runs it all the same"
        )
    step = max(plan.steps, key=lambda step: step.share)
    if step.share > 1.0:
        return UserError(
            f"devices[{step.device.group}]: {step.device.name} should do a step of {step.samples} samples in"
            f" {step.asked * 1e3:.3g} ms, but a core of this host needs {step.needed * 1e3:.3g} ms for it;"
            f" {remedy}, or choose a slower device"
        )
    worst = max(plan.cores, key=lambda core: core.total)
    return UserError(
        f"this host is too small: core {worst.core} is asked for {worst.total:.2f} of itself"
        f" ({worst.devices} devices {worst.computing:.2f}, aggregator {worst.aggregator:.2f}) and"
        f" {CAPACITY:.2f} is the most that keeps deadlines; {remedy}, or use fewer or slower devices;"
        " --no-admission runs it all the same"
    )


def _step(device: DeviceSpec, experiment: Experiment, survey: Survey, dilation: float) -> StepDemand:
    assert device.seconds_per_sample is not None
    samples = experiment.training.samples_per_step(survey.samples[device.index])
    asked = device.seconds_per_sample * samples / device.curve.fastest * dilation
    return StepDemand(
        device=device,
        samples=samples,
        asked=asked,
        needed=survey.slow_step_seconds(samples),
        usual=survey.step_seconds(samples),
    )


def _cycle(device: DeviceSpec, experiment: Experiment, survey: Survey) -> float:
    """Emulated seconds from one update of a device to its next, if it never waits for the others."""
    job, samples = experiment.training, survey.samples[device.index]
    steps = job.steps_over(samples)
    assert device.seconds_per_sample is not None
    computing = device.seconds_per_sample * job.samples_after(steps, samples)
    links = 0.0
    for way in (device.up, device.down):
        once = way.delay + way.jitter * _MEAN_JITTER
        if way.mbit is not None:
            once += survey.model_bytes * 8 / (way.mbit * 1e6)
        elif way.trace is not None:
            once += survey.model_bytes * 8 / rates.load(way.trace).mean
        links += once / (1.0 - way.drop)
    return max(1e-6, computing + links + device.suspend * device.suspend_max / 2)
