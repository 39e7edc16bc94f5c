"""The demand of a run on the cores of its host, as shares of a core.

The demand of a process is the share of a core that it needs while it computes: the host seconds of a step, divided by
the seconds that the step may take. It is a peak, with all devices that may be in flight computing at once: that is when
deadlines are missed.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from testbed.host.survey import Survey
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.traces import rate as rates
from testbed.wire.compression_method import NONE, method_of

_JOB_SECONDS = 1.5e-3
_HEARTBEAT_SECONDS = 2.5e-4
_UPDATE_SECONDS = 6e-4
_SECONDS_PER_BYTE = 2e-9
"""CPU seconds beside the training, on a core of 2020: of a device for a job, of a heartbeat (both ends together), of
the aggregator for an update, and of moving and adding a byte of a vector. `make bench` compares them with real runs."""
_SECONDS_PER_COMPRESSED_NUMBER = 1e-8
"""CPU seconds of a device to compress one number of an update: measured at most 1e-8 (topk), 4e-9 for int8."""
_SERVICE_MARGIN = 1.5
"""The mean of a run is less than the aggregator needs when many updates are due at once."""
_MEAN_JITTER = math.sqrt(2 / math.pi)
"""The mean of |N(0, 1)|."""


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
class FleetDemand:
    """The demand of all processes of a run at one dilation, wherever they run."""

    devices: tuple[DeviceSpec, ...]
    steps: tuple[StepDemand, ...]
    """One for each throttled device."""
    shares: tuple[float | None, ...]
    """The share of a core for each device in fleet order; None: not throttled, it uses what is left."""
    at_once: int
    """How many devices may compute at the same time."""
    idle_share: float
    """The share of a core that a device needs while it is idle: for heartbeats."""
    aggregator: float
    evaluator: float
    """If it scores as often as the profile says; it runs only when its core is idle."""
    updates_per_second: float
    """The most updates per emulated second, if no device waits. Devices without a throttle are not included."""
    service_seconds: float
    """Host seconds that the aggregator needs for one update."""


def fleet_demand(experiment: Experiment, survey: Survey, dilation: float) -> FleetDemand:
    devices = fleet.concrete(experiment, survey)
    steps = {
        device.name: _step(device, experiment, survey, dilation)
        for device in devices
        if device.seconds_per_sample is not None
    }
    at_once = _at_once(experiment, len(devices))
    cycles = [_cycle(device, experiment, survey) for device in devices if device.name in steps]
    rate = sum(1.0 / cycle for cycle in heapq.nsmallest(at_once, cycles))
    service = _service_seconds(experiment, survey)
    evaluations = 1.0 / max(survey.evaluation_seconds, experiment.evaluation.every * dilation, 1e-3)
    return FleetDemand(
        devices=tuple(devices),
        steps=tuple(steps.values()),
        shares=tuple(
            steps[device.name].share + _beside_training(device, experiment, survey, dilation)
            if device.name in steps
            else None
            for device in devices
        ),
        at_once=at_once,
        idle_share=_heartbeats(experiment, dilation),
        aggregator=rate / dilation * service + _heartbeats(experiment, dilation) * len(devices),
        evaluator=survey.evaluation_seconds * evaluations,
        updates_per_second=rate,
        service_seconds=service,
    )


def _at_once(experiment: Experiment, devices: int) -> int:
    """Return how many devices may compute at the same time: ``in_flight`` of the strategy, else all.

    Devices that are late for the deadline of a round still compute when the next round begins: then all may.
    """
    given = experiment.strategy_parameters
    if "in_flight" not in given or "deadline" in given:
        return devices
    in_flight = float(given["in_flight"])
    return min(devices, math.ceil(in_flight * devices if in_flight < 1 else in_flight))


def _service_seconds(experiment: Experiment, survey: Survey) -> float:
    """Host seconds of the aggregator for one update: as measured in an earlier run, with a margin, or estimated."""
    measured = survey.update_seconds.get(experiment.strategy_name)
    if measured is not None:
        return _SERVICE_MARGIN * measured
    return _UPDATE_SECONDS + survey.model_bytes * _SECONDS_PER_BYTE


def _heartbeats(experiment: Experiment, dilation: float) -> float:
    """The share of a core that the heartbeats of one device need, at one end."""
    return _HEARTBEAT_SECONDS / 2 / (experiment.presence.heartbeat * dilation)


def _beside_training(device: DeviceSpec, experiment: Experiment, survey: Survey, dilation: float) -> float:
    """The share of a core that a device needs for heartbeats and for moving models."""
    job = _JOB_SECONDS + survey.model_bytes * _SECONDS_PER_BYTE
    if device.compress_updates != NONE:
        job += survey.parameters * _SECONDS_PER_COMPRESSED_NUMBER
    return _heartbeats(experiment, dilation) + job / (_cycle(device, experiment, survey) * dilation)


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
    upload_bytes = method_of(device.compress_updates).nbytes(survey.parameters)
    for side, nbytes in ((device.up, upload_bytes), (device.down, survey.model_bytes)):
        once = side.delay + side.jitter * _MEAN_JITTER
        if side.mbit is not None:
            once += nbytes * 8 / (side.mbit * 1e6)
        elif side.trace is not None:
            once += nbytes * 8 / rates.load(side.trace).mean
        links += once / (1.0 - side.drop)
    return max(1e-6, computing + links + device.suspend * device.suspend_max / 2)
