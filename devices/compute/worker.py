"""Local training in a process of its own, for the throttles that act on a process from outside.

A quota or a SIGSTOP stops whatever a process does; heartbeats and links must go on. So the device keeps those to itself
and has a child that only computes. Vectors pass through memory that both share, everything else through a pipe in which
no message is longer than a few hundred bytes: the device never waits for a child that is not allowed to run.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe

import msgspec
import numpy as np

from devices.compute.trainer import Steps, Stepwise
from testbed.host.cores import die_with_parent
from testbed.host.kernel import UsageMeter
from testbed.wire.messages import Job, Vector

Begin = Callable[[Job, Vector, int], Steps]
"""Begins local training in the child."""


class _Request(msgspec.Struct, frozen=True, array_like=True):
    """What the child should do from now on: this job, or nothing."""

    number: int
    job: Job | None


class _Done(msgspec.Struct, frozen=True, array_like=True):
    """The child has done a step of request ``number``. After the last one, the delta is in the shared memory."""

    number: int
    loss: float | None


class Worker:
    """The device's end. Make it before the device has any thread: it forks."""

    def __init__(self, begin: Begin, samples: int, size: int) -> None:
        model, delta = (np.frombuffer(mmap.mmap(-1, max(1, size) * 4), np.float32, size) for _ in range(2))
        self._model, self._delta = model, delta
        self._pipe, theirs = Pipe()
        device = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._pipe.close()
            code = 1
            try:
                die_with_parent(device)
                _serve(theirs, begin, samples, model, delta)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self.usage = UsageMeter(self.pid)
        self._number = 0
        self._paused = self._held_back = self._stopped = False

    # ---- the computing of one job, for the state machine

    def begin(self, job: Job, base: Vector, number: int) -> Worker:
        np.copyto(self._model, base)
        self._number = number + 1
        self._pipe.send_bytes(msgspec.msgpack.encode(_Request(self._number, job)))
        return self

    def step(self) -> float:
        raise AssertionError("the worker steps by itself")

    def result(self) -> Vector:
        self._number = 0
        return self._delta.copy()

    def pause(self) -> None:
        self._paused = True
        self._obey()

    def resume(self) -> None:
        self._paused = False
        self._obey()

    def close(self) -> None:
        """Forget the job; the child notices after the step in hand."""
        self._number = 0
        self._pipe.send_bytes(msgspec.msgpack.encode(_Request(0, None)))

    # ---- for the device's process

    def losses(self) -> Iterator[float]:
        """Of the steps of the job in hand that have ended since the last call."""
        while self._pipe.poll():
            step = msgspec.msgpack.decode(self._pipe.recv_bytes(), type=_Done)
            if step.number == self._number:
                yield math.nan if step.loss is None else step.loss

    @property
    def is_computing(self) -> bool:
        return self._number != 0 and not self._paused

    def hold_back(self, held: bool) -> None:
        """Throttling by signal: not allowed to run for the moment."""
        self._held_back = held
        self._obey()

    def fileno(self) -> int:
        return self._pipe.fileno()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._pipe.close()
        self.usage.close()

    def _obey(self) -> None:
        stopped = self._paused or self._held_back
        if stopped != self._stopped:
            self._stopped = stopped
            os.kill(self.pid, signal.SIGSTOP if stopped else signal.SIGCONT)


def _serve(pipe: Connection, begin: Begin, samples: int, model: Vector, delta: Vector) -> None:
    """The child: compute what was asked last, until the device is gone."""
    number, left, steps = 0, 0, None
    while True:
        while steps is None or pipe.poll():
            try:
                request = msgspec.msgpack.decode(pipe.recv_bytes(), type=_Request)
            except EOFError:
                return
            number, steps = request.number, None
            if request.job is not None:
                left = request.job.steps_over(samples)
                steps = Stepwise(begin(request.job, model.copy(), number - 1))
        loss = steps.step()
        left -= 1
        if left == 0:
            delta[:] = steps.result()  # before the word that it is there
            steps = None
        pipe.send_bytes(msgspec.msgpack.encode(_Done(number, loss if math.isfinite(loss) else None)))
