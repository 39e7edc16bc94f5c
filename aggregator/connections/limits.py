"""The limit on messages: a token bucket for each peer, so that a peer that floods does not delay the others. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

BAD = 100.0
"""Tokens that a bad message costs: reading and answering it takes long, and devices of this run send none."""


class Bucket:
    """Gains ``message_limit`` tokens per host second, and holds at most as many. A message takes one."""

    def __init__(self, message_limit: float) -> None:
        self._limit = self._tokens = message_limit
        self._since = 0.0

    def take(self, now: float) -> bool:
        """Take a token; return False if there is none. ``now`` may go back: the clock is reset when a run begins."""
        if now > self._since:
            self._tokens = min(self._limit, self._tokens + (now - self._since) * self._limit)
        self._since = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def charge(self, tokens: float) -> None:
        """Remove tokens. The bucket may be in debt afterwards."""
        self._tokens -= tokens


class Limits:
    """One bucket for each known peer, and one for all unknown peers together."""

    def __init__(self, names: Iterable[str], message_limit: float) -> None:
        self._buckets = {name: Bucket(message_limit) for name in names}
        self._others = Bucket(message_limit)
        self.reason = f"more than {message_limit:g} messages a second; a bad one counts as {BAD:g}"

    def allow(self, peer: str, now: float) -> bool:
        """Whether a message of this peer may be read. ``now`` is in host seconds."""
        return self._buckets.get(peer, self._others).take(now)

    def charge(self, peer: str) -> None:
        """Charge a peer for a bad message."""
        self._buckets.get(peer, self._others).charge(BAD)
