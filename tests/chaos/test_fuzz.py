"""The short form of ``python -m tests.chaos fuzz``: invalid frames cause refusals and nothing else."""

from __future__ import annotations

import random

import pytest

from testbed.wire.codec import decode
from testbed.wire.messages import Message
from tests.chaos.corpus import real_frames, real_messages
from tests.chaos.fuzz import TARGETS, Result, fuzz, lines
from tests.chaos.mutation import Mutator
from tests.testbed.examples import SIZE

FRAMES = {"decoder": 4000, "peers": 2000, "aggregator": 2000, "device": 1000}
OTHERS = 500


@pytest.mark.parametrize("target", TARGETS)
def test_every_frame_is_read_or_refused_and_nothing_escapes(target: str) -> None:
    frames = FRAMES.get(target, OTHERS)
    result = fuzz(target, frames, seed=1)
    assert result.escapes == []
    assert result.frames == frames
    assert result.read > frames / 100
    assert result.refused.total() > frames / 4


def test_the_corpus_has_messages_of_every_kind() -> None:
    assert {type(message) for message in real_messages(SIZE, "a")} == set(Message.__subclasses__())
    for frames in real_frames(SIZE, "a"):
        decode([*frames], SIZE)


def test_the_same_seed_makes_the_same_frames_and_every_mutation_is_used() -> None:
    one, other = (Mutator(random.Random(5), real_frames(SIZE, "a")) for _ in range(2))
    assert [one.next() for _ in range(500)] == [other.next() for _ in range(500)]
    assert len(one.kinds) == 14


def test_an_escape_is_caught_and_reported_with_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(frames: object, size: int) -> Message:
        raise ZeroDivisionError("my own bug")

    monkeypatch.setattr("tests.chaos.targets.decode", broken)
    result: Result = fuzz("decoder", 50, seed=1)
    assert len(result.escapes) == 10
    assert "ZeroDivisionError: my own bug" in result.escapes[0].problem
    assert any(escape.frames for escape in result.escapes)
    assert lines([result])[0].holds is False
