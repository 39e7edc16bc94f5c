"""The model that is being downloaded to a device, or to a cluster head. There is one: a newer one replaces it."""

from __future__ import annotations

import math
from collections.abc import Callable

from devices.link import Transfer
from devices.route import Route
from devices.work import Suspension
from testbed.history.trace import DeviceEvent, Downloaded
from testbed.wire.messages import Train


class Downloads:
    """Begins and ends downloads, and counts the attempts of a ticket. Each attempt that ends is passed to ``note``."""

    def __init__(self, device: str, route: Route, note: Callable[[DeviceEvent], None], begins: float) -> None:
        self._device, self._route, self._note = device, route, note
        self._current: tuple[Train, Transfer] | None = None
        self._received = begins
        """When the process received the current Train from the transport."""
        self._attempt = 0
        self._ticket = 0
        self.number = 0
        """The number of the last job that was sent to the device."""
        self.drops = 0

    @property
    def train(self) -> Train | None:
        return self._current[0] if self._current is not None else None

    @property
    def due(self) -> float:
        return self._current[1].due if self._current is not None else math.inf

    def begin(self, train: Train, moment: float, now: float, suspension: Suspension | None = None) -> None:
        """Begin a download at ``moment``, or at the end of an absence; the process received the Train at ``now``."""
        if train.ticket == self._ticket:
            self._attempt += 1
        else:
            self._ticket, self._attempt = train.ticket, 0
            self.number = train.number
        transfer = self._route.down(train, self.number, self._attempt, self._route.present_from(moment))
        if suspension is not None and transfer.due <= suspension.started:  # due before it, received during it
            transfer = self._route.down(train, self.number, self._attempt, suspension.until)
        self._current, self._received = (train, transfer), now

    def end(self, now: float) -> tuple[Train, Transfer]:
        """End the current download, dropped or not."""
        assert self._current is not None
        (train, transfer), self._current = self._current, None
        if not transfer.is_local:
            self._note(self._downloaded(train, transfer, now))
        self.drops += transfer.dropped
        return train, transfer

    def stop(self) -> None:
        """Forget the current download."""
        self._current = None

    def _downloaded(self, train: Train, transfer: Transfer, now: float) -> Downloaded:
        return Downloaded(
            t=now,
            device=self._device,
            ticket=train.ticket,
            job=self.number,
            attempt=self._attempt,
            sent=transfer.started,
            asked=transfer.asked,
            obtained=max(transfer.due, self._received) - transfer.started,
            bytes=transfer.bytes,
            dropped=transfer.dropped,
            absent=transfer.absent or None,
        )
