"""Uploads and their retries: attempt after attempt until one arrives or, by ``on_drop`` of the profile, none is left.

A device uploads its own updates with this class, and a cluster head the results of its cluster (``cluster/head_link``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from devices.link import Transfer, next_tick
from devices.route import Route
from testbed.history.trace import DeviceEvent, Uploaded
from testbed.profile.fleet import DeviceSpec
from testbed.wire.messages import Grant, Update


@dataclass(slots=True, kw_only=True)
class PendingUpload:
    """An update that is to be uploaded, and its present attempt."""

    number: int
    """Job number: the address of this upload in the fault timetable."""
    lead: float
    last: float = math.inf
    """When the device dies: an update that would be due after it is never sent, although others are sent ahead."""
    update: Update | None = None
    granted: Grant | None = None
    """The rate of the upload, if one is needed; it holds for every attempt."""
    upload: Transfer | None = None
    """The attempt under way."""
    sent: bool = False
    attempt: int = 0
    """The number of the present attempt, or of the next one; from 0."""
    retry_at: float = math.inf
    """When the next attempt begins, while none is under way."""

    @property
    def send_at(self) -> float:
        """When the update must be handed to the transport to arrive by the moment at which it is due."""
        if self.upload is None or self.upload.dropped or self.sent or self.upload.due > self.last:
            return math.inf
        return self.upload.due - self.lead

    def arrived_between(self, before: float, now: float) -> bool:
        """Whether the aggregator has got the update in this time."""
        return self.sent and self.upload is not None and before < self.upload.due <= now

    @property
    def changes_at(self) -> float:
        """When the present attempt ends, or the next one begins."""
        return self.upload.due if self.upload is not None else self.retry_at


class Uploads:
    """Begins and ends the attempts of one device. Each attempt that ends is passed to ``note``."""

    def __init__(self, spec: DeviceSpec, route: Route, note: Callable[[DeviceEvent], None]) -> None:
        self._spec, self._route, self._note = spec, route, note
        self.drops = 0

    def begin(self, pending: PendingUpload, moment: float) -> None:
        """Begin an attempt."""
        assert pending.update is not None
        pending.upload = self._route.up(pending.update, pending.number, pending.attempt, moment, pending.granted)

    def end(self, pending: PendingUpload, now: float) -> bool:
        """End the present attempt. Return True if no attempt follows: the update arrived, or it is given up."""
        update, transfer = pending.update, pending.upload
        assert update is not None
        assert transfer is not None
        if transfer.is_local:
            return True
        self._note(self._uploaded(pending, update, transfer, now))
        if not transfer.dropped:
            return True
        self.drops += 1
        pending.attempt += 1
        again = self.next_attempt(transfer.due)
        if again is None:
            return True  # the next heartbeat shows a finished ticket that the device does not have any more
        if again > transfer.due:
            pending.upload, pending.retry_at = None, again
        else:
            self.begin(pending, again)
        return False

    def next_attempt(self, dropped_at: float) -> float | None:
        """Return when a dropped upload is tried again: at once, or at the next tick. None: it is given up."""
        if self._spec.on_drop == "give_up":
            return None
        if self._spec.on_drop == "next_tick":
            assert self._spec.tick is not None  # a profile with on_drop = next_tick has one
            return next_tick(dropped_at, self._spec.tick)
        return dropped_at

    def _uploaded(self, pending: PendingUpload, update: Update, transfer: Transfer, now: float) -> Uploaded:
        first_of_grant = pending.granted is not None and not pending.attempt
        return Uploaded(
            t=now,
            device=self._spec.name,
            ticket=update.ticket,
            job=pending.number,
            attempt=pending.attempt,
            sent=transfer.started,
            asked=transfer.asked,
            obtained=transfer.due - transfer.started,
            bytes=transfer.bytes,
            dropped=transfer.dropped,
            absent=transfer.absent or None,
            waited=(transfer.started - update.finished or None) if first_of_grant else None,
        )
