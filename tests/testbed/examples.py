"""Small inputs that several tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from testbed.history import trace
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Direction
from testbed.wire import messages
from testbed.wire.training_job import Job

SIZE = 3
"""Numbers in the vectors of MESSAGES."""

MINIMAL = """
strategy = "fedavg"
devices = [{ profile = "rpi4" }]
"""
"""The shortest valid profile: everything else has a default."""


def write_profile(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def device_spec(name: str) -> DeviceSpec:
    """Return a device with this name and arbitrary settings."""
    return DeviceSpec(
        name=name,
        index=0,
        group=0,
        title="",
        throttle="pace",
        seconds_per_sample=0.001,
        up=Direction(),
        down=Direction(),
        suspend=0.0,
        suspend_max=1.0,
        suspend_by="hold",
        on_drop="retry",
        tick=1.0,
    )


def vector(*numbers: float) -> messages.Vector:
    return np.array(numbers, dtype=np.float32)


EVENTS: tuple[trace.Event, ...] = (
    trace.Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="n",
        strategy="fedavg",
        seed=7,
        dilation=2.0,
        demand=0.5,
        pressure=None,
        started="2024",
        host="h",
        replay="strict",
    ),
    trace.Joined(t=0.0, device="a", pid=11, cores=[1], samples=100, watts=trace.Watts(idle=1.25, compute=5.0)),
    trace.Left(t=9.0, device="a", reason="silent"),
    trace.OutOfRange(t=9.0, version=3, norm=5e6, start=4.5, device="a", largest=6e6),
    trace.Dispatched(t=0.5, device="a", ticket=1, version=0, steps=10),
    trace.Resent(t=1.0, device="a", ticket=1),
    trace.Resumed(t=1.5, version=3, undone=12, dilation=2.0, started="2026-01-01T00:00:00.000+00:00"),
    trace.Downloaded(
        t=1.5, device="a", ticket=1, job=0, attempt=0, sent=0.99, asked=0.5, obtained=0.51, bytes=400, dropped=True
    ),
    trace.Suspended(t=2.0, device="a", ticket=1, steps=4, asked=0.25, obtained=0.26),
    trace.Scripted(t=2.5, device="a", do="rate", seconds=4.0, value=0.5),
    trace.Poisoned(t=3.0, device="a", ticket=1, how="sign-flip", factor=2.0),
    trace.Trained(
        t=3.0,
        device="a",
        ticket=1,
        steps=10,
        asked=1.0,
        obtained=1.01,
        checks=10,
        misses=[trace.Miss(3, 0.1, 0.002), trace.Miss(10, 0.1, 0.01)],
        use=trace.Use(cpu=0.25, waited=0.125, stolen=0.0625),
    ),
    trace.Uploaded(
        t=4.0, device="a", ticket=1, job=0, attempt=1, sent=3.5, asked=0.5, obtained=0.5, bytes=420, dropped=False
    ),
    trace.Asked(t=3.5, device="a", ticket=1, due=3.5, received=3.49, handled=3.51),
    trace.Planned(
        t=3.75, version=0, devices=["a"], shares=[1.0], remaining=[0.0], seconds=0.25, queue=0.5, spent=1.0, budget=9.0
    ),
    trace.Granted(t=3.75, device="a", ticket=1, rate=1e6, share=1.0),
    trace.Abandoned(t=4.5, device="a", ticket=2, steps=3, seconds=0.75, checks=3, misses=[]),
    trace.Arrived(
        t=5.0, device="a", ticket=1, due=4.75, received=4.5, handled=5.0, bytes=420, version=0, staleness=2, loss=0.5
    ),
    trace.Ignored(t=5.0, device="a", ticket=1),
    trace.Aggregated(t=5.0, version=3, tickets=[1, 2], weights=[0.25, 0.75], staleness=[2, 0]),
    trace.Round(t=5.5, number=2, devices=["a", "b", "a"], seconds=[1.5, 2.25, 1.0]),
    trace.Clustered(t=5.5, version=3, clusters=[["a", "b"], ["c"]], purity=0.75),
    trace.Grouped(t=5.5, cluster=0, ticket_range=2, head="a", members=["a", "b"], quorum=1),
    trace.Adopted(t=5.5, device="a", ticket=1, due=5.25, joined=["b", "a"]),
    trace.Carried(t=5.5, device="b", ticket=4),
    trace.Paused(t=5.5, device="a", ticket_range=2),
    trace.Regrouped(t=5.5, device="a", ticket_range=2),
    trace.Progressed(t=5.5, device="a", ticket=1, progress=0.25),
    trace.Merged(t=5.75, device="a", ticket=1, tickets=[7, 8], weights=[0.5, None], staleness=[0, 1]),
    trace.Rejected(t=6.0, device="a", ticket=3, reason="zero"),
    trace.Superseded(t=6.0, device="a", ticket=4),
    trace.Delivered(t=6.0, device="a", ticket=6),
    trace.Lost(t=6.0, device="a", ticket=5, reason="gave up"),
    trace.Refusal(t=6.5, peer="stranger", reason="unknown device — ä"),
    trace.Load(t=6.75, span=1.0, busy=0.25, served=3, service=0.125, longest=0.0625, waited=0.01, pressure=None),
    trace.Canary(t=6.8, core=1, asked=0.02, alone=0.0201, obtained=0.0205),
    trace.Scored(t=7.0, version=3, made=5.0, metrics={"accuracy": 0.5}),
    trace.Stopped(t=8.0, reason="over", version=3, in_flight=1, model="cafe"),
)
"""One of each."""

DOWNLOADED = trace.Downloaded(
    t=1.5, device="rpi4-1", ticket=7, job=2, attempt=0, sent=1.25, asked=0.25, obtained=0.25, bytes=12, dropped=False
)
TRAINED = trace.Trained(
    t=2.75,
    device="rpi4-1",
    ticket=7,
    steps=4,
    asked=1.25,
    obtained=1.25,
    checks=4,
    misses=[trace.Miss(3, 0.25, 0.002)],
    use=trace.Use(cpu=0.25, waited=0.125, stolen=0.0625),
)
UPLOADED = trace.Uploaded(
    t=3.5, device="rpi4-1", ticket=7, job=2, attempt=0, sent=2.75, asked=0.75, obtained=0.75, bytes=12, dropped=False
)
"""The usual events of an update."""

MESSAGES: tuple[messages.Message, ...] = (
    messages.Hello(device="rpi4-1", pid=4711, cores=(1, 3), samples=120),
    messages.Welcome(origin=12.5),
    messages.Train(
        ticket=7,
        version=3,
        sent=1.25,
        job=Job(steps=4, lr=0.25, proximal=0.5),
        model=vector(1.0, -2.0, 0.5),
        grant=True,
        baseline=4,
    ),
    messages.SendGradient(ticket=8, number=1 << 30, sent=2.5),
    messages.TrainsSent(trains=8),
    messages.Base(version=2, model=vector(0.5, 1.0, -1.0)),
    messages.Update(
        device="rpi4-1",
        ticket=7,
        version=3,
        delta=vector(0.0, 1e-30, 3.0),
        samples=120,
        steps=4,
        started=1.5,
        finished=2.75,
        due=3.5,
        loss=0.125,
        merged=((6, 0.5, 1),),
        events=(DOWNLOADED, TRAINED, UPLOADED),
    ),
    messages.Ask(device="rpi4-1", ticket=7, due=2.75, trains=3, events=(TRAINED,)),
    messages.Grant(ticket=7, rate=1.5e6, sent=2.5),
    messages.Heartbeat(device="rpi4-1", state="training", ticket=7, finished=6, trains=8, progress=0.5, drops=2),
    messages.JoinCluster(
        ticket_range=5,
        head="rpi4-1",
        quorum=2,
        damped=False,
        members=(("rpi4-1", 120, 3), ("rpi4-2", 60, 4)),
        carried=(("rpi4-2", 9),),
        sent=2.5,
    ),
    messages.HeadReport(device="rpi4-1", ticket_range=5, events=(trace.Resent(t=2.75, device="rpi4-2", ticket=9),)),
    messages.CanaryReport(event=trace.Canary(t=6.8, core=1, asked=0.02, alone=0.0201, obtained=0.0205)),
    messages.Snapshot(version=3, made=9.5, model=vector(1.0, 2.0, 3.0)),
    messages.Score(version=3, made=9.5, metrics={"accuracy": 0.75, "loss": 0.5}),
    messages.Refused(reason="unknown device"),
    messages.Stop(reason="40 seconds are over"),
)
"""One of each."""
