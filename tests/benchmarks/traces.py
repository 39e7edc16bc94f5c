"""Traces: one pass over an hour of 500 devices.

Takes 40 s, most of it to write the trace; ``--quick``: a trace of six minutes.
"""

from __future__ import annotations

import gzip
import heapq
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from testbed.analysis import trace_reading
from testbed.history import trace
from testbed.history.trace import Event
from testbed.trace_tools import trace_contents
from testbed.trace_tools.trace_summary import RunSummary
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most

_DEVICES, _SECONDS = 500, 3600.0
_AIM_SECONDS = 3.0
_BYTES = 250_000


def measure(options: Options) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        events = write(path, synthetic(_DEVICES, options.seconds(_SECONDS, _SECONDS / 10)))
        size = f"{events / 1e6:.2f} M events, {path.stat().st_size / 1e6:.0f} MB"
        began = time.perf_counter()
        for _ in trace.read(path):
            pass
        seconds = time.perf_counter() - began
        yield Figure(
            row="reading", value=seconds, unit="s", aim=None if options.quick else at_most(_AIM_SECONDS), note=size
        )
        before, began = _peak_memory(), time.perf_counter()
        trace_contents.of_run(RunSummary(trace_reading.events(path)), path, [])
        seconds = time.perf_counter() - began
        yield Figure(row="reading and summing up (trace show)", value=seconds, unit="s")
        yield Figure(row="additional memory for that", value=(_peak_memory() - before) / 1e6, unit="MB")
        packed = path.with_name("trace.jsonl.gz")
        with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as file:
            shutil.copyfileobj(plain, file)
        began = time.perf_counter()
        for _ in trace.read(packed):
            pass
        yield Figure(row="reading it compressed (.gz)", value=time.perf_counter() - began, unit="s")


def write(path: Path, events: Iterator[Event]) -> int:
    writer = trace.TraceWriter(path)
    count = 0
    for event in events:
        writer.write(event)
        count += 1
    writer.close()
    return count


def synthetic(devices: int, seconds: float, seed: int = 0) -> Iterator[Event]:
    """A run of FedAsync: jobs of about 8 seconds, sometimes a drop or a suspension."""
    rng = np.random.default_rng(seed)
    yield trace.Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="synthetic",
        strategy="fedasync",
        seed=seed,
        dilation=1.0,
        demand=0.5,
        pressure=None,
        started="2026-01-01",
        host="none",
    )
    names = [f"device-{i}" for i in range(1, devices + 1)]
    for i, name in enumerate(names):
        yield trace.Joined(t=0.0, device=name, pid=1000 + i, cores=[0], samples=100)
    waiting: list[tuple[float, int, int, list[Event]]] = []
    ticket = version = 0
    jobs = dict.fromkeys(names, 0)
    for i in range(devices):
        heapq.heappush(waiting, (float(rng.uniform(0, 8)), ticket, i, []))
    while waiting:
        now, done, i, story = heapq.heappop(waiting)
        name = names[i]
        if done:
            version += 1
            yield from story
            arrived = {"due": now, "received": now - 0.05, "handled": now + 0.001}
            staleness = int(rng.integers(0, devices))
            yield trace.Arrived(
                t=now,
                device=name,
                ticket=done,
                **arrived,
                bytes=_BYTES,
                version=version - 1,
                staleness=staleness,
                loss=0.5,
            )
            yield trace.Aggregated(t=now, version=version, tickets=[done], weights=[0.5], staleness=[staleness])
        if now >= seconds:
            continue
        ticket += 1
        yield trace.Dispatched(t=now, device=name, ticket=ticket, version=version, steps=10)
        story, end = _job(name, ticket, jobs[name], now, rng)
        jobs[name] += 1
        heapq.heappush(waiting, (end, ticket, i, story))
    yield trace.Stopped(t=seconds + 20.0, reason="over", version=version, in_flight=0)


def _job(name: str, ticket: int, job: int, now: float, rng: np.random.Generator) -> tuple[list[Event], float]:
    """The events of one job of a device, and when its update arrives."""
    down, computing, up, hung, lost = (float(x) for x in rng.uniform((0.2, 4.0, 0.3, 0.0, 0.0), (1.2, 8.0, 1.8, 1, 1)))
    story: list[Event] = []
    for attempt in range(2 if lost < 0.05 else 1):
        story.append(
            trace.Downloaded(
                t=now + down,
                device=name,
                ticket=ticket,
                job=job,
                attempt=attempt,
                sent=now,
                asked=down,
                obtained=down * 1.001,
                bytes=_BYTES,
                dropped=lost < 0.05 and attempt == 0,
            )
        )
        now += down
    if hung < 0.05:
        now += 2.0
        story.append(trace.Suspended(t=now, device=name, ticket=ticket, steps=4, asked=2.0, obtained=2.001))
    now += computing
    story.append(
        trace.Trained(
            t=now,
            device=name,
            ticket=ticket,
            steps=10,
            asked=computing,
            obtained=computing * 1.0005,
            checks=10,
            misses=[],
            use=trace.Use(cpu=0.1, waited=0.01, stolen=0.0),
        )
    )
    story.append(
        trace.Uploaded(
            t=now + up,
            device=name,
            ticket=ticket,
            job=job,
            attempt=0,
            sent=now,
            asked=up,
            obtained=up,
            bytes=_BYTES,
            dropped=False,
        )
    )
    return story, now + up


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
