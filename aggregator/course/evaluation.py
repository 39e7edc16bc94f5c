"""Which versions the evaluator scores: one at a time, not more often than configured, and always the last one."""

from __future__ import annotations

import math

from testbed.wire.messages import Score, Snapshot, Vector


class EvaluationQueue:
    """Decides which snapshot to send to the evaluator, and keeps the scores. No I/O."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._asked = -1
        self._asked_at = -math.inf
        self._snapshot: Snapshot | None = None
        """The snapshot that is being scored. It is kept until its score arrives, because the evaluator may die."""
        self.scored = -1
        """The last version with a score."""
        self.latest: Score | None = None

    @property
    def pending(self) -> bool:
        """Whether the evaluator has not answered yet."""
        return self.scored != self._asked

    def next(self, version: int, made: float, model: Vector, now: float) -> Snapshot | None:
        """Return a snapshot to send now; None if the evaluator is busy, the version was sent, or it is too early."""
        if self.pending or now - self._asked_at < self._every:
            return None
        return self.last(version, made, model, now)

    def next_at(self, version: int) -> float:
        """Return the moment from which ``next`` returns a snapshot of this version; infinity if it does not."""
        return math.inf if self.pending or version == self._asked else self._asked_at + self._every

    def last(self, version: int, made: float, model: Vector, now: float) -> Snapshot | None:
        """Return a snapshot to send, even if the last one was sent just before; None if this version was sent."""
        if version == self._asked:
            return None
        self._asked, self._asked_at = version, now
        self._snapshot = Snapshot(version=version, made=made, model=model)
        return self._snapshot

    def restore(self, latest: Score | None) -> None:
        """Continue after a checkpoint with ``latest`` as the last score."""
        if latest is not None:
            self.scored = self._asked = latest.version
            self.latest = latest

    @property
    def owed(self) -> Snapshot | None:
        """The snapshot that was sent and has no score yet. A restarted evaluator is sent it again."""
        return self._snapshot

    def take(self, score: Score) -> bool:
        """Accept a score. Returns False if its version has one already: a dead evaluator's score may arrive late."""
        if not self.pending or score.version != self._asked:
            return False
        self.scored, self.latest, self._snapshot = score.version, score, None
        return True
