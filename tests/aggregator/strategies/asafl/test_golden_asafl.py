"""ASAFL, Algorithms 1 to 4 of Chen et al. 2024, recomputed by hand.

A model of two numbers has 64 bits; the band carries 64 bit/s, so that a_n, an upload with the whole band, takes 1 s.
"""

from __future__ import annotations

import math

import pytest
from msgspec import structs

from aggregator.strategies.asafl.asafl import ASAFL
from testbed.common.parameters import ParameterError
from testbed.history import trace
from tests.aggregator.imaginary import Fleet
from tests.aggregator.strategies.by_hand import ByHand, PlainForecast, check_conservation
from tests.aggregator.strategies.test_contract import fleet_of

GOLDEN = (1 + math.sqrt(5)) / 2


def three(strategy: ASAFL) -> ByHand:
    """Jobs of a take 1 s, those of b 2 s, those of c 4 s."""
    hand = ByHand(strategy, (0.0, 0.0), forecast=PlainForecast(computing={"a": 1.0, "b": 2.0, "c": 4.0}))
    hand.start(a=1, b=1, c=1)
    return hand


def planned(hand: ByHand) -> trace.Planned:
    return hand.events(trace.Planned)[-1]


def after_one_round(strategy: ASAFL) -> ByHand:
    """The two devices that finish first have uploaded: a (3, 0), b (0, 6)."""
    hand = three(strategy)
    # 1/(T − 1) + 1/(T − 2) = 1  ⟹  T² − 5T + 5 = 0  ⟹  T = (5 + √5)/2 = 2 + φ, with φ = 1.618…
    assert planned(hand).devices == ["a", "b"]
    assert planned(hand).seconds == pytest.approx(2 + GOLDEN)
    assert planned(hand).shares == pytest.approx([1 / (1 + GOLDEN), 1 / GOLDEN])  # 0.382, 0.618
    assert hand.grants() == pytest.approx({"a": 64 / (1 + GOLDEN), "b": 64 / GOLDEN})
    hand.now = 2 + GOLDEN
    hand.dispatched()
    hand.update("a", 3.0, 0.0)
    assert hand.engine.version == 0
    hand.update("b", 0.0, 6.0)
    return hand


def test_a_device_that_compresses_its_updates_gets_a_smaller_share() -> None:
    # both compute for 1 s; a_n is 1 s for the 64 bits of a, ¼ s for the 16 bits of b: (1 + ¼)/(T − 1) = 1 ⟹ T = 2¼
    hand = ByHand(ASAFL(control="fixed", degree=2), (0.0, 0.0), forecast=PlainForecast(bits={"b": 16}))
    hand.start(a=1, b=1)
    assert planned(hand).seconds == pytest.approx(2.25)
    assert hand.grants() == pytest.approx({"a": 64 * 0.8, "b": 64 * 0.2})


def test_every_version_uses_the_latest_gradient_of_all_devices() -> None:
    hand = after_one_round(ASAFL(control="fixed", degree=2))
    # (0, 0) + ⅓ [(3, 0) + (0, 6) + c: 0] = (1, 2)
    assert hand.model == pytest.approx([1.0, 2.0])
    assert sorted(hand.dispatched()) == ["a", "b"]  # c continues with the model that it has
    # c has 4 − 3.618 s left to compute, a 1 s, b 2 s
    assert planned(hand).devices == ["c", "a"]
    assert planned(hand).remaining == pytest.approx([2 - GOLDEN, 1.0])
    hand.update("c", -3.0, 3.0)
    hand.update("a", 6.0, 0.0)
    # (1, 2) + ⅓ [a: (6, 0) + b once more: (0, 6) + c: (−3, 3)] = (2, 5)
    assert hand.model == pytest.approx([2.0, 5.0])
    last = hand.events(trace.Aggregated)[-1]
    assert (len(last.tickets), sorted(last.staleness)) == (3, [0, 1])
    assert last.weights == pytest.approx([1 / 3] * 3)
    check_conservation(hand.engine)


def test_without_calibration_it_is_safl() -> None:
    hand = after_one_round(ASAFL(control="fixed", degree=2, calibrated=False))
    assert hand.model == pytest.approx([1.5, 3.0])  # ½ [(3, 0) + (0, 6)]
    hand.update("c", -3.0, 3.0)
    hand.update("a", 6.0, 0.0)
    assert hand.model == pytest.approx([3.0, 4.5])  # + ½ [(−3, 3) + (6, 0)]


def test_a_device_too_far_behind_is_restarted_on_the_new_version_and_may_be_in_the_next_round() -> None:
    """SAFL-SC in a cell: τ_0 = 1."""
    hand = three(ASAFL(control="fixed", degree=1, calibrated=False, tau_0=1))
    assert planned(hand).devices == ["a"]
    hand.now = 2.0  # computed in 1 s, and uploaded in 1 s with the whole band
    hand.dispatched()
    hand.update("a", 3.0, 0.0)
    assert hand.dispatched() == ["a"]  # b and c are 1 behind, which is τ_0
    assert planned(hand).devices == ["b"]  # it has computed, while a has started again
    hand.now = 3.0
    hand.ask("c")
    old = hand.train("c")
    hand.update("b", 0.0, 6.0)
    # version 2: c is 2 behind. It has computed and waits, but is restarted and has 4 s to compute; a has none
    assert (hand.model, hand.dispatched()) == ([3.0, 6.0], ["b", "c"])
    assert [(event.device, event.ticket) for event in hand.events(trace.Superseded)] == [("c", old.ticket)]
    assert (hand.train("c").version, planned(hand).devices) == (2, ["a"])
    hand.update("c", 9.0, 9.0, train=old)  # its ticket has ended
    assert (hand.engine.version, hand.model) == (2, [3.0, 6.0])
    check_conservation(hand.engine)


def test_the_light_variant_adds_differences_and_sends_each_device_its_baseline() -> None:
    hand = after_one_round(ASAFL(control="fixed", degree=2, memory="light"))
    assert hand.model == pytest.approx([1.0, 2.0])
    first = {event.device: event.ticket for event in hand.events(trace.Arrived)}
    assert (hand.train("a").baseline, hand.train("b").baseline, hand.train("c").baseline) == (
        first["a"],
        first["b"],
        0,
    )
    hand.update("c", -3.0, 3.0)
    hand.update("a", 3.0, 0.0)  # (6, 0) − (3, 0)
    assert hand.model == pytest.approx([2.0, 5.0])


def test_equal_shares_take_longer() -> None:
    hand = three(ASAFL(control="fixed", degree=2, allocation="equal"))
    assert (planned(hand).shares, planned(hand).seconds) == ([0.5, 0.5], 4.0)  # 2 + 1/½
    assert hand.grants() == {"a": 32.0, "b": 32.0}


def test_eba_chooses_the_degree_with_optimal_shares_and_grants_equal_ones() -> None:
    """T = 2 rounds in T_max = 7.3 s, myopic: 3.65 s for the first round."""
    optimal, equal, letter = (
        three(ASAFL(control="myopic", rounds=2, budget=7.3, allocation=name)) for name in ("optimal", "equal", "eba")
    )
    # two devices take 2 + φ = 3.618 s with the optimal shares, and 2 + 1/½ = 4 s with equal ones; three take longer
    assert (planned(optimal).devices, planned(optimal).seconds) == (["a", "b"], pytest.approx(2 + GOLDEN))
    assert (planned(equal).devices, planned(equal).seconds) == (["a"], 2.0)
    assert (planned(letter).devices, planned(letter).shares, planned(letter).seconds) == (["a", "b"], [0.5, 0.5], 4.0)
    assert letter.grants() == {"a": 32.0, "b": 32.0}


# ---- synchronous rounds of K


def test_a_synchronous_round_starts_k_devices_on_the_current_model_and_waits_for_all_of_them() -> None:
    hand = three(ASAFL(control="synchronous", degree=2, calibrated=False))
    chosen = []
    for version in range(12):
        devices = hand.dispatched()
        chosen.append(tuple(sorted(devices)))
        # only the two are at work, on the current model, and both have their grants
        assert set(hand.engine.busy.items()) == {(device, version) for device in devices}
        assert (sorted(planned(hand).devices), sorted(hand.grants())) == (sorted(devices), sorted(devices))
        assert len(devices) == 2
        before = hand.model
        hand.update(devices[0], 2.0, 0.0)
        assert (hand.engine.version, hand.dispatched()) == (version, [])
        hand.update(devices[1], 0.0, 4.0)
        assert hand.model == [before[0] + 1.0, before[1] + 2.0]  # ½ [(2, 0) + (0, 4)]
        assert hand.events(trace.Aggregated)[-1].staleness == [0, 0]
    assert set(chosen) == {("a", "b"), ("a", "c"), ("b", "c")}


def test_a_device_that_joins_waits_for_the_next_synchronous_round() -> None:
    hand = three(ASAFL(control="synchronous", degree=2, calibrated=False))
    first = hand.dispatched()
    hand.join("d")
    hand.give_up(first[0])
    assert hand.dispatched() == []
    hand.leave(first[1])  # no update can arrive any more: the round starts over for the same version
    assert (len(hand.dispatched()), hand.engine.version) == (2, 0)


def test_a_synchronous_round_has_all_devices_if_fewer_than_k_are_present() -> None:
    hand = ByHand(ASAFL(control="synchronous", degree=2), (0.0, 0.0))
    hand.start(a=1)
    assert (hand.dispatched(), planned(hand).devices) == (["a"], ["a"])


def test_a_threshold_of_staleness_is_refused_for_synchronous_rounds() -> None:
    with pytest.raises(ParameterError, match="has no effect with control = synchronous") as caught:
        ASAFL(control="synchronous", degree=2, tau_0=3).check(3)
    assert caught.value.key == "tau_0"


# ---- Algorithm 3


def test_the_degree_balances_staleness_against_the_time_spent() -> None:
    """T = 4 rounds in T_max = 4 s, μ = 10; jobs take 1 s."""
    hand = ByHand(ASAFL(rounds=4, budget=4.0), (0.0, 0.0))
    hand.start(a=1, b=1, c=1)
    assert (planned(hand).devices, planned(hand).queue) == (["a", "b", "c"], 0.0)  # q_0 = 0: all of them
    hand.now = 7.0
    for device in "abc":
        hand.update(device, 1.0, 1.0)
    # q_1 = 7 − 4/4 = 6; λ_1 = 1/3; T*(K) = 1 + K:   −(10/3)·K + 6·(1 + K) grows with K
    assert (planned(hand).queue, planned(hand).spent, planned(hand).devices) == (6.0, 7.0, ["a"])
    hand.now = 9.0
    hand.ask("b")
    hand.ask("c")
    hand.update("a", 1.0, 1.0)
    # q_2 = 6 + 2 − 1 = 7; λ_2 = 1/2; b and c are ready and one version behind, a has 1 s to compute
    # K = 1: −5·4 + 7·1 = −13;  K = 2: −5·8 + 7·2 = −26;  K = 3: T* = 2 + √2, −5·9 + 7·3.41 = −21.1
    assert (planned(hand).queue, planned(hand).devices, planned(hand).seconds) == (7.0, ["b", "c"], pytest.approx(2.0))
    assert [event.version for event in hand.events(trace.Planned)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("strategy", "degrees"),
    [
        (ASAFL(control="ascending", rounds=3), [1, 2, 3, 3]),
        (ASAFL(control="descending", rounds=3), [3, 2, 1, 1]),
        (ASAFL(control="fixed", degree=2), [2, 2, 2, 2]),
        # 8 s are left; then 8 − 4, 4 − 4, and none
        (ASAFL(control="greedy", rounds=4, budget=8.0), [3, 3, 1, 1]),
        # 8/4 s for one of them; 6/3, 4/2, 2/1
        (ASAFL(control="myopic", rounds=4, budget=8.0), [1, 1, 1, 1]),
    ],
    ids=lambda value: getattr(value, "control", None),
)
def test_other_controls_choose_their_own_degrees(strategy: ASAFL, degrees: list[int]) -> None:
    """Every round takes the planned time: 1 + K seconds if all devices start over."""
    hand = ByHand(strategy, (0.0, 0.0))
    hand.start(a=1, b=1, c=1)
    for degree in degrees:
        assert len(planned(hand).devices) == degree
        hand.now += 1.0 + degree
        for device in planned(hand).devices:
            hand.update(device, 1.0, 1.0)


# ---- faults


def test_a_round_ends_without_the_devices_that_leave_or_give_up() -> None:
    hand = three(ASAFL(control="fixed", degree=3))
    hand.leave("b")
    hand.update("a", 3.0, 0.0)
    assert hand.engine.version == 0
    hand.give_up("c")
    # (0, 0) + ⅓ (3, 0): b and c have sent nothing
    assert (hand.engine.version, hand.model) == (1, pytest.approx([1.0, 0.0]))
    assert sorted(planned(hand).devices) == ["a", "c"]


def test_a_round_without_any_device_left_starts_over_and_its_time_counts() -> None:
    hand = three(ASAFL(control="fixed", degree=1, rounds=10, budget=10.0))
    hand.now = 1.5
    hand.leave("a")
    assert [(event.version, event.devices) for event in hand.events(trace.Planned)] == [(0, ["a"]), (0, ["b"])]
    hand.now = 4.0
    hand.update("b", 1.0, 1.0)
    assert planned(hand).spent == 4.0


def test_a_device_that_joins_is_in_a_later_round() -> None:
    hand = three(ASAFL(control="fixed", degree=1))
    hand.join("d")
    assert hand.train("d").grant
    assert planned(hand).devices == ["a"]
    hand.update("a", 3.0, 0.0)
    assert hand.model == pytest.approx([0.75, 0.0])  # N is 4 now


def test_the_light_variant_rejects_the_open_update_of_a_device_that_rejoins() -> None:
    hand = three(ASAFL(control="fixed", degree=2, memory="light"))
    hand.update("a", 3.0, 0.0)
    hand.leave("a")
    hand.join("a")
    assert hand.train("a").baseline == 0
    [rejected] = hand.events(trace.Rejected)
    assert (rejected.device, rejected.reason) == ("a", "its device rejoined and starts over")
    hand.update("b", 0.0, 6.0)
    assert hand.model == pytest.approx([0.0, 2.0])


def test_a_difference_with_another_baseline_is_rejected() -> None:
    hand = three(ASAFL(control="fixed", degree=1, memory="light"))
    forgetful = structs.replace(hand.train("a"), baseline=99)
    hand.update("a", 3.0, 0.0, train=forgetful)
    [rejected] = hand.events(trace.Rejected)
    assert rejected.reason == "its difference has another baseline than the server"
    assert hand.model == [0.0, 0.0]


@pytest.mark.parametrize(
    ("strategy", "key"),
    [
        (ASAFL(control="fixed", degree=4), "degree"),
        (ASAFL(control="ascending", low=4), "low"),
        (ASAFL(control="descending", low=3, high=2), "low"),
        (ASAFL(calibrated=False, memory="light"), "memory"),
    ],
)
def test_parameters_that_do_not_fit_a_fleet_of_three_are_refused(strategy: ASAFL, key: str) -> None:
    with pytest.raises(ParameterError) as caught:
        strategy.check(3)
    assert caught.value.key == key


def test_ascending_ends_with_the_whole_fleet_if_that_is_smaller() -> None:
    ASAFL(control="ascending").check(3)


# ---- both memories


def run(memory: str, **traits: object) -> Fleet:
    fleet = fleet_of(lambda: ASAFL(rounds=100, budget=60.0, memory=memory), **traits)
    fleet.run(until=60.0)
    return fleet


def test_both_memories_make_the_same_models_even_if_transfers_are_lost() -> None:
    full, light = (
        run(memory, lost_downloads=range(2, 60, 4), given_up=range(3, 60, 7)) for memory in ("full", "light")
    )
    assert full.engine.tally.lost > 10
    assert (light.engine.version, light.engine.tally) == (full.engine.version, full.engine.tally)
    assert light.engine.tally.rejected == 0
    assert light.engine.model == pytest.approx(full.engine.model, abs=1e-4)


def test_both_memories_plan_grant_and_dispatch_the_same() -> None:
    full, light = run("full"), run("light")
    kinds = (trace.Planned, trace.Granted, trace.Dispatched)
    traced = [[event for event in fleet.trace if isinstance(event, kinds)] for fleet in (full, light)]
    assert traced[0] == traced[1]
