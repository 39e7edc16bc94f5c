"""Local training in a worker process, for throttles that act on a process from outside.

A quota or a SIGSTOP stops everything in a process, but heartbeats and links must continue. So the device process keeps
those, and a child process only computes. Vectors pass through shared memory, everything else through a pipe in which no
message is longer than a few hundred bytes: the device never waits for a child that is not allowed to run.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe

import msgspec
import numpy as np

from devices.compute.kept_memory import JobTickets
from devices.compute.trainer import Steps, Stepwise
from testbed.common.errors import RunFailed
from testbed.common.finders.user_code import in_one_line
from testbed.host.cores import die_with_parent
from testbed.host.kernel import UsageMeter
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

_LONGEST_PROBLEM = 200
Begin = Callable[[Job, Vector, int, JobTickets], Steps]
"""Begins local training in the child."""


class _Request(msgspec.Struct, frozen=True, array_like=True):
    """The job for the child; None: no job."""

    number: int
    job: Job | None
    ticket: int = 0
    arrived: int = 0


class _Done(msgspec.Struct, frozen=True, array_like=True):
    """The child has computed a step of request ``number``. After the last one, the delta is in the shared memory."""

    number: int
    loss: float | None
    problem: str = ""
    """Why the step failed: an exception in a task of the user's own, for instance. The child has ended then."""


class Worker:
    """The device's end. It forks: make it before the process of the device starts any thread."""

    late_losses = 0.0

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
            except Exception as error:  # noqa: BLE001  the device reports it
                traceback.print_exc()
                sys.stderr.flush()
                theirs.send_bytes(msgspec.msgpack.encode(_Done(0, None, in_one_line(error)[:_LONGEST_PROBLEM])))
            finally:
                os._exit(code)
        theirs.close()
        self.usage = UsageMeter(self.pid)
        self._number = 0
        self._paused = self._throttled = self._stopped = False

    # ---- the computation of one job, for the state machine

    def begin(self, job: Job, base: Vector, number: int, tickets: JobTickets) -> Worker:
        np.copyto(self._model, base)
        self._number = number + 1
        self._pipe.send_bytes(msgspec.msgpack.encode(_Request(self._number, job, *tickets)))
        return self

    def step(self) -> float:
        raise AssertionError("the worker computes its steps by itself")

    def result(self) -> Vector:
        self._number = 0
        return self._delta.copy()

    def pause(self) -> None:
        self._paused = True
        self._stop_or_continue()

    def resume(self) -> None:
        self._paused = False
        self._stop_or_continue()

    def close(self) -> None:
        """Abandon the job; the child notices after its present step."""
        self._number = 0
        self._pipe.send_bytes(msgspec.msgpack.encode(_Request(0, None)))

    # ---- for the process of the device

    def losses(self) -> Iterator[float]:
        """Yield the losses of the steps of the present job that have ended since the last call.

        Raises RunFailed if a step failed.
        """
        while self._pipe.poll():
            step = msgspec.msgpack.decode(self._pipe.recv_bytes(), type=_Done)
            if step.problem:
                raise RunFailed(step.problem)
            if step.number == self._number:
                yield math.nan if step.loss is None else step.loss

    @property
    def is_computing(self) -> bool:
        return self._number != 0 and not self._paused

    def throttle(self, throttled: bool) -> None:
        """Stop the child for a quota, or let it continue."""
        self._throttled = throttled
        self._stop_or_continue()

    def fileno(self) -> int:
        return self._pipe.fileno()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._pipe.close()
        self.usage.close()

    def _stop_or_continue(self) -> None:
        stopped = self._paused or self._throttled
        if stopped != self._stopped:
            self._stopped = stopped
            os.kill(self.pid, signal.SIGSTOP if stopped else signal.SIGCONT)


def _serve(pipe: Connection, begin: Begin, samples: int, model: Vector, delta: Vector) -> None:
    """Compute the job that was requested last, until the process of the device ends. Runs in the child."""
    number, left, steps = 0, 0, None
    while True:
        while steps is None or pipe.poll():
            try:
                request = msgspec.msgpack.decode(pipe.recv_bytes(), type=_Request)
            except EOFError:
                return
            number, steps = request.number, None
            if request.job is not None:
                left, tickets = request.job.steps_over(samples), JobTickets(request.ticket, request.arrived)
                steps = Stepwise(begin(request.job, model.copy(), number - 1, tickets))
        loss = steps.step()
        left -= 1
        if left == 0:
            delta[:] = steps.result()  # before the message about its last step
            steps = None
        pipe.send_bytes(msgspec.msgpack.encode(_Done(number, loss if math.isfinite(loss) else None)))
