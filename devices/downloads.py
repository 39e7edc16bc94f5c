"""The model that is on its way to a device. There is one at a time: a newer one takes the place of an older."""

from __future__ import annotations

import math
from collections.abc import Callable

from devices.link import Transfer
from devices.route import Route
from devices.work import Suspension
from testbed.history.trace import Downloaded, Event
from testbed.wire.messages import Train


class Downloads:
    """``note`` is told of each attempt when it ends."""

    def __init__(self, device: str, ways: Route, note: Callable[[Event], None], begins: float) -> None:
        self._device, self._ways, self._note = device, ways, note
        self._under_way: tuple[Train, Transfer] | None = None
        self._taken = begins
        self._attempt = 0
        self._ticket = 0
        self.number = 0
        """Of the last job that the device was sent."""
        self.drops = 0

    @property
    def train(self) -> Train | None:
        return self._under_way[0] if self._under_way is not None else None

    @property
    def due(self) -> float:
        return self._under_way[1].due if self._under_way is not None else math.inf

    def begin(self, train: Train, moment: float, now: float, suspension: Suspension | None) -> None:
        """Its way begins at ``moment``, or when the device is there; ``now`` it was taken from the transport."""
        if train.ticket == self._ticket:
            self._attempt += 1
        else:
            self._ticket, self._attempt = train.ticket, 0
            self.number = train.number
        way = self._ways.down(train, self.number, self._attempt, self._ways.there(moment))
        if suspension is not None and way.due <= suspension.started:  # due before it went, and taken up after that
            way = self._ways.down(train, self.number, self._attempt, suspension.until)
        self._under_way, self._taken = (train, way), now

    def end(self, now: float) -> tuple[Train, Transfer]:
        assert self._under_way is not None
        (train, way), self._under_way = self._under_way, None
        if not self._ways.is_own(train):
            self._note(
                Downloaded(
                    t=now,
                    device=self._device,
                    ticket=train.ticket,
                    job=self.number,
                    attempt=self._attempt,
                    sent=way.started,
                    asked=way.asked,
                    obtained=max(way.due, self._taken) - way.started,
                    bytes=way.bytes,
                    dropped=way.dropped,
                    absent=way.absent or None,
                )
            )
        self.drops += way.dropped
        return train, way

    def stop(self) -> None:
        """Nobody is there any more."""
        self._under_way = None
