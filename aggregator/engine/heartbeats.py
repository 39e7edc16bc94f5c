"""What a heartbeat says about the ticket of its device: all is well, something was lost, or the ticket has ended.

A heartbeat reports the ticket that the device works on, the last ticket that it finished and how many Train messages
have reached it (ADR 3). If fewer Trains have arrived than were sent, one is probably still on its way, so nothing is
concluded. If all have arrived and the device does not work on its ticket, then either it finished the ticket (the
upload was given up, or the final model is there) or the emulated link lost the download. After ``PATIENCE`` heartbeats
in a row without the Train, the transport may have lost it. The heartbeats do not prove that: a device on a full host
does not read its socket for seconds, and the heartbeats of these seconds arrive together. So the device is sent the
number of Trains; its answer decides. The count begins again with each Train: a heartbeat that a busy device sends right
after an update crosses the next Train (ADR 25). Updates of devices without a throttle replace most of these (ADR 3).
"""

from __future__ import annotations

import enum

from aggregator.engine.tickets import PresentDevice, Ticket
from testbed.wire.messages import Heartbeat

PATIENCE = 5
"""Heartbeats to wait before a Train is asked for, or a grant sent again: on one host the transport takes no time."""


class Finding(enum.Enum):
    """What follows from a heartbeat."""

    NOTHING = enum.auto()
    GRANT_LOST = enum.auto()
    """Send the grant again."""
    TRAIN_MISSING = enum.auto()
    """Send the number of Trains: the device has had time to receive all of them."""
    DOWNLOAD_LOST = enum.auto()
    """Send the Train again."""
    UPLOAD_GIVEN_UP = enum.auto()
    """The device finished the job, but its update will not come."""
    FINAL_MODEL_ARRIVED = enum.auto()


def judge(present: PresentDevice, heartbeat: Heartbeat, now: float) -> Finding:
    """Return what follows from a heartbeat. Updates the counters of ``present`` and the progress of its ticket."""
    if heartbeat.trains >= present.trains_sent:
        present.heartbeats_behind = 0
    ticket = present.ticket
    if ticket is None:
        return Finding.NOTHING
    if heartbeat.ticket == ticket.number:
        ticket.progress = now, heartbeat.progress
        return Finding.GRANT_LOST if _is_grant_lost(present, ticket, heartbeat) else Finding.NOTHING
    if heartbeat.trains < present.trains_sent:
        present.heartbeats_behind += 1
        if present.heartbeats_behind <= PATIENCE:
            return Finding.NOTHING
        present.heartbeats_behind = 0
        return Finding.TRAIN_MISSING
    if heartbeat.finished != ticket.number:
        present.trains_sent = heartbeat.trains
        return Finding.DOWNLOAD_LOST
    return Finding.FINAL_MODEL_ARRIVED if ticket.train.job is None else Finding.UPLOAD_GIVEN_UP


def _is_grant_lost(present: PresentDevice, ticket: Ticket, heartbeat: Heartbeat) -> bool:
    if ticket.granted is None or heartbeat.state != "waiting":
        present.heartbeats_waiting = 0
        return False
    present.heartbeats_waiting += 1
    if present.heartbeats_waiting <= PATIENCE:
        return False
    present.heartbeats_waiting = 0
    return True
