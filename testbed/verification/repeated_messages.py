"""The messages that must have led to recorded events, as far as an engine reads them."""

from __future__ import annotations

import numpy as np

from testbed.history import trace
from testbed.wire.messages import Heartbeat, Update

_NO_DELTA = np.zeros(0, np.float32)


def heartbeat(
    event: trace.TicketEvent, trains: int, *, ticket: int = 0, finished: int = 0, progress: float = 0.0
) -> Heartbeat:
    """The heartbeat of a device that has received ``trains`` Train messages, by which the engine noticed something."""
    return Heartbeat(device=event.device, state="", ticket=ticket, finished=finished, trains=trains, progress=progress)


def ignored_update(event: trace.Ignored) -> Update:
    """An update, or a request for a grant, whose ticket had ended: the engine reads only device and ticket."""
    return Update(
        device=event.device,
        ticket=event.ticket,
        version=0,
        delta=_NO_DELTA,
        samples=1,
        steps=0,
        started=0.0,
        finished=0.0,
        due=event.t,
        loss=None,
    )
