"""The link of a cluster head to the aggregator: models for its cluster come down, results of the cluster go up.

Heads and members also upload their gradients for a clustering here. These transfers run beside the jobs of the device,
which come from its head: those of a head itself go over no link. There is at most one transfer in each direction.
Attempts, drops and retries are those of any device (``downloads``, ``upload_retry``). Each thing is due when the thing
before it was due plus its duration. No I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import replace

from devices.downloads import Downloads
from devices.route import Route
from devices.upload_retry import PendingUpload, Uploads
from testbed.emulation.faults import Timetable
from testbed.history.trace import DeviceEvent
from testbed.profile.fleet import DeviceSpec
from testbed.wire.messages import SendGradient, Train, Update

_GIVEN_UP = "its head's upload was given up"
_TOO_LATE = "its head was sent another model meanwhile"
_CLUSTERING = "its head was asked for a gradient meanwhile"


class HeadLink:
    """Hands each result to the transport ``lead`` seconds before it is due, unless the device is dead by then.

    ``lost`` is called with each result that will not reach the aggregator, the reason and the moment.
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
        self._lost, self._lead, self._dies_at = lost, lead, dies_at
        self.events: list[DeviceEvent] = []
        self.outbox: list[Update] = []
        """Results for the aggregator."""
        route = Route(spec, timetable)
        self._downloads = Downloads(spec.name, route, self.events.append, 0.0)
        self._uploads = Uploads(spec, route, self.events.append)
        self._result: PendingUpload | None = None
        self.current = 0
        """The ticket whose model is here or being downloaded and whose result has not arrived. For heartbeats."""
        self.finished = 0
        """The ticket of the last result. For heartbeats."""

    @property
    def drops(self) -> int:
        return self._downloads.drops + self._uploads.drops

    def drop(self) -> None:
        """Stop all transfers: the cluster has ended."""
        self._downloads.stop()
        self._result = None
        self.current = 0
        self.outbox.clear()

    # ---- down

    def receive(self, train: Train, now: float) -> None:
        """Accept a Train from the transport. Its transfer over the emulated link began when it was sent."""
        if train.ticket == self.current or train.ticket <= self.finished:
            return  # a resend of a ticket that has already arrived
        self.advance(now)  # this Train may answer a result whose arrival we have not seen yet
        self._drop_result(_TOO_LATE, now)
        self.current = train.ticket
        self._downloads.begin(train, train.sent, now)

    def take(self, now: float) -> tuple[Train, float] | None:
        """Return a model whose download has ended by now, and when it was due; None if there is none."""
        if self._downloads.due > now:
            return None
        train, transfer = self._downloads.end(now)
        if transfer.dropped:
            self.current = 0  # the next heartbeat shows that the model is not here
            return None
        return train, transfer.due

    @property
    def down_due(self) -> float:
        """When :meth:`take` is wanted."""
        return self._downloads.due

    # ---- up

    def send(self, result: Update, train: Train, moment: float) -> None:
        """Begin to upload what the cluster made of the model in ``train``."""
        if result.ticket != self.current:
            self._lost(result, _TOO_LATE, moment)
            return
        self.finished = result.ticket
        self._result = PendingUpload(number=train.number, lead=self._lead, last=self._dies_at, update=result)
        self._uploads.begin(self._result, moment)

    def send_gradient(self, signal: SendGradient, gradient: Update | None, moment: float, now: float) -> None:
        """Begin to upload the gradient of the device. If it has none, the next heartbeat shows that none will come."""
        if signal.ticket <= self.finished:
            return  # a resend of a signal that has already arrived
        self.advance(now)
        self._drop_result(_CLUSTERING, now)
        self._downloads.stop()
        self.current, self.finished = 0, signal.ticket
        if gradient is None:
            return
        self.current, update = signal.ticket, replace(gradient, ticket=signal.ticket)
        self._result = PendingUpload(number=signal.number, lead=self._lead, last=self._dies_at, update=update)
        self._uploads.begin(self._result, max(moment, gradient.finished))

    def _drop_result(self, reason: str, now: float) -> None:
        if self._result is not None and self._result.update is not None:
            self._lost(self._result.update, reason, now)
        self._result = None

    def advance(self, now: float) -> None:
        """Do what is due on the way up."""
        while (result := self._result) is not None:
            if result.send_at <= now:
                self._hand_over(result)
            if result.changes_at > now:
                return
            if result.upload is None:
                self._uploads.begin(result, result.retry_at)
            elif self._uploads.end(result, now):
                self._end(result)

    @property
    def up_due(self) -> float:
        """When :meth:`advance` is wanted."""
        return min(self._result.send_at, self._result.changes_at) if self._result is not None else math.inf

    def _hand_over(self, result: PendingUpload) -> None:
        assert result.update is not None
        assert result.upload is not None
        result.sent = True
        self.outbox.append(replace(result.update, due=result.upload.due))

    def _end(self, result: PendingUpload) -> None:
        """The result has arrived, or was given up: then the next heartbeat shows that it is not here any more."""
        assert result.update is not None
        assert result.upload is not None
        self._result, self.current = None, 0
        if result.upload.dropped:
            self._lost(result.update, _GIVEN_UP, result.upload.due)
