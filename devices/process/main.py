"""The process of one device: connects the state machine to the socket, the clock and the training code."""

from __future__ import annotations

import contextlib
import itertools
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

from devices.cluster.message_ends import SocketClusterLinks, SocketSender
from devices.compute.freeze import freeze
from devices.compute.job_steps import steps_of_job
from devices.compute.kept_memory import JobTickets, KeptMemory
from devices.compute.quota import SignalQuota
from devices.compute.trainer import Computation, Steps, Stepwise
from devices.compute.trial_steps import trial_steps
from devices.compute.worker import Worker
from devices.device_config import GRAIN_SECONDS, DeviceConfig
from devices.process.device_driver import DeviceDriver
from testbed.common.clock import WallClock
from testbed.host.cores import settle, unpin
from testbed.host.kernel import UsageMeter
from testbed.host.quotas.cpu_quota import CpuQuota
from testbed.learning.training.own_training import OwnTrainingError
from testbed.learning.training.task import Task
from testbed.wire.codec import Buffer, decode_or_log, encode, largest_frame
from testbed.wire.messages import (
    STOPPED,
    Hello,
    Refused,
    Stop,
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
        self._links = SocketClusterLinks(Path(config.heads), task.size)
        self._driver = DeviceDriver(
            config,
            len(self._shard),
            worker.begin if worker else self._train,
            worker.usage if worker else UsageMeter(),
            SocketSender(peer),
            self._links,
            lead=_LEAD_SECONDS / config.dilation,
            grain=GRAIN_SECONDS / config.dilation,
            ahead=_AHEAD_SECONDS / config.dilation,
        )

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
                self._driver.device.stop(clock.now())
            except Killed:
                self._wait_for_the_end(clock)
                return
        self._driver.send_last_heartbeat(STOPPED)

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

    def _wait_for_the_end(self, clock: WallClock) -> None:
        """Stay silent, because the device is dead, until the launcher kills this process or the run ends."""
        self._driver.send_heartbeat(clock.now())
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
        driver, device = self._driver, self._driver.device
        while True:
            if self._worker is not None:
                for loss in self._worker.losses():
                    device.progressed(loss, clock.now())
            now = clock.now()
            driver.advance(now)
            if self._quota is not None:  # after ``advance``, which may begin a job
                self._quota.act(clock.host_seconds(now))
            driver.exchange(now)
            if driver.is_killed:
                raise Killed
            self._freeze_if_suspended(clock)
            if device.wants_step(now):
                device.step()
                device.stepped(clock.now())
                frames = self._peer.receive(0)
            else:
                frames = self._wait(clock, driver.due())
            while frames is not None:
                self._handle(frames, clock.now())
                frames = self._peer.receive(0)

    def _freeze_if_suspended(self, clock: WallClock) -> None:
        until = self._driver.freeze_until()
        if until is not None:
            freeze(clock.host_seconds(until - clock.now()))

    def _wait(self, clock: WallClock, until: float) -> list[Buffer] | None:
        """Wait for a message, a step of the worker or the moment ``until``. Return the message, if there is one."""
        left = clock.host_seconds(until - clock.now())
        if self._quota is not None:
            left = min(left, self._quota.due - clock.host_seconds(clock.now()))
        if self._driver.cluster.active:
            beside = self._worker.fileno() if self._worker is not None else None
            if beside is None and left <= _FINE_SECONDS:
                clock.sleep_until(until)
                return self._peer.receive(0)
            wait_for_any(left - _FINE_SECONDS / 2, [self._peer, *self._links.sockets], beside)
            return self._peer.receive(0)
        if self._worker is not None:
            return self._peer.receive(max(0.0, left), self._worker.fileno())
        if left > _FINE_SECONDS:
            return self._peer.receive(left - _FINE_SECONDS / 2)
        clock.sleep_until(until)
        return self._peer.receive(0)

    def _handle(self, frames: list[Buffer], now: float) -> None:
        message = decode_or_log(frames, self._task.size)
        if isinstance(message, Stop):
            raise StopRun
        self._driver.handle(message, now)

    def _train(self, job: Job, base: Vector, number: int, tickets: JobTickets) -> Computation:
        return Stepwise(self._training.begin(job, base, number, tickets))
