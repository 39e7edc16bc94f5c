"""Which versions the evaluator is asked to score: at most one at a time, not too often, and the last one always."""

from __future__ import annotations

import math

from testbed.wire.messages import Score, Snapshot, Vector


class EvaluationQueue:
    """The aggregator's side of the evaluator. No I/O: gives the snapshot to send, is told the score."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._asked = -1
        self._asked_at = -math.inf
        self._snapshot: Snapshot | None = None
        """That the evaluator is asked for. It is kept until the score is there: an evaluator may die over it."""
        self.scored = -1
        """The last version whose score is known."""
        self.latest: Score | None = None

    @property
    def pending(self) -> bool:
        return self.scored != self._asked

    def next(self, version: int, made: float, model: Vector, now: float) -> Snapshot | None:
        """A snapshot to send now, if the evaluator is free, the version is new and the last one long enough ago."""
        if self.pending or now - self._asked_at < self._every:
            return None
        return self.last(version, made, model, now)

    def last(self, version: int, made: float, model: Vector, now: float) -> Snapshot | None:
        """A snapshot to send however short ago the one before was; None if that version has been asked for."""
        if version == self._asked:
            return None
        self._asked, self._asked_at = version, now
        self._snapshot = Snapshot(version=version, made=made, model=model)
        return self._snapshot

    def restore(self, latest: Score | None) -> None:
        """The run goes on from where this score was the last that was known."""
        if latest is not None:
            self.scored = self._asked = latest.version
            self.latest = latest

    def again(self) -> Snapshot | None:
        """There is a new evaluator: the snapshot that the one before it owes a score for, if it does."""
        return self._snapshot

    def take(self, score: Score) -> bool:
        """Whether that is news. The score of an evaluator that has died may still be on its way when it is asked for
        again, and is then known twice.
        """
        if not self.pending or score.version != self._asked:
            return False
        self.scored, self.latest, self._snapshot = score.version, score, None
        return True
