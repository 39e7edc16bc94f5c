"""Admission: the demand of a run on each core of this host, and the dilation at which the host can keep the deadlines.

The demand of a process is the share of a core that it needs while it computes: the host seconds of a step, divided by
the seconds that the step may take. It is a peak, with all devices computing at once: that is when deadlines are missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import psutil

from testbed.common.errors import HostTooSmall, ProfileError
from testbed.host.cores import CorePlan
from testbed.host.memory_check import bytes_needed
from testbed.host.survey import Survey
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.traces import rate as rates

CAPACITY = 0.8
"""The share of a core that may be planned. The rest is for the kernel, other programs and delays of the scheduler."""
_MARGIN = 1.2
_ROUNDING = 1e-9
_JOB_SECONDS = 1.5e-3
_HEARTBEAT_SECONDS = 2.5e-4
_UPDATE_SECONDS = 6e-4
_SECONDS_PER_BYTE = 2e-9
"""CPU seconds beside the training, on a core of 2020: of a device for a job, of a heartbeat (both ends together), of
the aggregator for an update, and of moving and adding a byte of a vector. `make bench` compares them with real runs."""
_MEAN_JITTER = math.sqrt(2 / math.pi)
"""The mean of |N(0, 1)|."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDemand:
    """The demand on one core: the share for each use."""

    core: int
    devices: int
    computing: float
    free: float = 0.0
    """For devices without a throttle, if throttled ones share the core."""
    aggregator: float
    evaluator: float

    @property
    def total(self) -> float:
        """Without the evaluator: it runs only when the core is idle, and scores less often instead."""
        return self.computing + self.free + self.aggregator


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDemand:
    """One step of a throttled device, in host seconds."""

    device: DeviceSpec
    samples: int
    asked: float
    """Seconds that the step must take by the profile."""
    needed: float
    """CPU seconds of the step when the host is slow."""
    usual: float
    """CPU seconds of the step, usually."""

    @property
    def share(self) -> float:
        """The share of a core that is needed for the deadlines."""
        return self.needed / self.asked

    @property
    def quota(self) -> float:
        """The share of a core that gives the device its speed."""
        return min(1.0, self.usual / self.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The demand of a run on this host, at one dilation."""

    dilation: float
    survey: Survey
    devices: tuple[DeviceSpec, ...]
    steps: tuple[StepDemand, ...]
    cores: tuple[CoreDemand, ...]
    memory_bytes: int
    memory_free: int
    updates_per_second: float
    """The most updates per emulated second, if no device waits. Devices without a throttle are not included."""
    service_seconds: float
    """Host seconds that the aggregator needs for one update."""

    @property
    def demand(self) -> float:
        """The demand on the core with the largest demand."""
        return max(core.total for core in self.cores)

    @property
    def fits(self) -> bool:
        return self.keeps_deadlines and self.memory_bytes <= self.memory_free

    @property
    def keeps_deadlines(self) -> bool:
        return self.demand <= CAPACITY * (1 + _ROUNDING)

    @property
    def smallest_dilation(self) -> float:
        """The smallest dilation at which the demand is within the capacity, rounded up to three digits."""
        exact = self.dilation * self.demand / CAPACITY
        if not 0 < exact < math.inf:
            return exact
        unit = 10.0 ** (math.floor(math.log10(exact)) - 2)
        return float(f"{math.ceil(exact / unit - _ROUNDING) * unit:.3g}")

    @property
    def shortest_step(self) -> StepDemand | None:
        """The shortest step of the paced devices; None if there are none."""
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
    service = _UPDATE_SECONDS + survey.model_bytes * _SECONDS_PER_BYTE
    heartbeats = _heartbeats(experiment, dilation)
    aggregator = rate / dilation * service + heartbeats * len(devices)
    evaluations = 1.0 / max(survey.evaluation_seconds, experiment.evaluation.every * dilation, 1e-3)
    demands = []
    for core in sorted({cores.aggregator, cores.evaluator, *cores.devices}):
        here = [device for device, place in zip(devices, cores.devices, strict=True) if place == core]
        throttled = [device for device in here if device.name in steps]
        beside = sum(_beside_training(device, experiment, survey, dilation) for device in throttled)
        demands.append(
            CoreDemand(
                core=core,
                devices=len(here),
                computing=sum(steps[device.name].share for device in throttled) + beside,
                # each device without a throttle would use all that the others leave, and more
                free=float(len(here) - len(throttled)) if throttled else 0.0,
                aggregator=aggregator if core == cores.aggregator else 0.0,
                evaluator=survey.evaluation_seconds * evaluations if core == cores.evaluator else 0.0,
            )
        )
    baselines = experiment.strategy_parameters.get("memory") == "light"
    return Plan(
        dilation=dilation,
        survey=survey,
        devices=tuple(devices),
        steps=tuple(steps.values()),
        cores=tuple(demands),
        memory_bytes=bytes_needed(len(devices), survey.model_bytes, survey.device_bytes, baselines=baselines),
        memory_free=psutil.virtual_memory().available,
        updates_per_second=rate,
        service_seconds=service,
    )


def _heartbeats(experiment: Experiment, dilation: float) -> float:
    """The share of a core that the heartbeats of one device need, at one end."""
    return _HEARTBEAT_SECONDS / 2 / (experiment.presence.heartbeat * dilation)


def _beside_training(device: DeviceSpec, experiment: Experiment, survey: Survey, dilation: float) -> float:
    """The share of a core that a device needs for heartbeats and for moving models."""
    job = _JOB_SECONDS + survey.model_bytes * _SECONDS_PER_BYTE
    return _heartbeats(experiment, dilation) + job / (_cycle(device, experiment, survey) * dilation)


def settled(experiment: Experiment, survey: Survey, cores: CorePlan) -> Plan:
    """The plan at the dilation of the experiment; ``auto`` is 1, or a little more than the smallest that fits.

    A little more, because a shared host may soon be slower than it was during the survey. Raises ProfileError if the
    run could never stop, because the task does not measure what ``stop`` needs.
    """
    if experiment.stop.target_accuracy is not None and survey.metrics and "accuracy" not in survey.metrics:
        known = ", ".join(survey.metrics)
        problem = f"is set, but task {experiment.task_name} has no accuracy (only: {known}); use another key of stop"
        raise ProfileError(experiment.name, "stop.target_accuracy", problem)
    if experiment.dilation != "auto":
        return plan(experiment, survey, cores, float(experiment.dilation))
    at_one = plan(experiment, survey, cores, 1.0)
    if at_one.keeps_deadlines:
        return at_one
    return plan(experiment, survey, cores, at_one.smallest_dilation * _MARGIN)


def refusal(plan: Plan) -> HostTooSmall:
    """The error for a plan that does not fit, with the figures and the remedy."""
    remedy = f"--dilation {plan.smallest_dilation:g} is the smallest that fits (auto is a little more)"
    if plan.memory_bytes > plan.memory_free:
        return HostTooSmall(
            f"devices: {len(plan.devices)} devices of this model need about {plan.memory_bytes / 1e9:.1f} GB of memory"
            f" and {plan.memory_free / 1e9:.1f} GB are free; use fewer devices"
        )
    crowded = max(plan.cores, key=lambda core: core.free)
    if crowded.free:
        return HostTooSmall(
            f"core {crowded.core}: {crowded.free:g} devices without a throttle would use it up, and"
            f" {crowded.devices - crowded.free:g} others have deadlines; give them a speed, or run them alone;"
            " --no-admission runs it anyway"
        )
    step = max(plan.steps, key=lambda step: step.share)
    if step.share > 1.0:
        return HostTooSmall(
            f"devices[{step.device.group}]: {step.device.name} must compute a step of {step.samples} samples in"
            f" {step.asked * 1e3:.3g} ms, but a core of this host needs {step.needed * 1e3:.3g} ms for it;"
            f" {remedy}, or choose a slower device"
        )
    worst = max(plan.cores, key=lambda core: core.total)
    return HostTooSmall(
        f"this host is too small: the demand on core {worst.core} is {worst.total:.2f}"
        f" ({worst.devices} devices {worst.computing:.2f}, aggregator {worst.aggregator:.2f}), and"
        f" {CAPACITY:.2f} is the most that keeps deadlines; {remedy}, or use fewer or slower devices;"
        " --no-admission runs it anyway"
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
    """Emulated seconds from one update of a device to its next, if it never waits for others."""
    job, samples = experiment.training, survey.samples[device.index]
    steps = job.steps_over(samples)
    assert device.seconds_per_sample is not None
    computing = device.seconds_per_sample * job.samples_after(steps, samples)
    links = 0.0
    for side in (device.up, device.down):
        once = side.delay + side.jitter * _MEAN_JITTER
        if side.mbit is not None:
            once += survey.model_bytes * 8 / (side.mbit * 1e6)
        elif side.trace is not None:
            once += survey.model_bytes * 8 / rates.load(side.trace).mean
        links += once / (1.0 - side.drop)
    return max(1e-6, computing + links + device.suspend * device.suspend_max / 2)
