"""Sends garbage to the endpoint of a run, as a stranger under any name; limited in number and time."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import zmq

from testbed.history import trace
from testbed.wire.codec import largest_frame
from testbed.wire.messages import Hello, Update
from tests.chaos.corpus import Frames, frames_of, real_frames
from tests.chaos.mutation import Mutator

_FEW = 20
_FLOOD = 2000
_FLOOD_SECONDS = 0.5
_LINGER_MS = 200
_TAIL_BYTES = 1 << 16


class Garbage:
    """``endpoint``: of the aggregator; ``size``: numbers in its model; ``sent`` counts messages by kind."""

    def __init__(self, endpoint: str, size: int, log: Path, rng: random.Random) -> None:
        self._endpoint, self._size, self._log, self._rng = endpoint, size, log, rng
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.sent: Counter[str] = Counter()

    def close(self) -> None:
        self._context.destroy(linger=0)

    def send(self, kind: str, device: str) -> None:
        """Send messages of a kind, as a stranger or under the name of a device."""
        messages = self._messages(kind, device)
        name = device.encode() if kind in ("forged", "replayed") else self._rng.choice((None, b"stranger"))
        socket = self._context.socket(zmq.DEALER)
        # (reconnecting stays allowed: with RECONNECT_IVL -1, closing blocks forever if the other end is gone)
        socket.setsockopt(zmq.SNDTIMEO, int(1000 * _FLOOD_SECONDS))
        if name is not None:
            socket.setsockopt(zmq.ROUTING_ID, name)
        socket.connect(self._endpoint)
        until = time.monotonic() + _FLOOD_SECONDS
        try:
            for frames in messages:
                if time.monotonic() >= until:
                    break
                socket.send_multipart(frames)
                self.sent[kind] += 1
        except zmq.Again:
            pass  # the aggregator reads no more of it, or has closed the connection
        finally:
            socket.close(_LINGER_MS)

    def _messages(self, kind: str, device: str) -> list[Frames]:
        rng, corpus = self._rng, real_frames(self._size, device)
        if kind == "random":
            return [[rng.randbytes(rng.randrange(200)) for _ in range(rng.randint(1, 3))] for _ in range(_FEW)]
        if kind == "huge":
            limit = largest_frame(self._size)
            return [[bytes(limit - 1)], [*corpus[0], bytes(limit)], [bytes(limit + 1)]]
        if kind == "flood":
            return [rng.choice(corpus)] * _FLOOD
        if kind == "replayed":
            return self._replayed(device) * 3
        mutator = Mutator(rng, corpus, plausible=0.3)
        claimed = [frames_of(Hello(device=device, pid=1, cores=(0,), samples=1))] if kind == "forged" else []
        return claimed + [frames for frames in (mutator.next() for _ in range(_FEW)) if frames]

    def _replayed(self, device: str) -> list[Frames]:
        """An update that the trace says has arrived, once more."""
        with self._log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            lines = [line for line in file.read().splitlines()[1:-1] if line.startswith(b'{"kind":"arrived"')]
        if not lines:
            return []
        seen = msgspec.json.decode(self._rng.choice(lines), type=trace.Arrived)
        update = Update(
            device=device,
            ticket=seen.ticket,
            version=seen.version,
            delta=np.ones(self._size, np.float32),
            samples=1,
            steps=1,
            started=0.0,
            finished=seen.due,
            due=seen.due,
            loss=seen.loss,
        )
        return [frames_of(msgspec.structs.replace(update, device=name)) for name in (device, seen.device)]
