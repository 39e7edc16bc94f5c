"""The state of an engine, as a strategy and the aggregator process read it: devices, tickets, models, time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from aggregator.engine.failures import BadDecision
from aggregator.engine.forecast import NoForecast
from aggregator.engine.head_ledgers import HeadLedgers
from aggregator.engine.present_devices import PresentDevices
from aggregator.engine.ticket_register import TicketRegister
from aggregator.engine.tickets import Tally
from aggregator.strategy import DeviceInfo, Forecast, Strategy
from testbed.common.files.statefile import SavedState, pick, put
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job

_LEAST_REMAINING = 1e-6
"""Seconds. A device that has not asked for a grant is not ready, even if its time is over."""


class ServerView:
    """The state of an engine. A strategy sees it as a ``Server``."""

    def __init__(
        self,
        strategy: Strategy,
        register: TicketRegister,
        job: Job,
        random: np.random.Generator,
        forecast: Forecast | None,
    ) -> None:
        self._strategy, self._register, self.job, self.random = strategy, register, job, random
        self.forecast: Forecast = NoForecast() if forecast is None else forecast
        self._present = PresentDevices()
        self.known: dict[str, DeviceInfo] = {}
        self.now = 0.0
        self.made = 0.0
        """Moment at which the current version was made."""
        self.wake_at: float | None = None
        self.wakes = 0
        """Number of wakes so far."""

    @property
    def grants(self) -> bool:
        """Whether devices upload only after a grant."""
        return self._strategy.grants

    @property
    def version(self) -> int:
        return self._register.past_models.version

    @property
    def model(self) -> Vector:
        return self._register.past_models.model

    @property
    def devices(self) -> Mapping[str, DeviceInfo]:
        return self._present.infos

    @property
    def busy(self) -> Mapping[str, int]:
        return self._present.busy

    def model_at(self, version: int) -> Vector:
        return self._register.past_models.models[version]

    def staleness(self, update: Update) -> int:
        return self.version - update.version

    def remaining(self, device: str, *, by_heartbeats: bool = False) -> float:
        ticket = self._present[device].ticket
        if ticket is None or ticket.train.job is None:
            raise BadDecision(f"{self._name} asked for the remaining seconds of {device}, which does not compute")
        if ticket.asked:
            return 0.0
        seconds = self.forecast.seconds(device, ticket.train.job)
        left = ticket.train.sent + seconds - self.now
        if by_heartbeats and ticket.progress is not None:
            moment, progress = ticket.progress
            left = moment + (1 - progress) * seconds - self.now
        return max(left, _LEAST_REMAINING)

    @property
    def tally(self) -> Tally:
        return self._register.tally

    @property
    def head_ledgers(self) -> HeadLedgers:
        """Accounts of the tickets that cluster heads gave out."""
        return self._register.head_ledgers

    @property
    def in_flight(self) -> int:
        """Tickets of the aggregator that have not ended."""
        return len(self._register.open)

    @property
    def models_kept(self) -> int:
        """Models in memory: the current one and the past ones that are still needed."""
        return len(self._register.past_models.models)

    def is_present(self, device: str) -> bool:
        return device in self._present

    def jobs_of(self, device: str) -> int:
        """Jobs that a device has been sent in this run, restarts included."""
        return self._register.jobs[device]

    def ticket_of(self, device: str) -> int:
        """The ticket that a device works on; 0 if it is idle or not present."""
        present = self._present.get(device)
        return present.ticket.number if present is not None and present.ticket is not None else 0

    def trains_sent_to(self, device: str) -> int:
        """Train messages that were sent to the present process of a device; 0 if it is not present."""
        present = self._present.get(device)
        return present.trains_sent if present is not None else 0

    def base_of(self, device: str) -> int | None:
        """The version that a device trains on; None if it is idle or not present."""
        present = self._present.get(device)
        return present.ticket.base if present is not None and present.ticket is not None else None

    @property
    def _name(self) -> str:
        return type(self._strategy).__name__

    # ---- checkpoints

    _KEPT: ClassVar[tuple[str, ...]] = ("known", "random", "now", "made", "wake_at", "wakes")

    def state(self) -> SavedState:
        """Return what a checkpoint keeps, the strategy's own state included (``testbed.common.files.statefile``)."""
        own = pick(self, self._KEPT)
        parts = {"register": self._register.state(), "strategy": dict(vars(self._strategy))}
        return own | parts | {"present": list(self._present.values())}

    def restore(self, state: SavedState) -> None:
        """Continue from what ``state`` returned. ``Engine.resume`` then sends the open tickets again."""
        put(self._strategy, state.pop("strategy"))
        self._register.restore(state.pop("register"))
        self._present = PresentDevices(state.pop("present"))
        put(self, state)
