"""Device.validate() finds each invariant that is broken by hand. All other tests call it through Bench."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from devices.device import Device
from devices.link import Transfer
from devices.work import State, Suspension
from testbed.emulation.faults import PlannedSuspension
from testbed.profile.schema import ScriptedEvent
from testbed.wire.messages import Ask, Grant
from tests.devices.parts import Bench, FixedTimetable

Break = Callable[[Any], None]
UPLOAD = Transfer(started=0.0, due=9.0, asked=9.0, bytes=16, dropped=False)


def device_in(state: State) -> Any:
    """Return a device in a state. Its ticket is 1; it uploads differences to a baseline."""
    seconds = {State.DOWNLOADING: 0.125, State.UPLOADING: 2.5, State.WAITING: 2.5, State.IDLE: 10.0}.get(state, 1.0)
    suspended = FixedTimetable(suspensions={0: PlannedSuspension(at=0.25, seconds=9.0)})
    killed = ScriptedEvent(at=0.5, device="rpi-1", do="kill")
    bench = Bench(
        suspended if state is State.SUSPENDED else None,
        script=(killed,) if state is State.KILLED else (),
    )
    bench.train(1, grant=state is State.WAITING, baseline=0)
    bench.run_until(seconds)
    assert bench.device.state is state
    return bench.device


# ---- what breaks an invariant


def set_own(**changes: Any) -> Break:
    def change(device: Any) -> None:
        for name, value in changes.items():
            setattr(device, name, value)

    return change


def set_work(**changes: Any) -> Break:
    return lambda device: set_own(**changes)(device._work)


def set_update(**changes: Any) -> Break:
    return lambda device: setattr(device._work, "update", msgspec.structs.replace(device._work.update, **changes))


def set_baseline(**changes: Any) -> Break:
    return lambda device: set_own(**changes)(device._jobs._baseline)


def set_suspension(**changes: Any) -> Break:
    suspension = Suspension(**{"started": 1.0, "until": 2.0, "asked": 1.0} | changes)
    return lambda device: setattr(device._suspensions, "current", suspension)


def download(ticket: int) -> Break:
    train = msgspec.structs.replace(device_in(State.TRAINING)._work.train, ticket=ticket)
    return lambda device: device._downloads.begin(train, 0.0, 0.0, None)


def fill_inbox(device: Any) -> None:
    device._inbox = device._work.train


def fill_inbox_when_away(device: Any) -> None:
    set_suspension(away=True)(device)
    fill_inbox(device)


def post(**changes: Any) -> Break:
    message = Ask(**{"device": "rpi-1", "ticket": 1, "due": 1.0} | changes)
    return lambda device: device.outbox.append(message)


def upload_a_difference_to_nothing(device: Any) -> None:
    device._work.train = msgspec.structs.replace(device._work.train, baseline=None)
    set_update(since=7)(device)


CASES: list[tuple[State, Break, str]] = [
    # the state
    (State.KILLED, set_own(_work=device_in(State.TRAINING)._work), "killed, but it has work"),
    (State.KILLED, download(2), "killed, but a download"),
    (State.KILLED, set_suspension(), "killed, but a suspension"),
    # tickets
    (State.TRAINING, set_own(_finished=-1), "the last finished ticket is -1"),
    (State.TRAINING, set_own(_finished=1), "in training, but it is finished"),
    (State.TRAINING, download(1), "ticket 1 is downloaded twice"),
    (State.TRAINING, download(0), "ticket 0 is downloaded, but it is finished"),
    # suspensions
    (State.TRAINING, fill_inbox, "the inbox, but the device is not suspended"),
    (State.TRAINING, fill_inbox_when_away, "the inbox, but an absence is under way"),
    (State.SUSPENDED, set_suspension(started=2.0, until=1.0), "from 2.0 to 1.0"),
    (State.SUSPENDED, set_own(_work=None), "a suspension is under way, but no work"),
    (State.UPLOADING, set_suspension(), "under way after the training"),
    (State.SUSPENDED, set_work(suspension=PlannedSuspension(at=0.5, seconds=1.0)), "both under way and planned"),
    # a job
    (State.TRAINING, set_work(done=5), "5 of 4 steps are done"),
    (State.TRAINING, set_work(done=-1), "-1 of 4 steps are done"),
    (State.TRAINING, set_work(granted=Grant(ticket=2, rate=1.0, sent=0.0)), "a grant for another ticket"),
    (State.TRAINING, set_work(upload=UPLOAD), "an upload without an update"),
    (State.TRAINING, set_work(attempt=1), "1 attempts to upload without an update"),
    (State.TRAINING, set_work(sent=True), "sent without an update"),
    (State.UPLOADING, set_work(done=3), "an update after 3 of 4 steps"),
    (State.UPLOADING, set_update(ticket=2), "an update for ticket 2"),
    (State.UPLOADING, set_own(_finished=0), "has an update, but 0 was finished last"),
    (State.WAITING, set_work(upload=UPLOAD), "an upload without the grant"),
    (State.UPLOADING, set_work(upload=None), "no upload will ever begin"),
    (State.WAITING, set_work(sent=True), "sent without an upload"),
    # the outbox
    (State.IDLE, post(device="rpi-2"), "a message from rpi-2"),
    (State.IDLE, post(ticket=2), "has ticket 2, but 1 was finished last"),
    (State.IDLE, post(due=math.nan), "due at no moment"),
    # times
    (State.UPLOADING, set_work(upload=dataclasses.replace(UPLOAD, due=math.nan)), "due at no moment"),
    # the baseline
    (State.TRAINING, lambda device: setattr(device._jobs, "_baseline", None), "there is no baseline"),
    (State.UPLOADING, set_update(delta=np.zeros(3, np.float32)), "the delta has another size"),
    (State.UPLOADING, upload_a_difference_to_nothing, "a needless difference"),
    (State.UPLOADING, set_baseline(_since=1), "ticket 1 waits, but 1 has been applied"),
    (State.UPLOADING, set_baseline(_known=np.zeros(1)), "the difference has another size"),
]


@pytest.mark.parametrize(("state", "break_it", "message"), CASES, ids=[message for *_, message in CASES])
def test_a_broken_invariant_is_found(state: State, break_it: Break, message: str) -> None:
    device = device_in(state)
    device.validate()
    break_it(device)
    with pytest.raises(AssertionError, match=re.escape(message)):
        device.validate()


@pytest.mark.parametrize("wrong", list(State))
@pytest.mark.parametrize("state", list(State))
def test_a_state_that_does_not_agree_with_the_work_is_found(
    monkeypatch: pytest.MonkeyPatch, state: State, wrong: State
) -> None:
    device = device_in(state)
    monkeypatch.setattr(Device, "state", wrong)
    nothing = (State.IDLE, State.KILLED)  # they differ only in what comes next
    if wrong is state or (state in nothing and wrong in nothing):
        device.validate()
    else:
        with pytest.raises(AssertionError):
            device.validate()
