"""Admission: whether this host can keep the deadlines of a run, on which cores and at which dilation."""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import psutil

from testbed.common.errors import HostTooSmall, ProfileError
from testbed.common.number_limits import MOST_DILATION
from testbed.host.core_plan import CorePlan, CoreRoles
from testbed.host.memory.memory_check import bytes_needed
from testbed.host.survey import Survey
from testbed.planning import placement
from testbed.planning.demand import FleetDemand, StepDemand, fleet_demand
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment

CAPACITY = 0.8
"""The share of a core that may be planned. The rest is for the kernel, other programs and delays of the scheduler."""
_COMFORTABLE = 0.5
"""The demand on a core up to which its devices need no other core."""
_MARGIN = 1.2
_ROUNDING = 1e-9


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
class Plan:
    """The demand of a run on this host, at one dilation."""

    dilation: float
    survey: Survey
    core_plan: CorePlan
    devices: tuple[DeviceSpec, ...]
    steps: tuple[StepDemand, ...]
    cores: tuple[CoreDemand, ...]
    memory_bytes: int
    memory_free: int
    updates_per_second: float
    """The most updates per emulated second, if no device waits. Devices without a throttle are not included."""
    service_seconds: float
    """Host seconds that the aggregator needs for one update."""
    otherwise: float = math.inf
    """The smallest dilation that fits with any core plan that the profile allows; infinity: only this one counts."""

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
        if self.otherwise < math.inf:
            return self.otherwise
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
    """Return the plan with a given core for each process."""
    return _plan(experiment, survey, fleet_demand(experiment, survey, dilation), cores, dilation)


def _plan(experiment: Experiment, survey: Survey, demand: FleetDemand, cores: CorePlan, dilation: float) -> Plan:
    used = sorted({cores.aggregator, cores.evaluator, *cores.devices})
    parameters = experiment.strategy_parameters
    return Plan(
        dilation=dilation,
        survey=survey,
        core_plan=cores,
        devices=demand.devices,
        steps=demand.steps,
        cores=tuple(_core_demand(core, demand, cores) for core in used),
        memory_bytes=bytes_needed(
            len(demand.devices),
            survey.model_bytes,
            survey.device_bytes,
            baselines=parameters.get("memory") == "light",  # asafl
            kept_updates=bool(parameters.get("gdc")) and not parameters.get("fresh"),  # eafl
            residuals=experiment.compresses_updates,
        ),
        memory_free=psutil.virtual_memory().available,
        updates_per_second=demand.updates_per_second,
        service_seconds=demand.service_seconds,
    )


def _core_demand(core: int, demand: FleetDemand, cores: CorePlan) -> CoreDemand:
    here = [share for share, place in zip(demand.shares, cores.devices, strict=True) if place == core]
    throttled = [share for share in here if share is not None]
    return CoreDemand(
        core=core,
        devices=len(here),
        computing=sum(heapq.nlargest(demand.at_once, throttled))
        + demand.idle_share * max(len(throttled) - demand.at_once, 0),
        # each device without a throttle would use all that the others leave, and more
        free=float(len(here) - len(throttled)) if throttled else 0.0,
        aggregator=demand.aggregator if core == cores.aggregator else 0.0,
        evaluator=demand.evaluator if core == cores.evaluator else 0.0,
    )


def settled(experiment: Experiment, survey: Survey, roles: CoreRoles) -> Plan:
    """The plan at the dilation of the experiment; ``auto`` is 1, or a little more than the smallest that fits.

    A little more, because a shared host may soon be slower than it was during the survey. Raises ProfileError if the
    run could never stop, because the task does not measure what ``stop`` needs.
    """
    if experiment.stop.target_accuracy is not None and survey.metrics and "accuracy" not in survey.metrics:
        known = ", ".join(survey.metrics)
        problem = f"is set, but task {experiment.task_name} has no accuracy (only: {known}); use another key of stop"
        raise ProfileError(experiment.name, "stop.target_accuracy", problem)

    wanted = 1.0 if experiment.dilation == "auto" else float(experiment.dilation)
    at = functools.partial(_plans, experiment, survey, roles)
    plans = at(wanted)
    plan, smallest = _best(plans), _smallest_dilation(plans, at)
    if experiment.dilation == "auto" and not plan.keeps_deadlines:
        plan = _best(at(min(smallest * _MARGIN, MOST_DILATION)))
    return replace(plan, otherwise=smallest)


def _best(plans: Sequence[Plan]) -> Plan:
    """Return the first plan with a comfortable demand, else the one with the smallest demand.

    Devices on cores of their own come first: where they have room to spare, sharing the aggregator's core gains
    nothing. A core that is nearly full misses more deadlines than two that are half full.
    """
    comfortable = (found for found in plans if found.demand <= _COMFORTABLE)
    return next(comfortable, min(plans, key=lambda found: found.demand))


def _plans(experiment: Experiment, survey: Survey, roles: CoreRoles, dilation: float) -> list[Plan]:
    demand = fleet_demand(experiment, survey, dilation)
    core_plans = placement.core_plans(demand, roles, experiment.cores)
    return [_plan(experiment, survey, demand, cores, dilation) for cores in core_plans]


def _smallest_dilation(plans: Sequence[Plan], at: Callable[[float], Sequence[Plan]]) -> float:
    """Return the smallest dilation of three digits that fits with one of the allowed core plans.

    ``plans`` are those at any dilation, ``at`` makes the plans at another one. Demand falls with the dilation, but not
    quite in proportion: devices move to other cores, an evaluator that could not keep up needs less, and an aggregator
    that is less busy may share its core. So follow what the plans promise, in growing strides, until one dilation fits
    and a smaller one does not; then halve what is between them. No dilation helps devices with deadlines beside others
    that use whatever is left of their core.
    """
    promised = _promised(plans)
    if not 0 < promised < math.inf or all(core.free for plan in plans for core in plan.cores if core.computing):
        return promised
    low, high = -math.inf, math.inf
    number, stride = _number(promised), 1
    while high - low > 1:
        plans = at(_dilation(number))
        if any(plan.keeps_deadlines for plan in plans):
            high, number = number, min(_number(_promised(plans)), number - stride)
        else:
            low, number = number, max(_number(_promised(plans)), number + stride)
        if high - low < math.inf:
            number = int(low + high) // 2
        stride *= 2
    return _dilation(int(high))


def _promised(plans: Sequence[Plan]) -> float:
    return min(plan.smallest_dilation for plan in plans)


_NUMBERS_PER_DECADE = 900
"""From 100 to 999: numbers of three digits."""


def _dilation(number: int) -> float:
    """Return a number of three digits by its place among all of them: 0 is 1.00, 1 is 1.01, 900 is 10.0."""
    decade, digits = divmod(number, _NUMBERS_PER_DECADE)
    return float(f"{100 + digits}e{decade - 2}")


def _number(dilation: float) -> int:
    """The reverse of ``_dilation``, nearly: the place of a number of three digits next to this one."""
    decade = math.floor(math.log10(dilation))
    return _NUMBERS_PER_DECADE * decade + round(dilation / 10.0**decade * 100) - 100


def refusal(plan: Plan) -> HostTooSmall:
    """The error for a plan that does not fit, with the figures and the remedy."""
    remedy = f"--dilation {plan.smallest_dilation:g} is the smallest that fits (auto is a little more)"
    if plan.smallest_dilation > MOST_DILATION:
        remedy = f"no dilation up to {MOST_DILATION:g} helps: choose far slower devices"
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
