"""The order that records the end of a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.strategy.orders import EngineActions, Order


@dataclass(frozen=True, slots=True)
class RoundEnded(Order):
    """Records a round as the paper counts it: its devices, and the seconds that each computed."""

    executions: Sequence[tuple[str, float]]

    def after_version(self, engine: EngineActions) -> None:
        engine.end_round(self.executions)
