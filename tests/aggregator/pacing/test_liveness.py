"""No history of events may leave a strategy waiting for something that cannot happen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.engine.failures import Stalled
from aggregator.strategy import Decision, Server, Strategy
from devices.link import next_tick
from testbed.history import trace
from testbed.wire.messages import Train, Update
from tests.aggregator.strategies.by_hand import ByHand, check_conservation, check_memory
from tests.aggregator.strategies.test_contract import CONTRACT_ROWS, every_strategy
from tests.properties import examples

NAMES = ("a", "b", "c", "d", "e")
ON_DROP = ("retry", "next_tick", "give_up")
UNFIT = (float("nan"), float("inf"), 2e19)


class History:
    """Lets events happen to a fleet. A number selects a device or an event, modulo the number of choices.

    ``old_base``: devices train on the model that they have if a download is lost, where the strategy allows that.
    ``on_drop``: what they do after a lost upload. (A profile allows give_up only without old_base.)
    """

    def __init__(self, strategy: Strategy, present: int, *, old_base: bool, on_drop: str) -> None:
        self.on_drop = on_drop
        self.hand = ByHand(strategy, (0.0, 0.0, 0.0), keeps_base=old_base and strategy.keeps_old_base)
        self.hand.start(**{name: 1 + number for number, name in enumerate(NAMES[:present])})

    def _one(self, names: object, number: int) -> str | None:
        chosen = sorted(names)  # type: ignore[call-overload]
        return chosen[number % len(chosen)] if chosen else None

    def _busy(self, number: int) -> str | None:
        return self._one(self.hand.engine.busy, number)

    def updates(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.update(device, 1.0, -1.0, float(number))

    def brings_nothing(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.update(device, 0.0, 0.0, 0.0)

    def brings_a_huge_delta(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.update(device, 1.5e19, 0.0, 0.0)

    def brings_an_unfit_delta(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.update(device, 0.0, UNFIT[number % len(UNFIT)], 0.0)

    def claims_another_version(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.update(device, 1.0, 1.0, 1.0, version=self.hand.train(device).version + 1)

    def claims_no_samples(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.update(device, 1.0, 1.0, 1.0, samples=0)

    def updates_on_an_old_base(self, number: int) -> None:
        """Pass an update on the model of the update before; a device that has none is sent its model again."""
        if device := self._busy(number):
            earlier = [event.version for event in self.hand.events(trace.Arrived) if event.device == device]
            if earlier and self.hand.keeps_base:
                self.hand.update(device, 1.0, -1.0, 1.0, version=earlier[-1])
            else:
                self.loses_a_download(number)

    def loses_an_upload(self, number: int) -> None:
        """Give it up; or let time pass, after which any device may deliver."""
        if self.on_drop == "retry":
            self.time_passes(number)
        elif self.on_drop == "next_tick":
            self.hand.now = next_tick(self.hand.now, 1.0)
        elif device := self._busy(number):
            self.hand.give_up(device)

    def loses_a_download(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.heartbeat(device, trains=10**6)

    def repeats_an_old_ticket(self, number: int) -> None:
        past = [pair for pair in self.hand.sent if not self._is_current(*pair)]
        if past:
            device, train = past[number % len(past)]
            self.hand.update(device, 1.0, 1.0, 1.0, train=train)

    def _is_current(self, device: str, train: Train) -> bool:
        return device in self.hand.engine.busy and self.hand.train(device) is train

    def asks(self, number: int) -> None:
        """Pass a request for a grant. Strategies without grants ignore it."""
        if device := self._busy(number):
            self.hand.ask(device)

    def waits_for_a_grant(self, number: int) -> None:
        if device := self._busy(number):
            self.hand.heartbeat(device, ticket=self.hand.train(device).ticket, trains=10**6, state="waiting")

    def joins(self, number: int) -> None:
        self.hand.join(NAMES[number % len(NAMES)], samples=1 + number)

    def leaves(self, number: int) -> None:
        if device := self._one(self.hand.engine.devices, number):
            self.hand.leave(device)

    def cannot_be_reached(self, number: int) -> None:
        self.hand.unreachable ^= {NAMES[number % len(NAMES)]}

    def wakes(self, number: int) -> None:
        if self.hand.engine.wake_at is not None:
            self.hand.wake()

    def wakes_late(self, number: int) -> None:
        if self.hand.engine.wake_at is not None:
            self.hand.wake(late=number / 2)

    def time_passes(self, number: int) -> None:
        self.hand.now += number / 4

    def check(self) -> None:
        engine = self.hand.engine
        check_conservation(engine)
        check_memory(engine)
        # (a device that has asked and gets no grant would be busy forever: the engine raises Stalled)
        assert engine.busy or engine.wake_at is not None or not engine.devices

    def check_that_it_goes_on(self) -> None:
        """Let everything happen that can: then a version follows. A strategy may wait, but not forever."""
        self.hand.unreachable.clear()
        self.hand.join(NAMES[0])
        version = self.hand.engine.version
        for _ in range(3):
            for device in sorted(self.hand.engine.busy):
                if device in self.hand.engine.busy:
                    self.hand.update(device, 1.0, 2.0, 3.0)
            self.wakes(0)
        assert self.hand.engine.version > version


HAPPENINGS = (
    *[History.updates] * 4,  # more often than others, so that versions are made
    History.brings_nothing,
    History.brings_a_huge_delta,
    History.brings_an_unfit_delta,
    History.claims_another_version,
    History.claims_no_samples,
    *[History.loses_an_upload] * 2,
    *[History.updates_on_an_old_base] * 2,
    History.loses_a_download,
    History.repeats_an_old_ticket,
    *[History.asks] * 2,
    History.waits_for_a_grant,
    *[History.joins, History.leaves] * 2,
    History.cannot_be_reached,
    History.wakes,
    History.wakes_late,
    History.time_passes,
)
histories = st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 7)), min_size=8, max_size=40)


@every_strategy
@examples(500)
@given(present=st.integers(0, 4), happenings=histories, old_base=st.booleans(), on_drop=st.sampled_from(ON_DROP))
def test_a_strategy_never_waits_for_an_update_that_cannot_arrive(
    make: Callable[[], Strategy],
    present: int,
    happenings: list[tuple[Callable[[History, int], None], int]],
    old_base: bool,
    on_drop: str,
) -> None:
    history = History(make(), present, old_base=old_base, on_drop=on_drop)
    for happens, number in happenings:
        happens(history, number)
        history.check()
    history.check_that_it_goes_on()


class WaitsForEver(Strategy):
    """Deliberately wrong: starts each device once and never again."""

    def on_start(self, server: Server) -> Decision:
        return Decision(train=dict.fromkeys(server.devices, server.job))

    def on_join(self, device: str, server: Server) -> Decision:
        return Decision()

    def on_leave(self, device: str, server: Server) -> Decision:
        return Decision()

    def on_update(self, update: Update, server: Server) -> Decision:
        return Decision(rejected={update.ticket: "not wanted"})

    def on_ready(self, device: str, server: Server) -> Decision:
        return Decision()


@pytest.mark.parametrize(
    ("happens", "event"),
    [
        (lambda hand: hand.update("b", 1.0), "update of b"),
        (lambda hand: hand.update("b", float("nan")), "unfit update of b"),
        (lambda hand: hand.give_up("b"), "upload given up by b"),
        (lambda hand: hand.leave("b"), "leave of b"),
        (lambda hand: hand.join("b"), "leave of b"),
    ],
)
def test_a_strategy_that_stalls_is_named_with_the_event(happens: Callable[[ByHand], None], event: str) -> None:
    hand = ByHand(WaitsForEver())
    hand.start(a=1, b=1)
    hand.update("a", 1.0)
    with pytest.raises(Stalled, match=f"WaitsForEver stalled after {event}:"):
        happens(hand)


def test_a_strategy_that_waits_without_devices_does_not_stall() -> None:
    hand = ByHand(WaitsForEver())
    hand.start(a=1)
    hand.leave("a")
    with pytest.raises(Stalled, match="WaitsForEver stalled after join of c:"):
        hand.join("c")


def test_a_strategy_that_starts_no_device_stalls_at_the_start() -> None:
    class StartsNone(WaitsForEver):
        def on_start(self, server: Server) -> Decision:
            return Decision()

    with pytest.raises(Stalled, match="StartsNone stalled after start:"):
        ByHand(StartsNone()).start(a=1)


def test_the_table_has_all_paces() -> None:
    bases = {base.__name__ for make in CONTRACT_ROWS.values() for base in type(make()).__mro__}
    assert bases >= {"EveryUpdate", "EveryK", "EveryRound", "EveryTick", "GrantedRounds"}
