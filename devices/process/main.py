"""The process of one device: connects the state machine to the socket, the clock and the training code."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

from devices.cluster.membership import Membership
from devices.compute.freeze import freeze
from devices.compute.job_steps import steps_of_job
from devices.compute.kept_memory import JobTickets, KeptMemory
from devices.compute.quota import SignalQuota
from devices.compute.trainer import Computation, Steps, Stepwise
from devices.compute.trial_steps import trial_steps
from devices.compute.worker import Worker
from devices.device import Device
from devices.device_config import GRAIN_SECONDS, DeviceConfig
from devices.process.outbox import Outbox
from devices.work import State
from testbed.common.clock import WallClock
from testbed.emulation.faults import RecordedTimetable, Timetable, timetable
from testbed.emulation.recorded import read_jobs
from testbed.host.cores import settle, unpin
from testbed.host.kernel import UsageMeter
from testbed.host.quotas.cpu_quota import CpuQuota
from testbed.learning.training.own_training import OwnTrainingError
from testbed.learning.training.task import Task
from testbed.wire.codec import Buffer, decode_or_log, encode, largest_frame
from testbed.wire.messages import (
    STOPPED,
    Base,
    Grant,
    Hello,
    JoinCluster,
    Refused,
    SendGradient,
    Stop,
    Train,
    TrainsSent,
    Vector,
    Welcome,
)
from testbed.wire.sockets import Peer, closing_peer, wait_for_any
from testbed.wire.training_job import Job

_CONNECT_SECONDS = 60.0
_FINE_SECONDS = 0.002
"""ZeroMQ waits in whole milliseconds. The process sleeps through the last two, until an absolute moment."""
_LEAD_SECONDS = 0.05
"""An update is sent so many host seconds before it is due: more than the transport and a busy core need."""
_AHEAD_SECONDS = 0.1
"""A step may be computed so many host seconds early: more than one time slice on a crowded core."""
_WARM_UP_SAMPLES = 512
"""The largest step of a warm-up. A larger one goes through the network in pieces, which use the same pages."""
_GOLDEN = 0.6180339887
"""Its multiples, modulo 1, are spread evenly, so that the heartbeats of a fleet do not all come at once."""
_MOST_REPLACED = 4
"""Heartbeats in a row that updates may replace: the status of a run is from heartbeats, and should not become old."""


class StopRun(Exception):
    """The aggregator ended the run."""


class Killed(Exception):
    """The script killed the device."""


def main(config: DeviceConfig, task: Task) -> None:
    """Run one device until the run is over."""
    cores, limit = settle(config.cores, config.priority), largest_frame(task.size)
    with (
        _worker_process(config, task) as worker,  # forks: before the socket starts threads
        closing_peer(config.endpoint, config.spec.name, max_bytes=limit, credential=config.credential) as peer,
    ):
        DeviceProcess(config, task, peer, cores, worker).run()


@contextlib.contextmanager
def _worker_process(config: DeviceConfig, task: Task) -> Iterator[Worker | None]:
    """Yield the worker process, if a throttle acts on the computing from outside; else None."""
    if config.quota is None:
        yield None
        return
    samples = len(task.shards[config.spec.index])
    worker = Worker(_Training(config, task).begin, samples, task.size)
    try:
        if isinstance(config.quota, CpuQuota):
            config.quota.add(worker.pid)
        yield worker
    finally:
        worker.end()


def _timetable(config: DeviceConfig) -> Timetable:
    seeded = timetable(config.spec, config.seed)
    if config.recording is None:
        return seeded
    return RecordedTimetable(jobs=read_jobs(Path(config.recording)), end=config.recording_end, otherwise=seeded)


class _Training:
    """The training of one device, with what it keeps from job to job."""

    def __init__(self, config: DeviceConfig, task: Task) -> None:
        self._config, self._task, self._kept = config, task, KeptMemory()

    def begin(self, job: Job, base: Vector, number: int, tickets: JobTickets) -> Steps:
        config = self._config
        return steps_of_job(self._task, config.seed, config.spec.index, job, base, number, tickets, self._kept)


class DeviceProcess:
    """Connects one device to its socket, its clock and its training."""

    def __init__(
        self, config: DeviceConfig, task: Task, peer: Peer, cores: tuple[int, ...], worker: Worker | None = None
    ) -> None:
        spec = config.spec
        self._config, self._task, self._peer, self._cores, self._worker = config, task, peer, cores, worker
        self._shard, self._training = task.shards[spec.index], _Training(config, task)
        self._quota = SignalQuota(worker, config.quota) if worker and isinstance(config.quota, float) else None
        self._device = Device(
            spec,
            _timetable(config),
            len(self._shard),
            worker.begin if worker else self._train,
            worker.usage if worker else UsageMeter(),
            lead=_LEAD_SECONDS / config.dilation,
            grain=GRAIN_SECONDS / config.dilation,
            ahead=_AHEAD_SECONDS / config.dilation,
            begins=config.rejoining.at if config.rejoining is not None else config.begins,
            replays=config.recording is not None,
        )
        self._cluster = Membership(config, task.size, self._device, _LEAD_SECONDS / config.dilation)
        self._outbox = Outbox(peer, self._device, self._cluster)
        lossless = not (spec.up.drop or spec.down.drop or spec.script or config.recording)
        self._replaces_heartbeats = spec.throttle == "none" and lossless
        self._replaced = 0
        """Heartbeats in a row that an update has replaced."""
        self._next_heartbeat = (spec.index * _GOLDEN % 1.0) * config.heartbeat_seconds
        self._frozen_until = -math.inf

    def run(self) -> None:
        """Run from the warm-up to the last heartbeat."""
        spec = self._config.spec
        if spec.throttle == "pace":
            self._warm_up()
        clock = self._join() if self._wait_to_rejoin() else None
        if clock is not None:
            try:
                self._loop(clock)
            except StopRun:
                unpin()
                self._device.stop(clock.now())
            except Killed:
                self._wait_for_the_end()
                return
        self._outbox.send_last_heartbeat(STOPPED)

    def _warm_up(self) -> None:
        """Compute some steps: the first ones after a fork cause page faults, and would miss their deadlines."""
        job, index = self._config.job, self._config.spec.index
        samples = min(job.samples_per_step(len(self._shard)), _WARM_UP_SAMPLES)
        try:
            for _ in itertools.islice(trial_steps(self._task, job, samples, index), self._task.warm_up_steps):
                pass
        except OwnTrainingError:  # the first job will end the device, after the run has begun
            traceback.print_exc()

    def _wait_to_rejoin(self) -> bool:
        """Wait for the moment of a rejoin, if there is one. Return False if the run ends before."""
        rejoining = self._config.rejoining
        if rejoining is None:
            return True
        clock = WallClock(rejoining.origin, self._config.dilation)
        while (left := clock.host_seconds(rejoining.at - clock.now())) > _FINE_SECONDS:
            if isinstance(decode_or_log(self._peer.receive(left - _FINE_SECONDS / 2), self._task.size), Stop):
                return False  # a Train in the meantime was for the killed process: it is ignored
        clock.sleep_until(rejoining.at)
        return True

    def _wait_for_the_end(self) -> None:
        """Stay silent, because the device is dead, until the launcher kills this process or the run ends."""
        self._outbox.send_heartbeat()
        while True:
            if isinstance(decode_or_log(self._peer.receive(_CONNECT_SECONDS), self._task.size), Stop):
                return

    def _join(self) -> WallClock | None:
        """Send Hello. Return the clock of the run, or None if the run is over before it begins."""
        name = self._config.spec.name
        hello = Hello(device=name, pid=os.getpid(), cores=self._cores, samples=len(self._shard))
        self._peer.send(encode(hello), timeout=_CONNECT_SECONDS)
        while True:
            message = decode_or_log(self._peer.receive(timeout=_CONNECT_SECONDS), self._task.size)
            if isinstance(message, Welcome):
                return WallClock(message.origin, self._config.dilation)
            if isinstance(message, Stop):
                return None
            if isinstance(message, Refused):
                raise RuntimeError(f"the aggregator refused {name}: {message.reason}")

    def _loop(self, clock: WallClock) -> None:
        device = self._device
        while True:
            if self._worker is not None:
                for loss in self._worker.losses():
                    device.progressed(loss, clock.now())
            now = clock.now()
            device.advance(now)
            if self._cluster.active:
                self._cluster.advance(now)
            if self._quota is not None:  # after ``advance``, which may begin a job
                self._quota.act(clock.host_seconds(now))
            # no heartbeat may overtake an update that waits: it would look as if the job had been given up
            delivered = self._outbox.deliver(now)
            if device.state is State.KILLED:
                raise Killed
            if now >= self._next_heartbeat or not delivered:
                if delivered and not self._is_replaced(now):
                    self._outbox.send_heartbeat()
                    self._replaced = 0
                self._cluster.send_heartbeat_to_head()
                interval = self._config.heartbeat_seconds
                self._next_heartbeat += interval * max(1, math.ceil((now - self._next_heartbeat) / interval))
            self._freeze_if_suspended(clock)
            if device.wants_step(now):
                device.step()
                device.stepped(clock.now())
                frames = self._peer.receive(0)
            else:
                due = min(device.due(), self._next_heartbeat)
                frames = self._wait(clock, min(due, self._cluster.due()) if self._cluster.active else due)
            while frames is not None:
                self._handle(frames, clock.now())
                frames = self._peer.receive(0)

    def _is_replaced(self, now: float) -> bool:
        """Return whether an update takes the place of the heartbeat that is due, and count it.

        Only of a device that is not throttled and loses nothing (ADR 3). An update is a sign of life, too. A heartbeat
        right behind it crosses the next Train and shows nothing; one before the only step of a job shows that the Train
        has arrived, and no progress that a strategy might use.
        """
        if not self._replaces_heartbeats or self._cluster.active or self._replaced == _MOST_REPLACED:
            return False
        since = now - self._outbox.last_update
        soon = since < self._config.heartbeat_seconds and self._device.is_at_an_only_step(now)
        if since > 0 and not soon:
            return False
        self._replaced += 1
        return True

    def _freeze_if_suspended(self, clock: WallClock) -> None:
        """Stop this process, once for each suspension: a SIGCONT that ends it early has a reason.

        The process of a head continues in time for a result that was under way when it was stopped.
        """
        until = self._device.frozen_until
        if until is not None and (until := min(until, self._cluster.due())) != self._frozen_until:
            self._frozen_until = until
            freeze(clock.host_seconds(until - clock.now()))

    def _wait(self, clock: WallClock, until: float) -> list[Buffer] | None:
        """Wait for a message, a step of the worker or the moment ``until``. Return the message, if there is one."""
        left = clock.host_seconds(until - clock.now())
        if self._quota is not None:
            left = min(left, self._quota.due - clock.host_seconds(clock.now()))
        if self._cluster.active:
            beside = self._worker.fileno() if self._worker is not None else None
            if beside is None and left <= _FINE_SECONDS:
                clock.sleep_until(until)
                return self._peer.receive(0)
            wait_for_any(left - _FINE_SECONDS / 2, [self._peer, *self._cluster.ends], beside)
            return self._peer.receive(0)
        if self._worker is not None:
            return self._peer.receive(max(0.0, left), self._worker.fileno())
        if left > _FINE_SECONDS:
            return self._peer.receive(left - _FINE_SECONDS / 2)
        clock.sleep_until(until)
        return self._peer.receive(0)

    def _handle(self, frames: list[Buffer], now: float) -> None:
        message = decode_or_log(frames, self._task.size)
        if isinstance(message, Train):
            self._outbox.trains += 1
            if message.for_cluster:
                self._cluster.receive_model(message, now)
            else:
                self._cluster.leave()
                self._device.receive(message, now)
        elif isinstance(message, SendGradient):
            self._outbox.trains += 1
            self._cluster.receive_signal(message, now)
        elif isinstance(message, TrainsSent):
            self._outbox.trains = max(self._outbox.trains, message.trains)
        elif isinstance(message, Base):
            self._device.receive_base(message)
        elif isinstance(message, Grant):
            self._device.receive_grant(message)
        elif isinstance(message, JoinCluster):
            self._cluster.enter(message, now)
        elif isinstance(message, Stop):
            raise StopRun

    def _train(self, job: Job, base: Vector, number: int, tickets: JobTickets) -> Computation:
        return Stepwise(self._training.begin(job, base, number, tickets))
