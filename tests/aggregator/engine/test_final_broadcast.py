"""The final model: it is sent to every device until it arrives, and the strategy is not called any more."""

from __future__ import annotations

import pytest

from aggregator.strategy import Decision
from testbed.history import trace
from testbed.wire.messages import Train, Update
from tests.aggregator.engine.test_engine import Scene
from tests.aggregator.strategies.by_hand import check_conservation, vector


@pytest.fixture
def scene() -> Scene:
    """Version 1 with the model 1.5; a is idle and b is busy with version 0. Each has had one Train."""
    scene = Scene()
    scene.answer(lambda server: Decision(model=vector(1.5), applied={1: 1.0}))
    scene.hand.update("a", 1.5)
    scene.strategy.events.clear()
    scene.hand.now = 5.0
    return scene


def broadcast_final(scene: Scene) -> dict[str, Train]:
    """The messages that each device was sent."""
    scene.hand.dispatched()
    scene.hand.engine.broadcast_final(scene.hand.now)
    return {device: scene.hand.train(device) for device in scene.hand.dispatched()}


def has_it(scene: Scene, device: str, trains: int) -> None:
    """The heartbeat of a device that has the final model."""
    scene.hand.heartbeat(device, finished=scene.hand.train(device).ticket, trains=trains)


# ---- sending it


def test_every_device_busy_or_idle_is_sent_the_last_model_without_a_job(scene: Scene) -> None:
    sent = broadcast_final(scene)
    assert sorted(sent) == ["a", "b"]
    for train in sent.values():
        assert (train.job, train.version, train.sent, train.model.tolist()) == (None, 1, 5.0, [1.5])
    assert scene.hand.engine.pending_final == 2
    last = scene.hand.events(trace.Dispatched)[-2:]
    assert [(event.device, event.version, event.steps) for event in last] == [("a", 1, 0), ("b", 1, 0)]


def test_the_job_of_a_busy_device_is_superseded(scene: Scene) -> None:
    old = scene.hand.train("b")
    broadcast_final(scene)
    assert [(event.device, event.ticket) for event in scene.hand.events(trace.Superseded)] == [("b", old.ticket)]
    assert scene.hand.engine.tally.superseded == 1
    check_conservation(scene.hand.engine)


def test_without_devices_nothing_is_broadcast(scene: Scene) -> None:
    scene.hand.leave("a")
    scene.hand.leave("b")
    assert broadcast_final(scene) == {}
    assert scene.hand.engine.pending_final == 0


# ---- the strategy is not called any more


def test_the_strategy_is_not_called_any_more(scene: Scene) -> None:
    old = scene.hand.train("b")
    broadcast_final(scene)
    scene.hand.update("b", 1.0, train=old)
    scene.hand.heartbeat("b", finished=old.ticket, trains=2)  # in a run: its upload was given up
    scene.hand.leave("a")
    scene.hand.join("a")
    scene.hand.join("b")  # restarted
    scene.hand.unreachable = {"c"}
    scene.hand.join("c")
    has_it(scene, "a", trains=1)
    assert scene.strategy.events == []


def test_the_wake_of_the_strategy_is_cancelled(scene: Scene) -> None:
    scene.answer(lambda server: Decision(wake_at=9.0, train={"b": server.job}))
    scene.hand.update("b", float("nan"))
    assert scene.hand.engine.wake_at == 9.0
    broadcast_final(scene)
    assert scene.hand.engine.wake_at is None


def test_an_update_after_the_broadcast_is_ignored(scene: Scene) -> None:
    old = scene.hand.train("b")
    broadcast_final(scene)
    scene.hand.update("b", 1.0, train=old)
    assert [(event.device, event.ticket) for event in scene.hand.events(trace.Ignored)] == [("b", old.ticket)]
    assert (scene.hand.engine.version, scene.hand.model, scene.hand.engine.pending_final) == (1, [1.5], 2)
    check_conservation(scene.hand.engine)


@pytest.mark.parametrize("delta", [1.0, float("nan")])
def test_an_update_for_the_ticket_of_the_final_model_is_ignored(scene: Scene, delta: float) -> None:
    final = broadcast_final(scene)["b"]
    scene.hand.engine.update(
        Update(
            device="b",
            ticket=final.ticket,
            version=final.version,
            delta=vector(delta),
            samples=1,
            steps=1,
            started=5.0,
            finished=5.0,
            due=5.0,
            loss=1.0,
        ),
        scene.hand.now,
    )
    assert scene.strategy.events == []
    assert (scene.hand.engine.version, scene.hand.engine.pending_final) == (1, 2)
    check_conservation(scene.hand.engine)


def test_an_update_that_awaits_a_decision_stays_in_flight(scene: Scene) -> None:
    scene.answer(lambda server: Decision(train={"a": server.job}))
    scene.hand.update("b", 1.0)
    broadcast_final(scene)
    has_it(scene, "a", trains=3)
    has_it(scene, "b", trains=2)
    assert (scene.hand.engine.pending_final, scene.hand.engine.in_flight) == (0, 1)
    check_conservation(scene.hand.engine)


# ---- delivery


def test_a_heartbeat_that_reports_the_ticket_as_finished_ends_it_as_delivered(scene: Scene) -> None:
    final = broadcast_final(scene)["a"]
    scene.hand.now = 6.25
    has_it(scene, "a", trains=2)
    engine = scene.hand.engine
    assert scene.hand.events(trace.Delivered) == [trace.Delivered(t=6.25, device="a", ticket=final.ticket)]
    assert (engine.tally.delivered, engine.tally.lost, engine.pending_final, engine.in_flight) == (1, 0, 1, 1)
    assert engine.is_present("a")
    check_conservation(engine)
    has_it(scene, "b", trains=2)
    assert (engine.tally.delivered, engine.pending_final, engine.in_flight, engine.models_kept) == (2, 0, 0, 1)
    check_conservation(engine)


def test_a_delivery_counts_once_however_often_it_is_reported(scene: Scene) -> None:
    broadcast_final(scene)
    for _ in range(3):
        has_it(scene, "a", trains=2)
    assert (scene.hand.engine.tally.delivered, scene.hand.dispatched()) == (1, [])
    check_conservation(scene.hand.engine)


def test_a_device_that_downloads_the_final_model_is_left_alone(scene: Scene) -> None:
    final = broadcast_final(scene)["a"]
    scene.hand.heartbeat("a", ticket=0, finished=1, trains=1)  # it is on its way
    scene.hand.heartbeat("a", ticket=final.ticket, finished=1, trains=2)
    assert (scene.hand.dispatched(), scene.hand.engine.pending_final) == ([], 2)


@pytest.mark.parametrize("device", ["a", "b"])
def test_a_lost_final_model_is_sent_again(scene: Scene, device: str) -> None:
    old = scene.hand.train(device)
    final = broadcast_final(scene)[device]
    in_hand = old.ticket if device == "b" else 0  # a is idle, b continues its old job
    for number in (1, 2):
        scene.hand.now += 1.0
        scene.hand.heartbeat(device, ticket=in_hand, finished=0 if in_hand else old.ticket, trains=1 + number)
        assert scene.hand.dispatched() == [device]
        again = scene.hand.train(device)
        assert (again.ticket, again.version, again.job) == (final.ticket, 1, None)
        assert (again.sent, again.model.tolist()) == (5.0 + number, [1.5])
    assert [(event.device, event.ticket) for event in scene.hand.events(trace.Resent)] == [(device, final.ticket)] * 2
    assert scene.hand.engine.pending_final == 2
    has_it(scene, device, trains=4)
    assert (scene.hand.engine.pending_final, scene.hand.engine.tally.delivered) == (1, 1)
    check_conservation(scene.hand.engine)


# ---- joining and leaving


def test_a_device_that_joins_during_the_broadcast_is_sent_the_final_model(scene: Scene) -> None:
    broadcast_final(scene)
    scene.hand.join("c")
    assert scene.hand.dispatched() == ["c"]
    final = scene.hand.train("c")
    assert (final.job, final.version, final.model.tolist()) == (None, 1, [1.5])
    assert scene.hand.engine.pending_final == 3
    has_it(scene, "c", trains=1)
    assert (scene.hand.engine.pending_final, scene.hand.engine.tally.delivered) == (2, 1)
    check_conservation(scene.hand.engine)


@pytest.mark.parametrize("had_it", [False, True])
def test_a_device_that_restarts_during_the_broadcast_is_sent_the_final_model_again(scene: Scene, had_it: bool) -> None:
    first = broadcast_final(scene)["a"]
    if had_it:
        has_it(scene, "a", trains=2)
    scene.hand.join("a")
    assert scene.hand.dispatched() == ["a"]
    assert scene.hand.train("a").ticket > first.ticket
    assert (scene.hand.engine.pending_final, scene.hand.engine.tally.lost) == (2, not had_it)
    check_conservation(scene.hand.engine)


def test_a_device_that_leaves_is_not_awaited(scene: Scene) -> None:
    broadcast_final(scene)
    scene.hand.leave("a")
    assert scene.hand.engine.pending_final == 1
    assert scene.reasons(trace.Lost) == scene.reasons(trace.Left) == [("a", "it is gone")]
    has_it(scene, "b", trains=2)
    assert scene.hand.engine.pending_final == 0
    check_conservation(scene.hand.engine)


def test_an_unreachable_device_leaves_and_the_others_are_sent_the_final_model(scene: Scene) -> None:
    scene.hand.unreachable = {"a"}
    assert list(broadcast_final(scene)) == ["b"]
    assert scene.reasons(trace.Left) == [("a", "it cannot be reached")]
    assert (scene.hand.engine.is_present("a"), scene.hand.engine.pending_final) == (False, 1)
    assert scene.strategy.events == []
    check_conservation(scene.hand.engine)


def test_a_device_that_cannot_be_reached_for_the_next_attempt_leaves(scene: Scene) -> None:
    broadcast_final(scene)
    scene.hand.unreachable = {"a"}
    scene.hand.heartbeat("a", finished=1, trains=2)
    assert (scene.hand.engine.is_present("a"), scene.hand.engine.pending_final) == (False, 1)
    assert scene.strategy.events == []
    check_conservation(scene.hand.engine)


def test_a_device_that_joins_and_cannot_be_reached_leaves_at_once(scene: Scene) -> None:
    broadcast_final(scene)
    scene.hand.unreachable = {"c"}
    scene.hand.join("c")
    assert (scene.hand.engine.is_present("c"), scene.hand.engine.pending_final) == (False, 2)
    check_conservation(scene.hand.engine)
