"""The engine: tickets, resends, losses, impossible decisions, and the models that it keeps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from aggregator.engine.failures import BadDecision, Stalled
from aggregator.pacing.round_ended import RoundEnded
from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import Decision, Server, Strategy
from testbed.history import trace
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand, check_conservation, check_memory, vector

Answer = Callable[[Server], Decision]


class Scripted(Strategy):
    """Gives the answer that the test sets to the next event. Else it adds deltas and starts idle devices."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.answer: Answer | None = None

    def _decide(self, event: str, server: Server, update: Update | None = None) -> Decision:
        self.events.append(event)
        if self.answer is not None:
            answer, self.answer = self.answer, None
            return answer(server)
        train = {device: server.job for device in server.devices if device not in server.busy}
        if update is None:
            return Decision(train=train)
        return Decision(model=server.model + update.delta, applied={update.ticket: 1.0}, train=train)

    def on_start(self, server: Server) -> Decision:
        return self._decide("start", server)

    def on_join(self, device: str, server: Server) -> Decision:
        return self._decide(f"join {device}", server)

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._decide(f"leave {device}", server)

    def on_update(self, update: Update, server: Server) -> Decision:
        return self._decide(f"update {update.device}", server, update)

    def on_ready(self, device: str, server: Server) -> Decision:
        return self._decide(f"ready {device}", server)

    def on_wake(self, server: Server) -> Decision:
        return self._decide("wake", server)


class Scene:
    """Devices a and b are busy on version 0 under a scripted strategy."""

    def __init__(self) -> None:
        self.strategy = Scripted()
        self.hand = ByHand(self.strategy)
        self.hand.start(a=1, b=1)
        self.hand.dispatched()
        self.strategy.events.clear()

    def answer(self, answer: Answer) -> None:
        self.strategy.answer = answer

    def reasons(self, kind: type[trace.Rejected] | type[trace.Lost] | type[trace.Left]) -> list[tuple[str, str]]:
        return [(event.device, event.reason) for event in self.hand.events(kind)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


# ---- tickets


def test_every_dispatch_has_a_new_ticket_and_carries_the_current_model(scene: Scene) -> None:
    scene.hand.update("a", 1.5)
    scene.hand.update("a", 1.5)
    assert [(name, train.ticket, train.version, train.model.tolist()) for name, train in scene.hand.sent] == [
        ("a", 1, 0, [0.0]),
        ("b", 2, 0, [0.0]),
        ("a", 3, 1, [1.5]),
        ("a", 4, 2, [3.0]),
    ]


def test_devices_that_join_before_the_start_are_started_by_it() -> None:
    strategy = Scripted()
    hand = ByHand(strategy)
    hand.join("a")
    hand.join("b")
    hand.leave("b")
    assert (strategy.events, hand.sent) == ([], [])
    hand.engine.start(0.0)
    assert (strategy.events, hand.dispatched()) == (["start"], ["a"])


def test_an_update_is_accepted_once(scene: Scene) -> None:
    first = scene.hand.train("a")
    scene.hand.update("a", 1.0)
    scene.hand.update("a", 1.0, train=first)
    assert scene.hand.model == [1.0]
    assert scene.strategy.events == ["update a"]
    assert [(event.device, event.ticket) for event in scene.hand.events(trace.Ignored)] == [("a", first.ticket)]
    assert scene.hand.engine.tally.dispatched == 3


@pytest.mark.parametrize("ended", ["delivered", "left"])
def test_a_strategy_stalls_when_the_last_device_at_work_has_delivered_or_left(scene: Scene, ended: str) -> None:
    scene.answer(lambda server: Decision())
    scene.hand.update("a", 1.0)  # b is still at work
    scene.answer(lambda server: Decision())
    with pytest.raises(Stalled):
        scene.hand.update("b", 1.0) if ended == "delivered" else scene.hand.leave("b")


def test_the_ticket_of_another_device_is_ignored(scene: Scene) -> None:
    scene.hand.update("a", 1.0, train=scene.hand.train("b"))
    assert scene.strategy.events == []
    assert [event.device for event in scene.hand.events(trace.Ignored)] == ["a"]


def test_an_update_of_a_device_that_is_not_present_is_ignored(scene: Scene) -> None:
    train = scene.hand.train("a")
    scene.hand.leave("a")
    scene.hand.update("a", 1.0, train=train)
    assert scene.strategy.events == ["leave a"]
    assert [event.ticket for event in scene.hand.events(trace.Ignored)] == [train.ticket]


def test_a_busy_device_that_is_named_again_is_restarted(scene: Scene) -> None:
    old = scene.hand.train("b")
    scene.answer(
        lambda server: Decision(model=vector(5.0), train={"a": server.job, "b": server.job}, rejected={1: "-"})
    )
    scene.hand.update("a", 1.0)
    assert [(event.device, event.ticket) for event in scene.hand.events(trace.Superseded)] == [("b", old.ticket)]
    scene.hand.update("b", 1.0, train=old)
    assert scene.hand.model == [5.0]
    scene.hand.update("b", 1.0)
    assert scene.hand.model == [6.0]
    check_conservation(scene.hand.engine)


def test_a_device_may_stay_idle_while_its_update_awaits_a_decision(scene: Scene) -> None:
    scene.answer(lambda server: Decision())
    scene.hand.update("a", 1.0)
    engine = scene.hand.engine
    assert (scene.hand.dispatched(), dict(engine.busy), engine.in_flight) == ([], {"b": 0}, 2)
    assert (engine.base_of("a"), engine.base_of("b"), engine.base_of("unknown")) == (None, 0, None)
    scene.answer(lambda server: Decision(rejected={1: "too late"}, train={"b": server.job}, model=vector(1.0)))
    scene.hand.update("b", 1.0)
    assert scene.reasons(trace.Rejected) == [("a", "too late")]
    assert engine.in_flight == 2  # ticket 2 awaits a decision, ticket 3 is computed
    check_conservation(engine)


def test_an_applied_update_may_be_used_again_in_a_later_version_but_counts_once(scene: Scene) -> None:
    scene.hand.update("a", 1.0)
    scene.answer(lambda server: Decision(model=vector(9.0), applied={1: 0.5, 2: 0.5}, train={"b": server.job}))
    scene.hand.update("b", 1.0)
    assert scene.hand.events(trace.Aggregated)[-1].tickets == [1, 2]
    assert scene.hand.engine.tally.applied == 2
    check_conservation(scene.hand.engine)


# ---- lost downloads and given-up uploads


def test_a_lost_download_is_sent_again(scene: Scene) -> None:
    scene.hand.now += 2.5
    scene.hand.heartbeat("a", ticket=0, trains=1)
    first, again = (train for name, train in scene.hand.sent if name == "a")
    assert again.model is first.model
    assert (again.ticket, again.version, again.job) == (first.ticket, first.version, first.job)
    assert again.sent == first.sent + 2.5  # its download starts again
    assert [(event.device, event.ticket) for event in scene.hand.events(trace.Resent)] == [("a", first.ticket)]
    assert scene.hand.engine.tally.dispatched == 2
    assert scene.strategy.events == []


def test_a_train_that_is_still_on_its_way_is_not_sent_again(scene: Scene) -> None:
    scene.hand.heartbeat("a", ticket=0, trains=0)
    assert scene.hand.dispatched() == []


def test_a_train_that_does_not_arrive_for_many_heartbeats_is_asked_for(scene: Scene) -> None:
    asked = []
    for _ in range(13):
        scene.hand.heartbeat("a", ticket=0, trains=0)
        asked.append(len(scene.hand.counts))
    # after five heartbeats of patience, then patience again
    assert asked == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2]
    assert set(scene.hand.counts) == {("a", 1)}
    assert scene.hand.dispatched() == []


def test_a_train_that_had_not_arrived_before_the_number_of_trains_is_sent_again(scene: Scene) -> None:
    for _ in range(6):
        scene.hand.heartbeat("a", trains=0)
    [(_, trains)] = scene.hand.counts
    scene.hand.heartbeat("a", trains=trains)  # the device has received the number, and not the Train
    assert scene.hand.dispatched() == ["a"]
    assert len(scene.hand.events(trace.Resent)) == 1


def test_heartbeats_that_a_slow_host_delivers_together_do_not_cause_a_resend(scene: Scene) -> None:
    """500 devices on two cores: the heartbeats of 25 seconds arrive at once, all from before the Train."""
    for _ in range(25):
        scene.hand.heartbeat("a", trains=0)
    scene.hand.heartbeat("a", ticket=scene.hand.train("a").ticket, trains=1)  # the Train, then the number of Trains
    scene.hand.update("a", 1.0)
    assert scene.hand.events(trace.Resent) == []
    assert scene.hand.dispatched() == ["a"]  # its next job


def test_heartbeats_that_cross_a_train_do_not_cause_a_resend(scene: Scene) -> None:
    for number in range(1, 13):  # the Trains that were sent to a
        scene.hand.heartbeat("a", trains=number - 1)
        scene.hand.heartbeat("a", ticket=scene.hand.train("a").ticket, trains=number)
        scene.hand.update("a", 1.0)
    assert scene.hand.events(trace.Resent) == []
    assert scene.hand.dispatched() == ["a"] * 12


def test_heartbeats_that_each_cross_another_train_cause_nothing(scene: Scene) -> None:
    """A device without a pause sends each heartbeat right after an update: it never has the Train that answers it."""
    for number in range(1, 13):
        scene.hand.update("a", 1.0)
        scene.hand.heartbeat("a", finished=number, trains=number)
    assert scene.hand.dispatched() == ["a"] * 12
    assert (scene.hand.events(trace.Resent), scene.hand.counts) == ([], [])


def test_a_heartbeat_of_an_idle_device_that_has_every_train_resets_the_count(scene: Scene) -> None:
    for number in range(1, 13):  # its jobs are shorter than the time between heartbeats: they report it as idle
        scene.hand.heartbeat("a", trains=number - 1)
        scene.answer(lambda server: Decision())
        scene.hand.update("a", 1.0)
        scene.hand.heartbeat("a", finished=scene.hand.train("a").ticket, trains=number)
        scene.hand.update("b", 1.0)  # this starts a too
    assert scene.hand.events(trace.Resent) == []


def test_a_train_is_asked_for_after_six_heartbeats_in_a_row_without_it(scene: Scene) -> None:
    for _ in range(4):
        scene.hand.heartbeat("a", trains=0)
    scene.hand.heartbeat("a", ticket=1, trains=1)  # this resets the count
    scene.hand.update("a", 1.0)
    for _ in range(5):
        scene.hand.heartbeat("a", finished=1, trains=1)
    assert scene.hand.counts == []
    scene.hand.heartbeat("a", finished=1, trains=1)
    assert scene.hand.counts == [("a", 2)]


def test_a_resend_is_not_repeated_while_it_is_on_its_way(scene: Scene) -> None:
    for trains, sent in ((1, ["a"]), (1, []), (2, ["a"]), (2, []), (3, ["a"])):
        scene.hand.heartbeat("a", trains=trains)
        assert scene.hand.dispatched() == sent


def test_a_device_that_works_on_its_ticket_is_left_alone(scene: Scene) -> None:
    ticket = scene.hand.train("a").ticket
    scene.hand.heartbeat("a", ticket=ticket, trains=1)
    scene.hand.heartbeat("a", ticket=ticket, finished=ticket, trains=1)  # it is uploading
    assert (scene.hand.dispatched(), scene.strategy.events) == ([], [])


def test_a_device_that_continues_a_superseded_job_is_sent_the_new_job_again(scene: Scene) -> None:
    old = scene.hand.train("b")
    scene.answer(lambda server: Decision(train={"a": server.job, "b": server.job}, rejected={1: "-"}))
    scene.hand.update("a", 1.0)
    scene.hand.dispatched()
    scene.hand.heartbeat("b", ticket=old.ticket, trains=1)
    assert scene.hand.dispatched() == []
    scene.hand.heartbeat("b", ticket=old.ticket, finished=old.ticket, trains=2)
    assert scene.hand.dispatched() == ["b"]
    assert scene.hand.events(trace.Lost) == []


def test_heartbeats_of_an_idle_and_of_an_unknown_device_have_no_effect(scene: Scene) -> None:
    scene.answer(lambda server: Decision())
    scene.hand.update("a", 1.0)
    scene.hand.heartbeat("a", finished=1, trains=1)
    scene.hand.heartbeat("unknown", trains=7)
    assert (scene.hand.dispatched(), scene.strategy.events) == ([], ["update a"])


def test_an_upload_that_was_given_up_is_lost_and_its_device_ready(scene: Scene) -> None:
    ticket = scene.hand.train("a").ticket
    scene.hand.heartbeat("a", ticket=0, finished=ticket, trains=1)
    assert scene.strategy.events == ["ready a"]
    assert scene.reasons(trace.Lost) == [("a", "its upload was given up")]
    assert scene.hand.dispatched() == ["a"]
    assert scene.hand.train("a").ticket > ticket
    check_conservation(scene.hand.engine)


def test_a_train_that_is_on_its_way_to_a_returning_device_is_not_lost(scene: Scene) -> None:
    scene.hand.leave("a")
    scene.hand.join("a", trains=5)
    scene.hand.dispatched()
    scene.hand.heartbeat("a", trains=5)
    assert scene.hand.dispatched() == []
    scene.hand.heartbeat("a", trains=6)
    assert scene.hand.dispatched() == ["a"]


def test_a_train_that_was_sent_before_a_device_was_dropped_may_arrive_after_it_is_back(scene: Scene) -> None:
    scene.hand.leave("a")  # with ticket 1 unread in its queue
    scene.hand.join("a", trains=0)
    assert scene.hand.counts == [("a", 1)]
    again = scene.hand.train("a").ticket
    scene.hand.dispatched()
    scene.hand.heartbeat("a", ticket=1, trains=1)  # it has read the Train of before
    scene.hand.heartbeat("a", ticket=again, trains=2)
    assert (scene.hand.dispatched(), scene.hand.events(trace.Resent)) == ([], [])


def test_a_train_that_was_lost_before_a_device_was_dropped_does_not_hide_a_later_loss(scene: Scene) -> None:
    scene.hand.leave("a")
    scene.hand.join("a", trains=0)
    [(_, trains)] = scene.hand.counts  # the device takes this number, since ticket 1 never arrives
    scene.hand.dispatched()
    scene.hand.heartbeat("a", trains=trains)  # the new Train is on its way
    assert scene.hand.dispatched() == []
    scene.hand.heartbeat("a", trains=trains + 1)
    assert scene.hand.dispatched() == ["a"]


def test_a_new_process_has_received_no_train(scene: Scene) -> None:
    scene.hand.leave("a")
    scene.hand.join("a")
    scene.hand.dispatched()
    scene.hand.heartbeat("a", ticket=0, trains=1)  # its download was lost
    assert (scene.hand.dispatched(), scene.hand.counts) == (["a"], [])


# ---- unfit updates


@pytest.mark.parametrize(
    ("delta", "claims", "reason"),
    [
        ((float("nan"),), {}, "its delta is not finite"),
        ((float("-inf"),), {}, "its delta is not finite"),
        ((1.0, 2.0), {}, "its delta has another shape than the model"),
        ((1.0,), {"version": 1}, "it claims version 1, but its ticket is for 0"),
        ((1.0,), {"samples": 0}, "it was trained on no samples"),
    ],
)
def test_an_unfit_update_is_rejected_and_its_device_ready(
    scene: Scene, delta: tuple[float, ...], claims: dict[str, int], reason: str
) -> None:
    scene.hand.update("a", *delta, **claims)  # type: ignore[arg-type]
    assert scene.reasons(trace.Rejected) == [("a", reason)]
    assert scene.strategy.events == ["ready a"]
    assert (scene.hand.engine.version, scene.hand.dispatched()) == (0, ["a"])
    assert scene.hand.events(trace.Arrived) == []
    check_conservation(scene.hand.engine)


# ---- joining and leaving


def test_the_ticket_of_a_leaving_device_is_lost(scene: Scene) -> None:
    scene.hand.leave("a")
    assert scene.reasons(trace.Left) == scene.reasons(trace.Lost) == [("a", "it is gone")]
    assert set(scene.hand.engine.devices) == set(scene.hand.engine.busy) == {"b"}
    check_conservation(scene.hand.engine)


def test_a_device_that_joins_twice_leaves_in_between(scene: Scene) -> None:
    scene.hand.join("a", samples=7)
    assert scene.strategy.events == ["leave a", "join a"]
    assert scene.reasons(trace.Lost) == [("a", "it was restarted")]
    assert scene.hand.engine.devices["a"].samples == 7
    assert scene.hand.dispatched() == ["a"]
    scene.hand.heartbeat("a", trains=1)  # the count starts at 0 again
    assert scene.hand.dispatched() == ["a"]
    check_conservation(scene.hand.engine)


def test_a_device_that_has_left_is_still_known(scene: Scene) -> None:
    scene.hand.leave("a")
    scene.hand.join("c", samples=4)
    engine = scene.hand.engine
    assert (set(engine.devices), set(engine.known)) == ({"b", "c"}, {"a", "b", "c"})
    scene.hand.join("a", samples=7)  # back, with other data
    assert (engine.known["a"].samples, engine.known["c"].samples) == (7, 4)


def test_an_update_can_be_applied_after_its_device_has_left(scene: Scene) -> None:
    scene.answer(lambda server: Decision())
    scene.hand.update("a", 1.0)
    scene.hand.leave("a")
    assert scene.hand.engine.tally.lost == 0
    scene.answer(lambda server: Decision(model=vector(1.0), applied={1: 1.0, 2: 1.0}, train={"b": server.job}))
    scene.hand.update("b", 1.0)
    assert scene.hand.engine.tally.applied == 2
    check_conservation(scene.hand.engine)


def test_a_device_that_cannot_be_reached_leaves(scene: Scene) -> None:
    scene.hand.unreachable = {"a"}
    scene.hand.update("a", 1.0)
    assert scene.strategy.events == ["update a", "leave a"]
    assert scene.reasons(trace.Lost) == [("a", "it cannot be reached")]
    assert not scene.hand.engine.is_present("a")
    check_conservation(scene.hand.engine)


def test_a_device_that_cannot_be_reached_for_a_resend_leaves_at_once(scene: Scene) -> None:
    scene.hand.unreachable = {"a"}
    scene.hand.heartbeat("a", trains=1)
    assert scene.strategy.events == ["leave a"]
    assert not scene.hand.engine.is_present("a")


def test_a_large_fleet_may_become_unreachable_all_at_once() -> None:
    names = [f"d{number}" for number in range(1500)]  # more than the depth of Python calls
    hand = ByHand(FedAsync())
    hand.unreachable = set(names)
    hand.start(**dict.fromkeys(names, 1))
    assert (len(hand.engine.devices), hand.engine.tally.lost) == (0, len(names))
    hand.unreachable.clear()
    hand.join("d0")
    assert hand.dispatched() == ["d0"]


def test_a_strategy_may_dispatch_to_a_second_unreachable_device(scene: Scene) -> None:
    scene.answer(lambda server: Decision())
    scene.hand.update("a", 1.0)
    scene.hand.unreachable = {"a"}
    scene.hand.leave("b")  # the scripted strategy now starts a, which is idle
    assert scene.strategy.events == ["update a", "leave b", "leave a"]
    assert not scene.hand.engine.devices


# ---- impossible decisions


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda server: Decision(train={"unknown": server.job}), "dispatched to unknown, which is not present"),
        (lambda server: Decision(applied={1: 1.0}), "applied updates without a new model, after update of a"),
        (lambda server: Decision(rejected={2: "-"}), "rejected ticket 2, which awaits no decision"),
        (lambda server: Decision(rejected={99: "-"}), "rejected ticket 99, which awaits no decision"),
        (lambda server: Decision(model=vector(1.0), applied={2: 1.0}), "applied ticket 2, which awaits no decision"),
        (lambda server: Decision(model=vector(1.0), applied={1: 1.0}, rejected={1: "-"}), "rejected ticket 1, which"),
        (lambda server: Decision(model=vector(1.0, 2.0)), r"made a model of float32\[2\]; float32\[1\] is wanted"),
        (lambda server: Decision(model=np.zeros(1)), r"made a model of float64\[1\]; float32\[1\] is wanted"),
    ],
)
def test_the_error_for_an_impossible_decision_names_the_strategy(scene: Scene, answer: Answer, problem: str) -> None:
    scene.answer(answer)
    with pytest.raises(BadDecision, match=f"Scripted {problem}"):
        scene.hand.update("a", 1.0)


def test_a_strategy_that_returns_no_decision_is_named_with_its_handler(scene: Scene) -> None:
    scene.answer(lambda server: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(BadDecision, match=r"Scripted\.on_update returned None and no Decision, after update of a"):
        scene.hand.update("a", 1.0)


def test_an_exception_of_a_strategy_has_a_note_about_its_event(scene: Scene) -> None:
    scene.hand.update("a", 1.0)
    scene.answer(lambda server: Decision(train={"a": 1 // 0}))  # type: ignore[dict-item]
    with pytest.raises(ZeroDivisionError) as failure:
        scene.hand.leave("b")
    assert failure.value.__notes__ == ["leave of b, version 1"]


# ---- waking


def test_a_wake_stays_set_until_it_is_replaced_or_has_happened(scene: Scene) -> None:
    wishes = []
    for wish in (5.0, None, 3.0, None):
        scene.answer(lambda server, wish=wish: Decision(wake_at=wish, rejected={}, train={"a": server.job}))  # type: ignore[misc]
        scene.hand.update("a", float("nan"))
        wishes.append(scene.hand.engine.wake_at)
    assert wishes == [5.0, 5.0, 3.0, 3.0]
    scene.hand.wake()
    assert (scene.hand.engine.now, scene.hand.engine.wake_at, scene.strategy.events[-1]) == (3.0, None, "wake")


def test_a_strategy_that_has_set_a_wake_may_leave_all_devices_idle(scene: Scene) -> None:
    scene.hand.leave("b")
    scene.answer(lambda server: Decision(wake_at=5.0))
    scene.hand.update("a", 1.0)
    assert not scene.hand.engine.busy
    scene.hand.wake()
    assert set(scene.hand.engine.busy) == {"a"}


# ---- rounds


def test_rounds_are_numbered_from_one_and_recorded_as_the_strategy_reports_them(scene: Scene) -> None:
    rounds = ([("a", 1.5), ("b", 2.25), ("a", 1.0)], None, [("b", 0.5)])
    for moment, ended in enumerate(rounds, 1):
        scene.hand.now = float(moment)
        scene.answer(
            lambda server, ended=ended: Decision(
                train={"a": server.job}, orders=() if ended is None else (RoundEnded(ended),)
            )
        )  # type: ignore[misc]
        scene.hand.update("a", 1.0)
    assert scene.hand.events(trace.Round) == [
        trace.Round(t=1.0, number=1, devices=["a", "b", "a"], seconds=[1.5, 2.25, 1.0]),
        trace.Round(t=3.0, number=2, devices=["b"], seconds=[0.5]),
    ]


# ---- the models


def test_a_model_is_read_only(scene: Scene) -> None:
    made: list[Vector] = []

    def answer(server: Server) -> Decision:
        made.append(vector(1.0))
        return Decision(model=made[0], applied={1: 1.0}, train={"a": server.job})

    first = scene.hand.engine.model
    scene.answer(answer)
    scene.hand.update("a", 1.0)
    for model in (first, made[0], scene.hand.engine.model, scene.hand.engine.model_at(0), scene.hand.train("a").model):
        with pytest.raises(ValueError, match="read-only"):
            model += 1.0


def test_exactly_the_versions_that_are_needed_are_kept() -> None:
    hand = ByHand(Scripted())
    hand.start(a=1, b=1, c=1)

    def kept() -> list[int]:
        versions = []
        for version in range(hand.engine.version + 1):
            try:
                assert hand.engine.model_at(version).tolist() == [float(version)]
            except KeyError:
                continue
            versions.append(version)
        assert hand.engine.models_kept == len(versions)
        check_memory(hand.engine)
        return versions

    assert kept() == [0]
    hand.update("a", 1.0)
    hand.update("a", 1.0)
    assert kept() == [0, 2]  # no device trains on 1 any more
    hand.update("b", 1.0)
    assert kept() == [0, 2, 3]
    hand.leave("c")
    assert kept() == [2, 3]
    hand.update("b", 1.0)
    assert kept() == [2, 4]
    hand.give_up("a")
    assert kept() == [4]


def test_the_base_of_an_update_is_kept_until_it_is_decided_on(scene: Scene) -> None:
    scene.answer(lambda server: Decision())
    scene.hand.update("a", 1.0)  # based on 0, waits
    scene.hand.update("b", 1.0)  # starts a as well, which was idle
    engine = scene.hand.engine
    assert (engine.version, engine.models_kept) == (1, 2)
    scene.answer(
        lambda server: Decision(rejected={1: "-"}, model=vector(2.0), applied={4: 1.0}, train={"b": server.job})
    )
    scene.hand.update("b", 1.0)
    assert engine.in_flight == 2
    with pytest.raises(KeyError):
        engine.model_at(0)


def test_the_same_model_again_is_a_new_version(scene: Scene) -> None:
    scene.hand.now = 2.5
    scene.answer(lambda server: Decision(model=server.model, train={"a": server.job}, rejected={1: "-"}))
    scene.hand.update("a", 1.0)
    assert (scene.hand.engine.version, scene.hand.model, scene.hand.engine.made) == (1, [0.0], 2.5)


def test_staleness_counts_versions_since_the_download(scene: Scene) -> None:
    for _ in range(3):
        scene.hand.update("a", 1.0)
    scene.hand.update("b", 1.0)
    assert [(event.device, event.staleness) for event in scene.hand.events(trace.Arrived)] == [
        ("a", 0),
        ("a", 0),
        ("a", 0),
        ("b", 3),
    ]
    assert [event.staleness for event in scene.hand.events(trace.Aggregated)] == [[0], [0], [0], [3]]


def test_a_dispatch_records_the_steps_of_its_job_on_that_device() -> None:
    hand = ByHand(Scripted(), job=Job(epochs=2, batch=4))
    hand.start(a=10, b=3)
    # 10 samples are 3 batches of at most 4, two epochs 6 steps; 3 samples are 1 batch
    assert [(event.device, event.steps) for event in hand.events(trace.Dispatched)] == [("a", 6), ("b", 2)]
