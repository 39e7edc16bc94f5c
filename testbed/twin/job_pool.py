"""Processes that compute the jobs in flight of a run on a virtual clock.

Theory of operation
    A job goes to the process of its device as soon as it begins there, and the loop waits for its result when it ends.
    So a result does not depend on the number of processes: each computes its jobs in the order in which they began, as
    one process would, and what a device keeps of its last job stays in the process that computed it.
    Models and deltas pass through shared memory: a process has some slots, each for one job at a time. Pipes carry a
    line about each job, so that no side ever waits for a full pipe. Jobs beyond the slots wait here, with their models.
    The processes are forked before the run begins, and inherit the task. They compute with one thread, as devices do.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import NamedTuple

import msgspec
import numpy as np

from devices.compute.job_computer import JobComputer
from devices.compute.kept_memory import JobTickets
from testbed.common.errors import RunFailed
from testbed.common.finders.user_code import in_one_line
from testbed.common.signals import STOP_SIGNALS
from testbed.host.cores import die_with_parent
from testbed.twin.job_results import Result
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

_SLOTS = 4
"""Jobs that a process has at once: it begins the next one without waiting for the loop."""


class _Order(msgspec.Struct, frozen=True, array_like=True):
    """A job for a process, whose model is in ``slot``; without a job: a new process of the device has begun."""

    device: str
    slot: int = 0
    number: int = 0
    ticket: int = 0
    arrived: int = 0
    job: Job | None = None


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    """The delta of the job in ``slot`` is in the shared memory; or the job failed."""

    slot: int
    losses: float | None
    problem: str = ""


class _Waiting(NamedTuple):
    """An order that is not sent yet. ``key`` names its result."""

    key: int
    order: _Order
    base: Vector | None


class JobPool:
    """``processes`` processes with a copy of ``computer`` each, within the ``with`` block. ``size``: of a model."""

    def __init__(self, processes: int, computer: JobComputer, size: int) -> None:
        self._computer, self._size, self._count = computer, size, processes
        self._processes: list[_Process] = []
        self._place: dict[str, int] = {}
        """Device → its process."""
        self._jobs = 0

    def __enter__(self) -> JobPool:
        for _ in range(self._count):
            inherited = [process.pipe for process in self._processes]
            self._processes.append(_Process(self._computer, self._size, inherited))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            process.end()

    def begin(self, device: str, job: Job, base: Vector, number: int, tickets: JobTickets) -> Result:
        process, self._jobs = self._of(device), self._jobs + 1
        order = _Order(device=device, number=number, ticket=tickets.ticket, arrived=tickets.arrived, job=job)
        process.add(_Waiting(self._jobs, order, base))
        return functools.partial(self._result, process, self._jobs)

    def restart(self, device: str) -> None:
        self._of(device).add(_Waiting(0, _Order(device=device), None))

    def _of(self, device: str) -> _Process:
        return self._processes[self._place.setdefault(device, len(self._place) % self._count)]

    def _result(self, process: _Process, key: int) -> tuple[Vector, float]:
        """Return the result of a job, with the processes busy while it is awaited. Raises RunFailed."""
        while key not in process.results:
            for ready in wait([each.pipe for each in self._processes if each.is_busy]):
                next(each for each in self._processes if each.pipe is ready).read()
        return process.results.pop(key)


class _Process:
    """One process, as the loop sees it."""

    def __init__(self, computer: JobComputer, size: int, inherited: Iterable[Connection]) -> None:
        self._memory = np.frombuffer(mmap.mmap(-1, max(1, _SLOTS * size) * 4), np.float32, _SLOTS * size)
        self._slots = self._memory.reshape(_SLOTS, size)
        """The model of each job; then, its delta."""
        self.pipe, theirs = Pipe()
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._free, self._under_way = list(range(_SLOTS)), dict[int, int]()
        """Slot → the key of its result."""
        self.results: dict[int, tuple[Vector, float]] = {}
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _be_forked(parent, [self.pipe, *inherited], theirs, computer, self._slots)
        theirs.close()

    @property
    def is_busy(self) -> bool:
        return bool(self._under_way)

    def add(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        while self.pipe.poll():
            self.read()
        self._send()

    def _send(self) -> None:
        while self._waiting and (self._free or self._waiting[0].base is None):
            key, order, base = self._waiting.popleft()
            if base is not None:
                slot = self._free.pop()
                self._slots[slot], self._under_way[slot] = base, key
                order = msgspec.structs.replace(order, slot=slot)
            self.pipe.send_bytes(msgspec.msgpack.encode(order))

    def read(self) -> None:
        """Read the result of a job, and send the next one. Raises RunFailed if the job or the process failed."""
        try:
            answer = msgspec.msgpack.decode(self.pipe.recv_bytes(), type=_Answer)
        except EOFError:
            raise RunFailed("a process that computes jobs has died; free memory, or use fewer --jobs") from None
        if answer.problem:
            raise RunFailed(answer.problem)
        delta = self._slots[answer.slot].copy()
        losses = float("nan") if answer.losses is None else answer.losses
        self.results[self._under_way.pop(answer.slot)] = delta, losses
        self._free.append(answer.slot)
        self._send()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self.pipe.close()


def _be_forked(
    parent: int, others: Iterable[Connection], pipe: Connection, computer: JobComputer, slots: Vector
) -> None:
    """Compute jobs until the loop ends this process."""
    code = 1
    try:
        die_with_parent(parent)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # the loop ends this process
        for other in others:
            other.close()
        _serve(pipe, computer, slots)
        code = 0
    except Exception as error:  # noqa: BLE001  the loop reports it
        traceback.print_exc()
        sys.stderr.flush()
        pipe.send_bytes(msgspec.msgpack.encode(_Answer(0, None, in_one_line(error))))
    finally:
        os._exit(code)


def _serve(pipe: Connection, computer: JobComputer, slots: Vector) -> None:
    while True:
        try:
            order = msgspec.msgpack.decode(pipe.recv_bytes(), type=_Order)
        except EOFError:
            return
        if order.job is None:
            computer.restart(order.device)
            continue
        base = slots[order.slot].copy()
        tickets = JobTickets(order.ticket, order.arrived)
        delta, losses = computer.compute_sum(order.device, order.number, base, order.job, tickets)
        slots[order.slot] = delta
        pipe.send_bytes(msgspec.msgpack.encode(_Answer(order.slot, losses)))
