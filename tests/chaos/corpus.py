"""Real messages of every kind, as frames."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from testbed.history import trace
from testbed.wire import messages
from testbed.wire.codec import encode
from testbed.wire.error_feedback import outgoing
from testbed.wire.messages import Message
from testbed.wire.training_job import Job
from tests.testbed.examples import EVENTS

Frames: TypeAlias = list[bytes]


def real_messages(size: int, device: str) -> list[Message]:
    """Messages of every kind, with every event that a device or a cluster head may send; ``size``: of vectors."""
    vector = np.linspace(-1.0, 1.0, size, dtype=np.float32)
    events = tuple(replace(event, device=device) for event in EVENTS if isinstance(event, trace.DeviceEvent))
    head_events = tuple(event for event in EVENTS if isinstance(event, trace.HeadEvent))
    update = messages.Update(
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
        events=events,
    )
    return [
        messages.Hello(device=device, pid=4711, cores=(1, 3), samples=120),
        messages.Welcome(origin=12.5),
        messages.Train(
            ticket=7, number=3, version=2, sent=1.5, job=Job(steps=2, proximal=0.5), model=vector, baseline=4
        ),
        messages.Train(ticket=8, version=2, sent=1.5, job=Job(epochs=1, batch=2), model=vector, grant=True),
        messages.Train(ticket=9, version=2, sent=1.5, job=Job(steps=2), model=vector, for_cluster=True),
        messages.Train(ticket=10, version=3, sent=1.75, job=None, model=vector),
        messages.Train(ticket=10, version=3, sent=1.75, job=None, model=vector, for_cluster=True),
        messages.SendGradient(ticket=11, number=1 << 30, sent=1.5),
        messages.TrainsSent(trains=8),
        update,
        *(_compressed(update, method) for method in ("float16", "int8", "topk:0.5")),
        messages.Ask(device=device, ticket=8, due=2.75, trains=3, events=events[:1]),
        messages.Grant(ticket=8, rate=1.5e6, sent=2.5),
        *(messages.Heartbeat(device=device, state="training", ticket=7, trains=3, events=(event,)) for event in events),
        messages.Heartbeat(device=device, state="idle", finished=7, trains=8, progress=0.5, drops=2, events=events),
        *(messages.CanaryReport(event=event) for event in EVENTS if isinstance(event, trace.Canary)),
        messages.JoinCluster(
            ticket_range=5,
            head=device,
            quorum=2,
            damped=False,
            members=((device, 120, 3), ("other-2", 60, 4)),
            carried=((device, 7), ("other-2", 12)),
            sent=2.5,
        ),
        messages.JoinCluster(ticket_range=6, head="other-2", carried=((device, 7),), sent=2.5),
        messages.HeadReport(device=device, ticket_range=1, events=head_events),
        messages.Base(version=2, model=vector),
        messages.Snapshot(version=3, made=9.5, model=vector),
        messages.Score(version=3, made=9.5, metrics={"accuracy": 0.75, "loss": 0.5}),
        messages.Refused(reason="unknown device"),
        messages.Stop(reason="40 seconds are over"),
    ]


def _compressed(update: messages.Update, method: str) -> messages.Update:
    sent = outgoing(method, update.delta, None)
    return replace(update, delta=sent.delta, payload=sent.payload, since=0, merged=())


def real_frames(size: int, device: str) -> list[Frames]:
    return [frames_of(message) for message in real_messages(size, device)]


def frames_of(message: Message) -> Frames:
    return [bytes(frame) for frame in encode(message)]
