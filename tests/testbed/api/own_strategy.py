"""Strategies of a user, for tests of classes that travel by their import path."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator import EveryUpdate, Server, Update, param


@dataclass(kw_only=True)
class Half(EveryUpdate):
    """Applies a part of each update."""

    share: float = param(0.5, "part of an update that is applied", above=0, at_most=1)

    def weight(self, update: Update, server: Server) -> float:
        return self.share


class Outer:
    """Has a strategy inside, which no import path leads to."""

    @dataclass(kw_only=True)
    class Inner(Half):
        """Inside another class."""
