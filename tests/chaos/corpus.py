"""Real messages of every kind, as frames."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from testbed.history import trace
from testbed.wire import messages as said
from testbed.wire.codec import encode
from testbed.wire.messages import Job, Message
from tests.testbed.examples import EVENTS

Frames: TypeAlias = list[bytes]


def real_messages(size: int, device: str) -> list[Message]:
    """Of every kind, with every event that a device or a cluster head may tell of; vectors of ``size`` numbers."""
    vector = np.linspace(-1.0, 1.0, size, dtype=np.float32)
    told = tuple(trace.as_table(event) | {"device": device} for event in EVENTS if isinstance(event, trace.DeviceEvent))
    kept = tuple(trace.as_table(event) for event in EVENTS if isinstance(event, trace.HeadEvent))
    sung = tuple(trace.as_table(event) for event in EVENTS if isinstance(event, trace.Canary))
    return [
        said.Hello(device=device, pid=4711, cores=(1, 3), samples=120),
        said.Welcome(origin=12.5),
        said.Train(ticket=7, number=3, version=2, sent=1.5, job=Job(steps=2, proximal=0.5), model=vector, baseline=4),
        said.Train(ticket=8, version=2, sent=1.5, job=Job(epochs=1, batch=2), model=vector, grant=True),
        said.Train(ticket=9, version=2, sent=1.5, job=Job(steps=2), model=vector, for_cluster=True),
        said.Train(ticket=10, version=3, sent=1.75, job=None, model=vector),
        said.Train(ticket=10, version=3, sent=1.75, job=None, model=vector, for_cluster=True),
        said.Update(
            device=device,
            ticket=7,
            version=2,
            delta=vector,
            samples=120,
            steps=4,
            started=1.5,
            finished=2.75,
            due=3.5,
            loss=0.125,
            since=3,
            trains=8,
            merged=((6, 0.5, 1), (5, 0.25, 0)),
            events=told,
        ),
        said.Ask(device=device, ticket=8, due=2.75, trains=3, events=told[:1]),
        said.Grant(ticket=8, rate=1.5e6, sent=2.5),
        *(said.Heartbeat(device=device, state="training", ticket=7, trains=3, events=(event,)) for event in told),
        said.Heartbeat(device=device, state="idle", finished=7, trains=8, progress=0.5, drops=2, events=told),
        said.Heartbeat(device=device, state="singing", events=sung),
        said.JoinCluster(
            ticket_range=5, head=device, quorum=2, damped=False, members=((device, 120, 3), ("other-2", 60, 4))
        ),
        said.JoinCluster(ticket_range=6, head="other-2"),
        said.HeadReport(device=device, ticket_range=1, events=kept),
        said.Base(version=2, model=vector),
        said.Snapshot(version=3, made=9.5, model=vector),
        said.Score(version=3, made=9.5, metrics={"accuracy": 0.75, "loss": 0.5}),
        said.Refused(reason="unknown device"),
        said.Stop(reason="40 seconds are over"),
    ]


def real_frames(size: int, device: str) -> list[Frames]:
    return [frames_of(message) for message in real_messages(size, device)]


def frames_of(message: Message) -> Frames:
    return [bytes(frame) for frame in encode(message)]
