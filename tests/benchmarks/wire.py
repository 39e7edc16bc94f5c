"""The wire: the header of an update with its usual three events, encoded and decoded.

The vector is of one number: its bytes are not copied, and so cost nothing here. Takes 5 s.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Iterator

import numpy as np

from testbed.history import trace
from testbed.wire.codec import decode, encode
from testbed.wire.messages import Update
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most, median

_AIM_MICROSECONDS = 6.0
_CALLS = 20_000
TURNS = 15
_SIZE = 1


def measure(options: Options) -> Iterator[Figure]:
    update = typical_update()
    frames = [memoryview(frame) for frame in encode(update)]  # as a socket returns them
    encoding, decoding = (
        _microseconds(lambda: encode(update), options),
        _microseconds(lambda: decode(frames, _SIZE), options),
    )
    yield median("encoding", "CPU time", encoding, unit="µs", note=f"{len(frames[0])} bytes")
    yield median("decoding", "CPU time", decoding, unit="µs")
    both = [sum(pair) for pair in zip(encoding, decoding, strict=True)]
    yield median("both", "CPU time", both, unit="µs", aim=at_most(_AIM_MICROSECONDS))


def typical_update() -> Update:
    """An update of a paced device without drops: it downloaded, trained and uploaded once."""
    device, ticket = "rpi4-17", 1234
    downloaded = trace.Downloaded(
        t=101.25,
        device=device,
        ticket=ticket,
        job=31,
        attempt=0,
        sent=100.5,
        asked=0.73125,
        obtained=0.7375,
        bytes=87360,
        dropped=False,
    )
    trained = trace.Trained(
        t=104.5,
        device=device,
        ticket=ticket,
        steps=10,
        asked=3.2,
        obtained=3.21,
        checks=10,
        misses=[],
        use=trace.Use(cpu=0.91, waited=0.012, stolen=0.0),
    )
    uploaded = trace.Uploaded(
        t=105.75,
        device=device,
        ticket=ticket,
        job=31,
        attempt=0,
        sent=104.5,
        asked=1.2,
        obtained=1.25,
        bytes=87360,
        dropped=False,
    )
    return Update(
        device=device,
        ticket=ticket,
        version=57,
        delta=np.ones(_SIZE, np.float32),
        samples=600,
        steps=10,
        started=101.25,
        finished=104.5,
        due=105.75,
        loss=1.2345,
        trains=32,
        events=(downloaded, trained, uploaded),
    )


def _microseconds(call: Callable[[], object], options: Options) -> list[float]:
    """The mean CPU time of a call in each repetition. Other load on the host affects it less than the time of day."""
    seconds = timeit.repeat(call, timer=time.process_time, number=_CALLS, repeat=options.repeats(TURNS))
    return [1e6 * each / _CALLS for each in seconds]
