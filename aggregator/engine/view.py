"""What a rule sees of the run, and what else others ask of the engine: who is present, who is busy, on which model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aggregator.engine.forecast import NoForecast
from aggregator.engine.head_ledgers import HeadLedgers
from aggregator.engine.ticket_register import TicketRegister
from aggregator.engine.tickets import PresentDevice, Tally
from aggregator.strategy import DeviceInfo, Forecast, Strategy
from testbed.common.statefile import pick, put
from testbed.wire.messages import Job, Update, Vector

_LEAST_REMAINING = 1e-6
"""Seconds: a device that has not asked is not ready, however long ago it should have been."""


class BadDecision(RuntimeError):
    """A rule decided, or asked for, something that cannot be."""


class ServerView:
    """The state of an engine. To a rule, it is a ``Server``."""

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
        self._present: dict[str, PresentDevice] = {}
        self.known: dict[str, DeviceInfo] = {}
        self.now = 0.0
        self.made = 0.0
        """When the current version came to be."""
        self.wake_at: float | None = None
        self.wakes = 0
        """How often the rule was woken."""

    @property
    def grants(self) -> bool:
        """Whether devices upload only when they are granted a rate."""
        return self._strategy.grants

    @property
    def version(self) -> int:
        return self._register.history.version

    @property
    def model(self) -> Vector:
        return self._register.history.model

    @property
    def devices(self) -> Mapping[str, DeviceInfo]:
        return {name: present.info for name, present in self._present.items()}

    @property
    def busy(self) -> Mapping[str, int]:
        return {name: present.ticket.base for name, present in self._present.items() if present.ticket is not None}

    def model_at(self, version: int) -> Vector:
        return self._register.history.models[version]

    def staleness(self, update: Update) -> int:
        return self.version - update.version

    def remaining(self, device: str, *, by_beats: bool = False) -> float:
        ticket = self._present[device].ticket
        if ticket is None or ticket.train.job is None:
            raise BadDecision(f"{self._name} wants to know how long {device} will compute, which does not")
        if ticket.asked:
            return 0.0
        seconds = self.forecast.seconds(device, ticket.train.job)
        left = ticket.train.sent + seconds - self.now
        if by_beats and ticket.progress is not None:
            moment, progress = ticket.progress
            left = moment + (1 - progress) * seconds - self.now
        return max(left, _LEAST_REMAINING)

    @property
    def tally(self) -> Tally:
        return self._register.tally

    @property
    def head_ledgers(self) -> HeadLedgers:
        """Of the cluster heads."""
        return self._register.head_ledgers

    @property
    def in_flight(self) -> int:
        return len(self._register.open)

    @property
    def models_kept(self) -> int:
        return len(self._register.history.models)

    def is_present(self, device: str) -> bool:
        return device in self._present

    def jobs_of(self, device: str) -> int:
        """Jobs that a device has been sent so far, in all its lives."""
        return self._register.jobs[device]

    def ticket_of(self, device: str) -> int:
        """The ticket that a device is working on, 0 if it is idle or not there."""
        present = self._present.get(device)
        return present.ticket.number if present is not None and present.ticket is not None else 0

    def base_of(self, device: str) -> int | None:
        """Version a device is training on, None if it is idle."""
        present = self._present.get(device)
        return present.ticket.base if present is not None and present.ticket is not None else None

    @property
    def _name(self) -> str:
        return type(self._strategy).__name__

    # ---- checkpoints

    _KEPT = ("_present", "known", "random", "now", "made", "wake_at", "wakes")

    def state(self) -> dict[str, Any]:
        """For a checkpoint (``testbed.common.statefile``): all that a run goes on from, the rule's own state included."""
        own = pick(self, self._KEPT)
        return own | {"register": self._register.state(), "strategy": dict(vars(self._strategy))}

    def restore(self, state: dict[str, Any]) -> None:
        """Be as the engine was whose state this is. Devices are to be told: see ``Engine.resume``."""
        put(self._strategy, state.pop("strategy"))
        self._register.restore(state.pop("register"))
        put(self, state)
