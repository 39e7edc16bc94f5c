"""How much a peer may say: a bucket of tokens for each, so that one that floods costs the others nothing. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

BAD = 100.0
"""Tokens that a message costs which is none: reading and answering it is dear, and no device of ours sends any."""


class Bucket:
    """Fills by ``rate`` tokens a host second, up to one second's worth. A message takes one."""

    def __init__(self, rate: float) -> None:
        self._rate = self._tokens = rate
        self._since = 0.0

    def take(self, now: float) -> bool:
        """Whether there was a token. ``now`` may fall back: the clock of a run begins when the fleet is there."""
        if now > self._since:
            self._tokens = min(self._rate, self._tokens + (now - self._since) * self._rate)
        self._since = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def charge(self, tokens: float) -> None:
        """It may be in debt afterwards."""
        self._tokens -= tokens


class Limits:
    """Of everybody: each peer of ours has a bucket, and all strangers have one together."""

    def __init__(self, names: Iterable[str], rate: float) -> None:
        self._buckets = {name: Bucket(rate) for name in names}
        self._others = Bucket(rate)
        self.reason = f"more than {rate:g} messages a second; a bad one counts as {BAD:g}"

    def allow(self, peer: str, now: float) -> bool:
        return self._buckets.get(peer, self._others).take(now)

    def charge(self, peer: str) -> None:
        """For a message that was none."""
        self._buckets.get(peer, self._others).charge(BAD)
