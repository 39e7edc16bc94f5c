"""The link of a cluster head to the aggregator: models for its cluster come down, and what that made of them goes up.

Beside the jobs of the device itself, which the head gets from nobody but itself, over no link at all. So there is one
transfer a time in each direction. What is due counts from the moment before it, as everywhere. No I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from devices.link import Transfer, next_tick
from devices.route import Route
from testbed.emulation.faults import Timetable
from testbed.history.trace import Downloaded, Event, Uploaded
from testbed.profile.fleet import DeviceSpec
from testbed.wire.messages import Train, Update

_GIVEN_UP = "its head's upload was given up"
_TOO_LATE = "its head was sent another model meanwhile"


@dataclass(slots=True, kw_only=True)
class _Download:
    train: Train
    attempt: int
    way: Transfer
    handled: float


@dataclass(slots=True, kw_only=True)
class _Upload:
    update: Update
    number: int
    way: Transfer
    attempt: int = 0
    sent: bool = False


class HeadLink:
    """``lead``: so many seconds before it is due, an update is given to the transport. ``dies_at``: by the script.

    ``lost`` is told of each result that will not come: why, and when that happened.
    """

    def __init__(
        self,
        spec: DeviceSpec,
        timetable: Timetable,
        lost: Callable[[Update, str, float], None],
        *,
        lead: float,
        dies_at: float = math.inf,
    ) -> None:
        self._spec, self._ways, self._lost, self._lead, self._dies_at = (
            spec,
            Route(spec, timetable),
            lost,
            lead,
            dies_at,
        )
        self._download: _Download | None = None
        self._upload: _Upload | None = None
        self._tried: tuple[int, int] = (0, 0)
        """The last ticket that was sent to us, and how often before."""
        self.current = 0
        """The ticket whose model is here, or on its way, and whose answer is not through. For heartbeats."""
        self.finished = 0
        """The ticket whose answer was on its way last. For heartbeats."""
        self.drops = 0
        self.events: list[Event] = []
        self.outbox: list[Update] = []

    # ---- down

    def receive(self, train: Train, now: float) -> None:
        """A model has reached this end of the transport; its way over the link began when it was sent."""
        if train.ticket == self.current or train.ticket <= self.finished:
            return  # sent again although we have it, or had it
        self.advance(now)  # the answer to a result may be here before we have seen that it is through
        if self._upload is not None:
            self._lost(self._upload.update, _TOO_LATE, now)
        self._tried = (train.ticket, self._tried[1] + 1 if self._tried[0] == train.ticket else 0)
        self.current, self._upload = train.ticket, None
        way = self._ways.down(train, train.number, self._tried[1], self._ways.there(train.sent))
        self._download = _Download(train=train, attempt=self._tried[1], way=way, handled=now)

    def take(self, now: float) -> tuple[Train, float] | None:
        """A model whose download has ended by now, and when it was due."""
        download = self._download
        if download is None or download.way.due > now:
            return None
        self._download, way = None, download.way
        self.events.append(
            Downloaded(
                t=now,
                device=self._spec.name,
                ticket=download.train.ticket,
                job=download.train.number,
                attempt=download.attempt,
                sent=way.started,
                asked=way.asked,
                obtained=max(way.due, download.handled) - way.started,
                bytes=way.bytes,
                dropped=way.dropped,
                absent=way.absent or None,
            )
        )
        if way.dropped:
            self.drops += 1
            self.current = 0  # the next heartbeat shows that it is not here
            return None
        return download.train, way.due

    # ---- up

    def send(self, update: Update, train: Train, moment: float) -> None:
        """What the cluster has made of a model sets out."""
        if update.ticket != self.current:
            self._lost(update, _TOO_LATE, moment)
            return
        self.finished = update.ticket
        self._upload = _Upload(update=update, number=train.number, way=self._ways.up(update, train.number, 0, moment))

    def drop(self) -> None:
        """There is no cluster any more: what is on its way is for nobody."""
        self._download = self._upload = None
        self.current = 0
        self.outbox.clear()

    def advance(self, now: float) -> None:
        """Do what is due on the way up."""
        while (upload := self._upload) is not None:
            if self._send_at(upload) <= now:
                upload.sent = True
                self.outbox.append(replace(upload.update, due=upload.way.due))
            if upload.way.due > now:
                return
            self._end(upload, now)

    @property
    def down_due(self) -> float:
        """When :meth:`take` is wanted."""
        return self._download.way.due if self._download is not None else math.inf

    @property
    def up_due(self) -> float:
        """When :meth:`advance` is wanted."""
        return min(self._send_at(self._upload), self._upload.way.due) if self._upload is not None else math.inf

    def _send_at(self, upload: _Upload) -> float:
        if upload.sent or upload.way.dropped or upload.way.due > self._dies_at:
            return math.inf
        return upload.way.due - self._lead

    def _end(self, upload: _Upload, now: float) -> None:
        way = upload.way
        self.events.append(
            Uploaded(
                t=now,
                device=self._spec.name,
                ticket=upload.update.ticket,
                job=upload.number,
                attempt=upload.attempt,
                sent=way.started,
                asked=way.asked,
                obtained=way.due - way.started,
                bytes=way.bytes,
                dropped=way.dropped,
                absent=way.absent or None,
            )
        )
        self._upload = None
        if not way.dropped or self._spec.on_drop == "give_up":
            self.drops += way.dropped
            self.current = 0  # if it was lost, the next heartbeat shows an answer that is not held any more
            if way.dropped:
                self._lost(upload.update, _GIVEN_UP, way.due)
            return
        self.drops += 1
        tick = self._spec.tick if self._spec.on_drop == "next_tick" else None
        moment = way.due if tick is None else next_tick(way.due, tick)
        again = self._ways.up(upload.update, upload.number, upload.attempt + 1, moment)
        self._upload = _Upload(update=upload.update, number=upload.number, way=again, attempt=upload.attempt + 1)
