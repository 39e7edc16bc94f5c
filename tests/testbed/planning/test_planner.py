"""The demand of a run, computed by hand; the dilation that fits; and why a plan is refused."""

from __future__ import annotations

from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.host.core_plan import CorePlan, CoreRoles
from testbed.host.priority import Policy
from testbed.host.survey import StepTime, Survey
from testbed.loading import profile_files, profile_loader
from testbed.planning import demand, planner
from testbed.planning.planner import CAPACITY, CoreDemand, Plan
from testbed.profile.schema import DeviceGroup, DeviceProfile, Direction, Experiment, LinkProfile, Phase, Presence
from testbed.wire.training_job import Job
from tests.properties import examples

ONE_CORE = CorePlan(aggregator=0, evaluator=0, devices=(0, 0))
OWN_CORE = CorePlan(aggregator=0, evaluator=0, devices=(1, 1))
ALONE = CorePlan(aggregator=0, evaluator=0, devices=(1,))
ROLES = CoreRoles(aggregator=0, evaluator=0, device_cores=(1,), shareable=(1, 0), policy=Policy.REAL_TIME)
SURVEY = Survey(
    parameters=10_000,
    samples=(320, 320),
    steps=(
        StepTime(samples=4, seconds=0.002, alone=0.001, slow=0.004),
        StepTime(samples=32, seconds=0.016, alone=0.008, slow=0.032),
    ),
    evaluation_seconds=0.25,
)


def fleet_of(*speeds: float | None, **keys: Any) -> Experiment:
    """One group for each speed, with links that take no time; None is not throttled."""
    groups = tuple(
        DeviceGroup(
            name=f"d{i}",
            link=LinkProfile(),
            profile=DeviceProfile(seconds_per_sample=speed, throttle="pace" if speed else "none"),
        )
        for i, speed in enumerate(speeds)
    )
    return Experiment(**{"name": "n", "strategy": "fedavg", "devices": groups} | keys)


@pytest.fixture
def round_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs beside the training that are easy to add up."""
    monkeypatch.setattr(demand, "_JOB_SECONDS", 0.32)
    monkeypatch.setattr(demand, "_HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(demand, "_UPDATE_SECONDS", 0.16)
    monkeypatch.setattr(demand, "_SECONDS_PER_BYTE", 1e-6)  # 0.04 s for these 40,000 bytes


# ---- demand


@pytest.mark.usefixtures("round_costs")
def test_the_demand_of_two_devices_on_one_core_is_as_computed_by_hand() -> None:
    plan = planner.plan(fleet_of(0.01, 0.01), SURVEY, OWN_CORE, 1.0)
    shared, own = plan.cores
    # a step of 32 in 0.32 s needs 0.032 s when the host is slow; a heartbeat each second; 0.36 s beside a job of 3.2 s
    assert own.computing == pytest.approx(2 * (0.1 + 0.01 + 0.1125))
    assert (own.core, own.devices, own.aggregator, own.evaluator) == (1, 2, 0.0, 0.0)
    # two updates in 3.2 s at 0.2 s, and the other ends of the heartbeats
    assert shared.aggregator == pytest.approx(0.625 * 0.2 + 2 * 0.01)
    assert (shared.core, shared.devices, shared.computing) == (0, 0, 0.0)
    assert shared.evaluator == pytest.approx(0.25)
    assert plan.updates_per_second == pytest.approx(0.625)
    assert plan.service_seconds == pytest.approx(0.2)
    assert plan.demand == pytest.approx(0.445)


@pytest.mark.usefixtures("round_costs")
@pytest.mark.parametrize("in_flight", [1, 0.5])
def test_an_idle_device_needs_only_its_heartbeats(in_flight: float) -> None:
    experiment = fleet_of(0.01, 0.02, strategy={"name": "fedasync", "in_flight": in_flight})
    plan = planner.plan(experiment, SURVEY, OWN_CORE, 1.0)
    shared, own = plan.cores
    # one device computes, at most the faster one, with a step of 32 in 0.32 s and a job in 3.2 s; both send heartbeats
    assert own.computing == pytest.approx((0.1 + 0.01 + 0.1125) + 0.01)
    assert shared.aggregator == pytest.approx(0.3125 * 0.2 + 2 * 0.01)
    assert plan.updates_per_second == pytest.approx(0.3125)


def test_more_devices_than_a_round_has_may_compute_after_its_deadline() -> None:
    limited = {"name": "fedavg", "in_flight": 1}
    few = planner.plan(fleet_of(0.01, 0.01, strategy=limited), SURVEY, OWN_CORE, 1.0)
    late = planner.plan(fleet_of(0.01, 0.01, strategy={**limited, "deadline": 5.0}), SURVEY, OWN_CORE, 1.0)
    everyone = planner.plan(fleet_of(0.01, 0.01), SURVEY, OWN_CORE, 1.0)
    assert few.demand < late.demand == everyone.demand


@pytest.mark.usefixtures("round_costs")
def test_the_demand_on_a_shared_core_includes_all_but_the_evaluator() -> None:
    plan = planner.plan(fleet_of(0.01, 0.01), SURVEY, ONE_CORE, 1.0)
    (core,) = plan.cores
    assert core.total == pytest.approx(0.445 + 0.145)
    assert core.evaluator == pytest.approx(0.25)


@pytest.mark.usefixtures("round_costs")
def test_twice_the_dilation_is_half_the_demand() -> None:
    plan = planner.plan(fleet_of(0.01, 0.01), SURVEY, ONE_CORE, 2.0)
    (core,) = plan.cores
    assert core.total == pytest.approx((0.445 + 0.145) / 2)
    assert core.evaluator == pytest.approx(0.125)


def test_a_step_is_as_short_as_in_the_fastest_phase_of_its_device() -> None:
    experiment = fleet_of(0.01)
    quick = replace(experiment.devices[0], schedule=(Phase(at=5.0, speed=4.0), Phase(at=9.0, speed=0.5)))
    (step,) = planner.plan(replace(experiment, devices=(quick,)), SURVEY, ALONE, 1.0).steps
    assert step.asked == pytest.approx(0.08)
    assert step.share == pytest.approx(0.4)


def test_a_device_with_few_samples_has_shorter_steps() -> None:
    survey = Survey(parameters=10_000, samples=(4,), steps=SURVEY.steps)
    (step,) = planner.plan(fleet_of(0.01), survey, ALONE, 1.0).steps
    assert (step.samples, step.asked, step.needed) == (4, pytest.approx(0.04), pytest.approx(0.004))


def test_a_batch_of_zero_is_a_step_over_all_samples_of_each_device() -> None:
    survey = Survey(parameters=10_000, samples=(4, 3_200), steps=SURVEY.steps)
    plan = planner.plan(fleet_of(0.01, 0.01, training=Job(steps=2, batch=0)), survey, OWN_CORE, 1.0)
    assert [(step.samples, step.asked) for step in plan.steps] == [(4, pytest.approx(0.04)), (3200, pytest.approx(32))]
    # twice as long for twice the samples, also far beyond the timed batches
    assert [step.needed for step in plan.steps] == pytest.approx([0.004, 3.2])
    assert plan.updates_per_second == pytest.approx(1 / 0.08 + 1 / 64)


def test_the_shortest_step_is_that_of_the_fastest_paced_device() -> None:
    experiment = fleet_of(0.01, 0.005)
    plan = planner.plan(experiment, SURVEY, OWN_CORE, 1.0)
    assert plan.shortest_step is not None
    assert plan.shortest_step.device.name == "d1-1"
    assert planner.plan(fleet_of(None, None), Survey(samples=(1, 1)), OWN_CORE, 1.0).shortest_step is None


# ---- dilation


@examples(100)
@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6),
    st.floats(1e-5, 1.0),
    st.floats(0.01, 100.0),
    st.sampled_from([0.05, 1.0, 10.0]),
)
def test_the_smallest_dilation_fits_and_a_little_less_does_not(
    speeds: list[float], slow: float, dilation: float, beat: float
) -> None:
    experiment = fleet_of(*speeds, presence=Presence(heartbeat=beat))
    cores = CorePlan(aggregator=0, evaluator=0, devices=tuple(i % 2 for i in range(len(speeds))))
    steps = (StepTime(samples=32, seconds=slow, alone=slow, slow=slow),)
    survey = Survey(parameters=1000, samples=(64,) * len(speeds), steps=steps)
    smallest = planner.plan(experiment, survey, cores, dilation).smallest_dilation
    assert float(f"{smallest:.3g}") == smallest
    assert planner.plan(experiment, survey, cores, smallest).demand <= CAPACITY * (1 + 1e-12)
    assert planner.plan(experiment, survey, cores, 0.98 * smallest).demand > CAPACITY


def with_demand(demand: float, dilation: float = 1.0) -> Plan:
    plan = planner.plan(fleet_of(0.01, 0.01), SURVEY, OWN_CORE, dilation)
    return replace(plan, cores=(CoreDemand(core=0, devices=2, computing=demand, aggregator=0.0, evaluator=0.0),))


@pytest.mark.parametrize(
    ("demand", "dilation", "smallest"),
    [(0.8008, 1.0, 1.01), (8.0, 1.0, 10.0), (1.0, 2.0, 2.5), (0.01, 1.0, 0.0125), (1000.0, 1.0, 1250.0)],
)
def test_the_smallest_dilation_is_rounded_up_to_three_figures(demand: float, dilation: float, smallest: float) -> None:
    assert with_demand(demand, dilation).smallest_dilation == pytest.approx(smallest, rel=1e-9)


def test_the_smallest_dilation_fits_even_if_it_needed_no_rounding() -> None:
    smallest = with_demand(4.248).smallest_dilation
    assert with_demand(4.248 / smallest, smallest).keeps_deadlines


def test_an_absurdly_high_speed_is_refused_like_any_other() -> None:
    plan = planner.plan(fleet_of(5e-324), SURVEY, ALONE, 1.0)
    assert "must compute a step" in str(planner.refusal(plan))


def test_auto_is_a_little_more_than_the_smallest_dilation_that_fits() -> None:
    plan = planner.settled(fleet_of(0.001, 0.001, dilation="auto", cores="apart"), SURVEY, ROLES)
    at_one = planner.plan(fleet_of(0.001, 0.001), SURVEY, OWN_CORE, 1.0)
    assert at_one.demand > CAPACITY
    assert plan.dilation == pytest.approx(1.2 * at_one.smallest_dilation)
    assert at_one.smallest_dilation > 2
    assert plan.demand <= CAPACITY


def test_auto_never_goes_below_one() -> None:
    plan = planner.settled(fleet_of(1.0, 1.0, dilation="auto"), SURVEY, ROLES)
    assert plan.dilation == 1.0
    assert plan.smallest_dilation < 0.1


def test_a_given_dilation_is_used_whether_it_fits_or_not() -> None:
    assert planner.settled(fleet_of(1.0, 1.0, dilation=0.25), SURVEY, ROLES).dilation == 0.25
    assert not planner.settled(fleet_of(0.001, 0.001, dilation=1.1), SURVEY, ROLES).fits


# ---- the aggregator's core


def test_devices_share_the_aggregators_core_if_their_own_cores_do_not_suffice() -> None:
    few, many = fleet_of(0.01, 0.01, dilation=1.0), fleet_of(0.0025, 0.0025, dilation=1.0)
    assert planner.settled(few, SURVEY, ROLES).core_plan.devices == (1, 1)
    shared = planner.settled(many, SURVEY, ROLES)
    assert (shared.core_plan.devices, shared.fits) == ((1, 0), True)
    nearly_full = planner.settled(fleet_of(0.004, 0.004, dilation=1.0), SURVEY, ROLES)  # half a core and more
    assert nearly_full.core_plan.devices == (1, 0)
    assert not planner.settled(replace(many, cores="apart"), SURVEY, ROLES).fits


def test_sharing_nearly_halves_the_smallest_dilation_on_two_cores() -> None:
    fleet = fleet_of(0.001, 0.001, 0.001, 0.001, dilation="auto")
    survey = Survey(parameters=10_000, samples=(320,) * 4, steps=SURVEY.steps, evaluation_seconds=0.01)
    shared = planner.settled(fleet, survey, ROLES)
    apart = planner.settled(replace(fleet, cores="apart"), survey, ROLES)
    assert shared.core_plan.devices.count(0) == 2
    assert 0.5 <= shared.smallest_dilation / apart.smallest_dilation < 0.55
    assert shared.keeps_deadlines


def test_the_smallest_dilation_is_that_of_the_best_core_plan_even_if_another_one_is_chosen() -> None:
    survey = msgspec.structs.replace(SURVEY, evaluation_seconds=0.01)
    plan = planner.settled(fleet_of(0.01, 0.01, dilation=1.0), survey, ROLES)
    assert not plan.core_plan.is_shared
    alone = planner.plan(fleet_of(0.01, 0.01), survey, OWN_CORE, 1.0)
    assert plan.smallest_dilation < 0.7 * alone.smallest_dilation
    at_smallest = planner.settled(fleet_of(0.01, 0.01, dilation=plan.smallest_dilation), survey, ROLES)
    assert at_smallest.keeps_deadlines
    assert at_smallest.core_plan.is_shared


def test_a_busy_aggregator_shares_its_core_at_the_dilation_at_which_it_is_less_busy() -> None:
    """At dilation 1, the updates of this fleet would use up the aggregator's core."""
    fleet = fleet_of(*[0.0005] * 40, dilation="auto", training=Job(steps=1))
    survey = Survey(parameters=10_000, samples=(320,) * 40, steps=SURVEY.steps, evaluation_seconds=0.01)
    assert planner.plan(fleet, survey, CorePlan(aggregator=0, evaluator=0, devices=(1,) * 40), 1.0).cores[0].total > 0.8
    plan = planner.settled(fleet, survey, ROLES)
    assert plan.core_plan.is_shared
    assert plan.dilation == pytest.approx(1.2 * plan.smallest_dilation)
    assert plan.demand == pytest.approx(CAPACITY / 1.2, rel=0.02)


def test_the_smallest_dilation_is_the_one_at_which_a_busy_aggregator_may_just_share_its_core() -> None:
    """Alone on their core, the devices need much more; beside the aggregator, less would do, but for its own share."""
    survey = msgspec.structs.replace(SURVEY, samples=(320,) * 4, update_seconds={"fedavg": 0.0055})
    fleet = fleet_of(*[0.001] * 4, dilation="auto", training=Job(steps=1))
    plan = planner.settled(fleet, survey, ROLES)
    apart = planner.settled(replace(fleet, cores="apart"), survey, ROLES)
    aggregator = planner.plan(fleet, survey, plan.core_plan, 1.0).cores[0].aggregator
    assert plan.smallest_dilation == pytest.approx(aggregator / 0.25, rel=0.01)
    assert 1.1 * plan.smallest_dilation < apart.smallest_dilation


@given(
    st.lists(st.floats(1e-4, 0.1), min_size=1, max_size=6),
    st.floats(0.0, 2.0),
    st.floats(1e-5, 0.01),
    st.sampled_from([0.1, 1.0, 30.0]),
)
def test_the_smallest_dilation_of_a_host_fits_and_the_next_number_below_does_not(
    speeds: list[float], evaluation: float, update: float, wanted: float
) -> None:
    survey = Survey(
        parameters=1000,
        samples=(64,) * len(speeds),
        steps=SURVEY.steps,
        evaluation_seconds=evaluation,
        update_seconds={"fedavg": update},
    )
    smallest = planner.settled(fleet_of(*speeds, dilation=wanted), survey, ROLES).smallest_dilation
    assert planner.settled(fleet_of(*speeds, dilation=smallest), survey, ROLES).keeps_deadlines
    below = float(Context(prec=3).next_minus(Decimal(repr(smallest))))
    assert not planner.settled(fleet_of(*speeds, dilation=below), survey, ROLES).keeps_deadlines


@given(st.lists(st.floats(1e-4, 0.1), min_size=1, max_size=6), st.floats(0.0, 2.0))
def test_a_dilation_of_auto_fits_whatever_the_evaluator_needs(speeds: list[float], evaluation: float) -> None:
    survey = Survey(parameters=1000, samples=(64,) * len(speeds), steps=SURVEY.steps, evaluation_seconds=evaluation)
    assert planner.settled(fleet_of(*speeds, dilation="auto"), survey, ROLES).keeps_deadlines


# ---- refusals


def test_the_refusal_of_a_host_that_is_too_small_has_figures_and_a_remedy() -> None:
    plan = planner.plan(fleet_of(0.002, 0.002), SURVEY, OWN_CORE, 1.0)  # half a core each
    text = str(planner.refusal(plan))
    assert not plan.fits
    assert text.startswith(f"this host is too small: the demand on core 1 is {plan.demand:.2f} (2 devices")
    assert "0.80 is the most" in text
    assert f"--dilation {plan.smallest_dilation:g} is the smallest that fits" in text
    assert "--no-admission" in text


def test_a_device_faster_than_the_core_is_named_with_both_times() -> None:
    plan = planner.plan(fleet_of(0.01, 0.0005), SURVEY, OWN_CORE, 1.0)
    text = str(planner.refusal(plan))
    assert text.startswith(
        "devices[1]: d1-1 must compute a step of 32 samples in 16 ms, but a core of this host needs 32"
    )
    assert f"--dilation {plan.smallest_dilation:g} is the smallest" in text
    assert "slower device" in text


def test_too_little_memory_is_reported_before_anything_else() -> None:
    plan = replace(planner.plan(fleet_of(0.0005, 0.0005), SURVEY, OWN_CORE, 1.0), memory_bytes=3 * 10**9, memory_free=2)
    assert not plan.fits
    assert str(planner.refusal(plan)).startswith("devices: 2 devices of this model need about 3.0 GB of memory and 0.0")


def test_the_needed_memory_includes_the_vectors_of_the_model() -> None:
    small, large = (
        planner.plan(fleet_of(1.0), Survey(parameters=count, samples=(1,), steps=SURVEY.steps), ALONE, 1.0).memory_bytes
        for count in (0, 10**6)
    )
    assert large - small == 6 * 4 * 10**6


@pytest.mark.parametrize("count", [1, 20])
def test_devices_that_are_not_throttled_have_no_demand(count: int) -> None:
    cores = CorePlan(aggregator=0, evaluator=0, devices=(1,) * count)
    survey = Survey(parameters=10_000, samples=(64,) * count)
    plan = planner.plan(fleet_of(*[None] * count), survey, cores, 1.0)
    assert plan.steps == ()
    assert plan.cores[1].computing == 0.0


@pytest.mark.parametrize("dilation", [1.0, "auto"])
def test_a_fleet_that_is_not_throttled_is_never_refused_nor_slowed(dilation: float | str) -> None:
    experiment = fleet_of(*[None] * 100, dilation=dilation)
    plan = planner.settled(experiment, Survey(parameters=10_000, samples=(64,) * 100), ROLES)
    assert (replace(plan, memory_free=2**60).fits, plan.dilation) == (True, 1.0)


def test_a_device_without_a_throttle_may_not_share_the_core_of_one_with_deadlines() -> None:
    plan = planner.plan(fleet_of(10.0, None), SURVEY, OWN_CORE, 1.0)
    assert not plan.fits
    assert "1 devices without a throttle would use it up, and 1 others have deadlines" in str(planner.refusal(plan))


def test_a_mixed_fleet_is_admitted_although_it_has_as_many_devices_without_a_throttle_as_cores() -> None:
    three = replace(ROLES, device_cores=(1, 2, 3))
    survey = Survey(parameters=10_000, samples=(320,) * 7, steps=SURVEY.steps)
    speeds = (*[0.004] * 4, None, None, None)  # those with a speed need 1.2 cores
    assert planner.settled(fleet_of(*speeds, cores="apart"), survey, three).keeps_deadlines


def test_a_device_without_a_throttle_takes_the_core_of_a_busy_aggregator_if_the_others_need_theirs() -> None:
    survey = Survey(parameters=10_000, samples=(320,) * 3, steps=SURVEY.steps, update_seconds={"fedavg": 0.2})
    plan = planner.settled(fleet_of(0.004, 0.004, None, cores="shared"), survey, ROLES)
    assert (plan.core_plan.devices, plan.keeps_deadlines) == ((1, 1, 0), True)


def test_no_dilation_is_sought_for_deadlines_beside_devices_without_a_throttle() -> None:
    survey = Survey(parameters=10_000, samples=(320,) * 11, steps=SURVEY.steps)
    plan = planner.settled(fleet_of(10.0, *[None] * 10, dilation="auto"), survey, ROLES)
    assert not plan.fits
    assert plan.smallest_dilation < 20


def test_a_shipped_experiment_is_planned_like_any_other() -> None:
    experiment = profile_loader.load(profile_files.SHIPPED / "experiments" / "quickstart.toml")
    survey = Survey(parameters=6090, samples=(179,) * 8, steps=SURVEY.steps)
    plan = planner.settled(experiment, survey, ROLES)
    assert len(plan.steps) == len(plan.devices) == 8
    assert sum(core.computing for core in plan.cores) > sum(step.share for step in plan.steps)


# ---- compressed updates


def test_a_compressed_upload_is_shorter_and_the_device_needs_time_and_memory_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demand, "_SECONDS_PER_COMPRESSED_NUMBER", 1e-5)
    up = LinkProfile(up=Direction(mbit=0.32))  # 40,000 bytes in 1 s

    def planned(method: str) -> Plan:
        [group] = fleet_of(0.01).devices
        experiment = fleet_of(devices=(replace(group, link=up, compress_updates=method),))
        return planner.plan(experiment, SURVEY, ALONE, 1.0)

    # computing takes 3.2 s; topk:0.25 sends 2500 numbers, which are 20,000 bytes
    plain, compressed = planned("none"), planned("topk:0.25")
    assert plain.updates_per_second == pytest.approx(1 / 4.2)
    assert compressed.updates_per_second == pytest.approx(1 / 3.7)
    beside = [core.computing for plan in (plain, compressed) for core in plan.cores if core.core == 1]
    costs = (demand._JOB_SECONDS + 40_000 * demand._SECONDS_PER_BYTE, 10_000 * 1e-5)
    assert beside[1] - beside[0] == pytest.approx(sum(costs) / 3.7 - costs[0] / 4.2)
    assert compressed.memory_bytes - plain.memory_bytes == 4 * 40_000
