"""Small inputs that several tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from testbed import messages, trace

SIZE = 3
"""Numbers in the vectors of MESSAGES."""

MINIMAL = """
strategy = "fedavg"
devices = [{ profile = "rpi4" }]
"""
"""The shortest profile there is: everything else has a default."""


def write_profile(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def vector(*numbers: float) -> messages.Vector:
    return np.array(numbers, dtype=np.float32)


MESSAGES: tuple[messages.Message, ...] = (
    messages.Hello(device="rpi4-1", pid=4711, cores=(1, 3), samples=120),
    messages.Welcome(origin=12.5),
    messages.Train(ticket=7, version=3, job=messages.Job(steps=4, lr=0.25, proximal=0.5), model=vector(1.0, -2.0, 0.5)),
    messages.Update(
        device="rpi4-1", ticket=7, version=3, delta=vector(0.0, 1e-30, 3.0), samples=120, steps=4,
        started=1.5, finished=2.75, loss=0.125, events=({"kind": "trained", "t": 2.75, "late": 0.0},),
    ),
    messages.Beat(device="rpi4-1", state="training", ticket=7, finished=6, trains=8, progress=0.5, drops=2),
    messages.Snapshot(version=3, made=9.5, model=vector(1.0, 2.0, 3.0)),
    messages.Score(version=3, made=9.5, metrics={"accuracy": 0.75, "loss": 0.5}),
    messages.Refused(reason="unknown device"),
    messages.Stop(reason="40 seconds are over"),
)  # fmt: skip
"""One of each."""

EVENTS: tuple[trace.Event, ...] = (
    trace.Header(t=0.0, schema=1, name="n", strategy="fedavg", seed=7, dilation=1.0, started="2024", host="h"),
    trace.Joined(t=0.0, device="a", pid=11, cores=[1], samples=100),
    trace.Left(t=9.0, device="a", reason="silent"),
    trace.Dispatched(t=0.5, device="a", ticket=1, version=0, steps=10),
    trace.Resent(t=1.0, device="a", ticket=1),
    trace.Downloaded(t=1.5, device="a", ticket=1, attempt=0, asked=0.5, obtained=0.51, bytes=400, dropped=True),
    trace.Suspended(t=2.0, device="a", ticket=1, asked=0.25, obtained=0.26),
    trace.Trained(t=3.0, device="a", ticket=1, steps=10, asked=1.0, obtained=1.01, late=0.002),
    trace.Uploaded(t=4.0, device="a", ticket=1, attempt=1, asked=0.5, obtained=0.5, bytes=420, dropped=False),
    trace.Abandoned(t=4.5, device="a", ticket=2, seconds=0.75),
    trace.Arrived(t=5.0, device="a", ticket=1, version=0, staleness=2, loss=0.5),
    trace.Ignored(t=5.0, device="a", ticket=1),
    trace.Aggregated(t=5.0, version=3, tickets=[1, 2], weights=[0.25, 0.75], staleness=[2, 0]),
    trace.Rejected(t=6.0, device="a", ticket=3, reason="zero"),
    trace.Superseded(t=6.0, device="a", ticket=4),
    trace.Lost(t=6.0, device="a", ticket=5, reason="gave up"),
    trace.Refusal(t=6.5, peer="stranger", reason="unknown device — ä"),
    trace.Scored(t=7.0, version=3, made=5.0, metrics={"accuracy": 0.5}),
    trace.Stopped(t=8.0, reason="over", version=3, in_flight=1),
)
"""One of each."""
