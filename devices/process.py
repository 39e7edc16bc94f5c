"""The process of one device: connects the state machine to the socket, the clock and the training code."""

from __future__ import annotations

import math
import os

import msgspec
import numpy as np

from devices.device import Device, Steps
from devices.training import local_sgd
from testbed.clock import WallClock
from testbed.cores import Priority, settle
from testbed.faults import SeededTimetable
from testbed.messages import STOPPED, Beat, Hello, Job, Refused, Stop, Train, Update, Vector, Welcome
from testbed.roles import DeviceConfig
from testbed.sockets import Peer, Unreachable, closing_peer
from testbed.tasks.task import Task
from testbed.wire import Buffer, decode, encode, largest_frame

_CONNECT_SECONDS = 60.0
_FINE_SECONDS = 0.002
"""ZeroMQ waits in whole milliseconds. The last two of a wait are slept, to an absolute moment."""


class StopRun(Exception):
    """The aggregator ended the run."""


def main(config: DeviceConfig, task: Task) -> None:
    """Live until the run is over."""
    cores = settle(config.core, Priority.DEVICE)
    with closing_peer(config.endpoint, config.spec.name, max_bytes=largest_frame(task.size)) as peer:
        DeviceProcess(config, task, peer, cores).run()


class DeviceProcess:
    def __init__(self, config: DeviceConfig, task: Task, peer: Peer, cores: tuple[int, ...]) -> None:
        self._config, self._task, self._peer, self._cores = config, task, peer, cores
        self._shard = task.shards[config.spec.index]
        self._device = Device(config.spec, _timetable(config), len(self._shard), self._train)
        self._untold: tuple[dict[str, object], ...] = ()
        """Events that no message has carried yet; they outlast a message that the transport could not take."""

    def run(self) -> None:
        spec = self._config.spec
        hello = Hello(device=spec.name, pid=os.getpid(), cores=self._cores, samples=len(self._shard))
        self._peer.send(encode(hello), timeout=_CONNECT_SECONDS)
        clock = self._wait_for_start()
        if clock is not None:
            try:
                self._live(clock)
            except StopRun:
                self._device.stop(clock.now())
        # the last heartbeat carries the events that had not been told yet
        self._tell(msgspec.structs.replace(self._device.beat(), state=STOPPED), timeout=1.0)

    def _wait_for_start(self) -> WallClock | None:
        """The clock of the run, or None if it is over before it began."""
        while True:
            frames = self._peer.receive(timeout=_CONNECT_SECONDS)
            message = decode(frames, self._task.size) if frames is not None else None
            if isinstance(message, Welcome):
                return WallClock(message.origin)
            if isinstance(message, Stop):
                return None
            if isinstance(message, Refused):
                raise RuntimeError(f"the aggregator refused {self._config.spec.name}: {message.reason}")

    def _live(self, clock: WallClock) -> None:
        device, next_beat = self._device, 0.0
        while True:
            now = clock.now()
            device.advance(now)
            # no beat may overtake an update that waits: it would tell of a job that was given up
            delivered = self._deliver()
            if now >= next_beat or not delivered:
                next_beat = now + self._config.beat
                if delivered:
                    self._tell_beat()
            if device.wants_step(now):
                device.step()
                device.stepped(clock.now())
                frames = self._peer.receive(0)
            else:
                frames = self._wait(clock, min(device.due(), next_beat))
            while frames is not None:
                self._take(frames, clock.now())
                frames = self._peer.receive(0)

    def _wait(self, clock: WallClock, until: float) -> list[Buffer] | None:
        left = clock.host_seconds(until - clock.now()) if math.isfinite(until) else 1.0
        if left > _FINE_SECONDS:
            return self._peer.receive(left - _FINE_SECONDS / 2)
        clock.sleep_until(until)
        return self._peer.receive(0)

    def _take(self, frames: list[Buffer], now: float) -> None:
        message = decode(frames, self._task.size)
        if isinstance(message, Train):
            self._device.receive(message, now)
        elif isinstance(message, Stop):
            raise StopRun

    def _deliver(self) -> bool:
        """Send what the emulated uplink has let through. What the transport cannot take is tried again."""
        outbox = self._device.outbox
        try:
            while outbox:
                self._tell(msgspec.structs.replace(outbox[0], events=self._device.take_events()))
                del outbox[0]
        except Unreachable:
            return False
        return True

    def _tell_beat(self) -> None:
        try:
            self._tell(self._device.beat())
        except Unreachable:
            return  # the aggregator is flooded, or gone; the launcher ends us in the second case

    def _tell(self, message: Update | Beat, timeout: float = 0.0) -> None:
        self._untold += message.events
        self._peer.send(encode(msgspec.structs.replace(message, events=self._untold)), timeout)
        self._untold = ()

    def _train(self, job: Job, base: Vector, number: int) -> Steps:
        # seeded by the number of the job, so that a replayed job meets the same batches
        rng = np.random.default_rng([self._config.seed, 2, self._config.spec.index, number])
        return local_sgd(self._task, self._shard, job, base, rng)


def _timetable(config: DeviceConfig) -> SeededTimetable:
    spec = config.spec
    return SeededTimetable(
        seed=config.seed,
        device=spec.index,
        download_drop=spec.down.drop,
        upload_drop=spec.up.drop,
        noisy_download=spec.down.jitter > 0 or spec.down.spread > 0,
        noisy_upload=spec.up.jitter > 0 or spec.up.spread > 0,
        suspend=spec.suspend,
        suspend_max=spec.suspend_max,
    )
