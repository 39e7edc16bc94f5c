"""The messages that must have led to recorded events, as far as an engine reads them, and the order of events."""

from __future__ import annotations

import numpy as np

from testbed.history import trace
from testbed.wire.messages import Heartbeat, Update

_NO_DELTA = np.zeros(0, np.float32)


class RunsBackwards(Exception):
    """An event has an earlier moment than what its engine has done before it."""

    def __init__(self, event: trace.Event, now: float) -> None:
        super().__init__(event.t)
        self.expected, self.found = f"a moment from {now:.9f} s on", f"{event.t:.9f} s"


def check_order(event: trace.Event, now: float) -> None:
    """Raise RunsBackwards if an event is earlier than ``now``, the moment that its engine has reached."""
    if event.t < now:
        raise RunsBackwards(event, now)


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
