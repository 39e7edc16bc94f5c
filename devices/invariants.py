"""Invariants of a device: they hold between any two calls. Each function raises AssertionError if one is broken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from devices.work import State, Suspension, Work
from testbed.wire.messages import Ask, Train, Update


def check_state(state: State, work: Work | None, download: Train | None, suspension: Suspension | None) -> None:
    """The state agrees with what the device has."""
    if state is State.KILLED:
        assert work is None, "killed, but it has work"
        assert download is None, "killed, but a download is under way"
        assert suspension is None, "killed, but a suspension is under way"
        return
    assert (state is State.SUSPENDED) == (suspension is not None), f"{state}, but the suspension is {suspension}"
    if suspension is not None:
        return
    if work is None:
        expected = State.IDLE if download is None else State.DOWNLOADING
    elif work.update is None:
        expected = State.TRAINING
    else:
        expected = State.WAITING if work.waits else State.UPLOADING
    assert state is expected, f"{state}, but its work and its download say {expected}"


def check_tickets(work: Work | None, download: Train | None, finished: int) -> None:
    """No ticket is downloaded that is already in training, in upload or finished."""
    assert finished >= 0, f"the last finished ticket is {finished}"
    if download is not None:
        assert download.ticket != finished, f"ticket {download.ticket} is downloaded, but it is finished"
        assert work is None or download.ticket != work.train.ticket, f"ticket {download.ticket} is downloaded twice"
    if work is not None and work.update is None:
        assert work.train.ticket != finished, f"ticket {finished} is in training, but it is finished"


def check_suspension(suspension: Suspension | None, work: Work | None, inbox: Train | None) -> None:
    """A suspension by the fault timetable interrupts training; only then messages wait in the inbox."""
    if suspension is None:
        assert inbox is None, "a Train waits in the inbox, but the device is not suspended"
        return
    assert suspension.started <= suspension.until, f"a suspension from {suspension.started} to {suspension.until}"
    if suspension.away:
        assert inbox is None, "a Train waits in the inbox, but an absence is under way"
        return
    assert work is not None, "a suspension is under way, but no work"
    assert work.update is None, f"ticket {work.train.ticket}: a suspension is under way after the training"
    assert work.suspension is None, f"ticket {work.train.ticket}: the suspension is both under way and planned"


def check_work(work: Work, finished: int) -> None:
    """The fields of a job agree with how far it is."""
    name = f"ticket {work.train.ticket}"
    assert 0 <= work.done <= work.steps, f"{name}: {work.done} of {work.steps} steps are done"
    assert work.granted is None or work.granted.ticket == work.train.ticket, f"{name}: a grant for another ticket"
    if work.update is None:
        assert work.upload is None, f"{name}: an upload without an update"
        assert work.attempt == 0, f"{name}: {work.attempt} attempts to upload without an update"
        assert not work.sent, f"{name}: sent without an update"
        return
    assert work.done == work.steps, f"{name}: an update after {work.done} of {work.steps} steps"
    assert work.update.ticket == work.train.ticket, f"{name}: an update for ticket {work.update.ticket}"
    assert work.train.ticket == finished, f"{name}: it has an update, but {finished} was finished last"
    assert not work.waits or work.upload is None, f"{name}: an upload without the grant that it needs"
    assert work.waits or work.upload is not None or math.isfinite(work.retry_at), f"{name}: no upload will ever begin"
    assert not work.sent or (work.upload is not None and not work.upload.dropped), f"{name}: sent without an upload"


def check_outbox(outbox: Iterable[Update | Ask], device: str, finished: int) -> None:
    """Everything in the outbox is from this device and about a finished ticket."""
    for message in outbox:
        assert message.device == device, f"the outbox of {device} has a message from {message.device}"
        assert message.ticket <= finished, f"the outbox has ticket {message.ticket}, but {finished} was finished last"
        assert not math.isnan(message.due), f"the outbox has ticket {message.ticket}, due at no moment"


def check_agenda(kept: Sequence[tuple[float, object]], present: Sequence[tuple[float, object]]) -> None:
    """The list of what happens next that is kept is the one that a new look gives."""
    assert kept == present, f"kept as next: {kept}, but next is {present}"


def check_times(dues: Iterable[float]) -> None:
    """Every moment is a number."""
    assert not any(math.isnan(due) for due in dues), "something is due at no moment"
