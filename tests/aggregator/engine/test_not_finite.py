"""A model that is not finite ends the run with a sentence, and the model before it is kept."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from aggregator.engine.failures import ModelNotFinite
from aggregator.strategy import Decision, Server
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.wire.messages import Train, Update, Vector
from tests.aggregator.engine.test_engine import Scripted
from tests.aggregator.process.test_main import World, folder, of, prepare, time
from tests.aggregator.strategies.by_hand import ByHand, check_conservation, vector
from tests.devices.parts import Time
from tests.devices.tiny import TinyTask

__all__ = ["folder", "time"]  # fixtures


def after_an_update(model: Vector, applied: dict[int, float]) -> ByHand:
    """The strategy answers an update of a (ticket 1) with this model."""
    strategy = Scripted()
    hand = ByHand(strategy, (0.0, 0.0, 0.0))
    hand.start(a=1, b=1)
    strategy.answer = lambda server: Decision(model=model, applied=applied, train={"a": server.job})
    return hand


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_sentence_names_strategy_version_number_and_updates(bad: float) -> None:
    hand = after_an_update(vector(1.0, bad, math.nan), {1: 1.0})
    with pytest.raises(ModelNotFinite) as failure:
        hand.update("a", 1.0, 1.0, 1.0)
    assert str(failure.value) == (
        f"Scripted made a model that is not finite: number 1 of 3 is {bad} in version 1, whose updates are"
        " ticket 1 of a; lower training.lr, set aggregator.clip, or correct the strategy"
    )


def test_the_version_is_not_made_and_nothing_is_sent() -> None:
    hand = after_an_update(vector(1.0, math.nan, 1.0), {1: 1.0})
    hand.dispatched()
    with pytest.raises(ModelNotFinite):
        hand.update("a", 1.0, 1.0, 1.0)
    assert (hand.engine.version, hand.model, hand.dispatched()) == (0, [0.0, 0.0, 0.0], [])
    assert hand.events(trace.Aggregated) == []
    check_conservation(hand.engine)
    [found] = hand.events(trace.OutOfRange)
    assert (found.version, found.norm, found.device) == (1, None, "a")


def test_a_version_without_updates_and_one_that_uses_an_old_update_again_are_told_apart() -> None:
    hand = after_an_update(vector(math.nan, 0.0, 0.0), {})
    with pytest.raises(ModelNotFinite, match="in version 1, which has no updates;"):
        hand.update("a", 1.0, 1.0, 1.0)
    hand = after_an_update(vector(1.0, 0.0, 0.0), {1: 1.0})
    hand.update("a", 1.0, 1.0, 1.0)
    strategy = hand.engine._strategy
    assert isinstance(strategy, Scripted)
    strategy.answer = lambda server: Decision(model=vector(math.inf, 0.0, 0.0), applied={1: 0.5, 2: 0.5})
    with pytest.raises(ModelNotFinite, match=r"whose updates are ticket 1 \(used again\), ticket 2 of b;"):
        hand.update("b", 1.0, 1.0, 1.0)


def test_a_sentence_about_many_updates_stays_short() -> None:
    updates = {ticket: f"phone-{ticket}" for ticket in range(1, 101)}
    text = str(ModelNotFinite("Mine", 7, vector(math.nan), updates))
    assert "ticket 8 of phone-8, 92 more;" in text
    assert "phone-9" not in text


def test_large_numbers_that_are_finite_do_not_end_the_run() -> None:
    hand = after_an_update(np.full(3, 3e38, np.float32), {1: 1.0})
    hand.update("a", 1.0, 1.0, 1.0)
    assert hand.engine.version == 1


def test_a_run_that_fails_keeps_its_trace_and_the_last_finite_model(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deltas of 10³⁸ are refused, so the strategy itself makes the infinity: it adds 10³⁸ for each update."""
    world = World(time)
    world.on_train = lambda device, train: answer(world, device, train)

    class Explodes(Scripted):
        def on_update(self, update: Update, server: Server) -> Decision:
            model = server.model + np.float32(1e38)
            return Decision(model=model, applied={update.ticket: 1.0}, train={update.device: server.job})

    with np.errstate(over="ignore"), pytest.raises(ModelNotFinite, match="in version 4, whose updates are ticket 4 of"):
        prepare(world, folder, monkeypatch, strategy=Explodes()).run()
    events = list(trace.read(folder / "trace.jsonl"))
    assert [event.version for event in of(trace.Aggregated, events)] == [1, 2, 3]
    assert of(trace.OutOfRange, events)[-1].norm is None
    model = load_file(folder / "checkpoints" / "final.safetensors")
    assert all(np.isfinite(part).all() for part in model.values())


def answer(world: World, device: str, train: Train) -> None:
    world.update(device, train, at=train.sent + 0.1, due=train.sent + 0.1)


def test_a_first_model_that_is_not_finite_is_refused_before_the_run(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TinyTask, "initial", lambda self: np.full(TinyTask.SIZE, np.nan, np.float32))
    with pytest.raises(UserError, match="task digits: its first model is not finite: number 0 of 8 is nan"):
        prepare(World(time), folder, monkeypatch)
