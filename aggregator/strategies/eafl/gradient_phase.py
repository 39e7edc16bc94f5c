"""The first phase of EAFL: every device sends a gradient for the clustering (Algorithm 1, lines 8 and 9).

Devices train for it (line 21), or send the last update that they have (line 23).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed.wire.messages import Update, Vector


@dataclass(slots=True, kw_only=True)
class GradientPhase:
    """Which devices have sent a gradient, which ones still can, and how long the others are waited for."""

    trains: bool
    """Whether devices train for the clustering; else they send what they have, and clusters exist meanwhile."""
    wanted: int
    """N: with fewer gradients than clusters, the phase is extended."""
    patience: float
    awaited: set[str]
    """Devices whose gradients can still arrive."""
    closes_at: float
    """When the phase ends with the gradients that have arrived."""
    gradients: dict[str, Vector] = field(default_factory=dict)
    delays: int = 0
    """How often the phase was extended."""

    @classmethod
    def begin(cls, devices: Iterable[str], now: float, *, trains: bool, wanted: int, patience: float) -> GradientPhase:
        return cls(trains=trains, wanted=wanted, patience=patience, awaited=set(devices), closes_at=now + patience)

    def join(self, device: str) -> bool:
        """Return whether a device that has joined must train, and wait for it then. Else it has nothing to send."""
        if self.trains:
            self.awaited.add(device)
        return self.trains

    def skip(self, device: str) -> None:
        """Do not wait for a device that will send no gradient."""
        self.awaited.discard(device)

    def leave(self, device: str) -> None:
        """Forget a device that has left."""
        self.awaited.discard(device)
        self.gradients.pop(device, None)

    def receive(self, update: Update) -> bool:
        """Keep a gradient. Return False if its device is not waited for."""
        if update.device not in self.awaited:
            return False
        self.awaited.discard(update.device)
        self.gradients[update.device] = update.delta
        return True

    def is_over(self, now: float) -> bool:
        """Return whether all gradients that can arrive are here; or enough of them, when the patience is over."""
        return not self.awaited or (now >= self.closes_at and len(self.gradients) >= self.wanted)

    def extend_if_overdue(self, now: float) -> None:
        """Wait twice as long as the last time. To ask for new gradients instead would restart all devices each time."""
        if now >= self.closes_at:
            self.delays += 1
            self.closes_at = now + self.patience * 2**self.delays
