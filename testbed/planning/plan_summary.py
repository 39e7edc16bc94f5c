"""The plan of a run as ``plan --format json`` prints it."""

from __future__ import annotations

import msgspec

from testbed.host.core_plan import CorePlan
from testbed.host.survey import Survey
from testbed.planning.demand import StepDemand
from testbed.planning.planner import CAPACITY, CoreDemand, Plan


class PlannedCore(msgspec.Struct, frozen=True, kw_only=True):
    """The demand on one core: its total, and the share for each use."""

    core: int
    devices: int
    demand: float
    computing: float
    aggregator: float
    evaluator: float


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a throttled device, in host seconds."""

    device: str
    samples: int
    step_host_s: float
    """Seconds that the step must take by the profile."""
    needed_host_s: float
    """CPU seconds of the step when the host is slow."""
    share: float
    """The share of a core that is needed for the deadlines."""


class PlanSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The demand of a run on this host; the fields mean the same as those of ``Plan``."""

    fits: bool
    dilation: float
    smallest_dilation: float
    capacity: float
    core_plan: CorePlan
    cores: list[PlannedCore]
    devices: list[PlannedStep]
    """The throttled devices only."""
    memory_bytes: int
    memory_free: int
    updates_per_second: float
    service_seconds: float
    survey: Survey


def summary(plan: Plan) -> PlanSummary:
    """Return the summary of a plan."""
    return PlanSummary(
        fits=plan.fits,
        dilation=plan.dilation,
        smallest_dilation=plan.smallest_dilation,
        capacity=CAPACITY,
        core_plan=plan.core_plan,
        cores=[_core(core) for core in plan.cores],
        devices=[_step(step) for step in plan.steps],
        memory_bytes=plan.memory_bytes,
        memory_free=plan.memory_free,
        updates_per_second=plan.updates_per_second,
        service_seconds=plan.service_seconds,
        survey=plan.survey,
    )


def _core(core: CoreDemand) -> PlannedCore:
    return PlannedCore(
        core=core.core,
        devices=core.devices,
        demand=core.total,
        computing=core.computing,
        aggregator=core.aggregator,
        evaluator=core.evaluator,
    )


def _step(step: StepDemand) -> PlannedStep:
    return PlannedStep(
        device=step.device.name,
        samples=step.samples,
        step_host_s=step.asked,
        needed_host_s=step.needed,
        share=step.share,
    )
