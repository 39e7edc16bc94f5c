"""Local training of the user's own: what it may do is checked while it runs, and errors name its file and line.

Theory of operation
    A function is either a generator that yields the loss of each step, so that steps are paced and suspended one by
    one, or it computes the whole job and returns the mean loss: then the job has one deadline, at its end
    (``Job.whole``). A generator may be computed as a whole, too.

    A job must give the same result whenever it is computed: after a restart, in a replay, in ``verify``. So the
    generators of torch, numpy and ``random`` are seeded for each job, and a job that seeds torch itself is refused: all
    jobs of all devices would draw the same numbers, or different ones each time.

    A device is one process with one thread on one core. Threads and processes are refused at the line that starts
    them: processes by an audit hook, threads by their class, because Python 3.11 has no audit event for them.
"""

from __future__ import annotations

import inspect
import math
import random
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch

from testbed.common.errors import RunFailed
from testbed.common.finders.user_code import shown_path
from testbed.learning.training.local_job import LocalJob
from testbed.learning.training.task import Memory

OwnTraining: TypeAlias = Callable[[LocalJob], Any]
"""Returns an iterator over the losses of the steps, or the mean loss of the whole job (None: it is not known)."""

_REFUSED = {
    "os.fork": "forks",
    "os.forkpty": "forks",
    "os.posix_spawn": "starts a process",
    "os.system": "starts a process",
    "subprocess.Popen": "starts a process",
}
_ALONE = "a device is one process with one thread: use num_workers=0 in a DataLoader, and no pools"
_AGAIN_SECONDS = 1.0
_END = object()


class OwnTrainingError(RunFailed):
    """Local training of the user's own does what it must not do."""


def checked_steps(own: OwnTraining, local: LocalJob) -> Iterator[float]:
    """Yield the losses of a job. Raises OwnTrainingError, or what the user's code raises."""
    place = function_place(own)
    steps = CheckedSteps(place, local.job.patience, seed_generators(int(local.rng.integers(2**63))))
    produced = steps.compute(lambda: own(local))
    if isinstance(produced, Iterator):
        losses = steps.losses(produced, local.job.batches_over(len(local.samples)))
        yield from [_mean(losses)] if local.job.whole else losses
    elif local.job.whole:
        yield _loss(produced, place)
    else:
        raise OwnTrainingError(f"{place} returned instead of yielding the loss of each step")


def check_result(vector: object, size: int, place: str) -> None:
    """Raise OwnTrainingError if a new model has another size or type, or is not finite. ``place``: who made it."""
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32 or vector.shape != (size,):
        given = f"{vector.dtype} of shape {vector.shape}" if isinstance(vector, np.ndarray) else type(vector).__name__
        raise OwnTrainingError(f"{place} made a model that is {given}; it must be float32 of shape ({size},)")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        numbers = f"{len(bad)} of {size} numbers are not finite, the first one is number {bad[0]}"
        raise OwnTrainingError(f"{place} made a model in which {numbers}")


def check_memory(memory: Memory) -> None:
    """Raise OwnTrainingError if a job leaves what cannot serve the next one."""
    if any(isinstance(value, torch.optim.Optimizer) for value in memory.values()):
        raise OwnTrainingError(
            "a job keeps an optimiser for the next one; a copy of it would train copies of the parameters: keep its"
            " state_dict(), and load it into an optimiser of the next job"
        )


def function_place(own: Callable[..., object]) -> str:
    """Return where a function is: file, line and name."""
    code = getattr(inspect.unwrap(own), "__code__", None)
    name = getattr(own, "__qualname__", type(own).__name__)
    return f"{shown_path(code.co_filename)}:{code.co_firstlineno}, {name}" if code is not None else name


def guarded(compute: Callable[[], Any], patience: float) -> Any:
    """Compute: refuse threads and processes, and interrupt it after ``patience`` CPU seconds."""
    with _GUARD, _limited(patience):
        return compute()


class CheckedSteps:
    """Computes the steps of one job in the user's code, with the checks around them."""

    def __init__(self, place: str, patience: float, seed: int) -> None:
        self._place, self._patience, self._seed = place, patience, seed

    def losses(self, produced: Iterator[Any], steps: int) -> Iterator[float]:
        """Yield the loss of each step. Raises OwnTrainingError if there are more or fewer than ``steps``."""
        count = 0
        while (loss := self.compute(lambda: next(produced, _END))) is not _END:
            count += 1
            if count > steps:
                raise OwnTrainingError(f"{self._place} yields more than {steps} losses; the job has a step for each")
            yield _loss(loss, self._place)
        if count < steps:
            problem = f"yielded {count} losses; the job has {steps} steps, one loss for each"
            raise OwnTrainingError(f"{self._place} {problem}")

    def compute(self, step: Callable[[], Any]) -> Any:
        """Compute a step: refuse threads, processes and other seeds, and interrupt it when it does not end."""
        threads = torch.get_num_threads()
        result = guarded(step, self._patience)
        if torch.initial_seed() != self._seed:
            raise OwnTrainingError(f"{self._place} seeds torch; leave that out: each job has a seed of its own")
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
            raise OwnTrainingError(f"{self._place} changes torch.set_num_threads; a device computes with {threads}")
        return result


def seed_generators(seed: int) -> int:
    """Seed the generators that code usually draws from, so that a job that is computed again has the same result."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    return seed


@contextmanager
def generators_restored() -> Generator[None, None, None]:
    """Give the generators their present states back at the end."""
    states = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.random.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _mean(losses: Iterator[float]) -> float:
    values = list(losses)
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def _loss(value: object, place: str) -> float:
    if value is None:
        return math.nan
    try:
        return float(value.detach() if isinstance(value, torch.Tensor) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise OwnTrainingError(f"{place} gave {type(value).__name__} as a loss; it must be a number") from None


class _Guard:
    """Refuses threads and processes at the line that starts them, while a step is computed.

    An audit hook cannot be removed: there is one for each process that trains, and it does nothing between steps.
    """

    def __init__(self) -> None:
        self._is_installed = False
        self._thread: int | None = None
        """The thread that computes a step; the others of this process are the user's, such as those of a notebook."""
        self._start = threading.Thread.start

    def __enter__(self) -> None:
        if not self._is_installed:
            sys.addaudithook(self._audit)
            self._is_installed = True
        self._thread = threading.get_ident()
        guard, start = self, self._start

        def refused_start(thread: threading.Thread) -> None:
            if threading.get_ident() == guard._thread:
                raise OwnTrainingError(f"local training starts a thread; {_ALONE}")
            start(thread)

        threading.Thread.start = refused_start  # type: ignore[method-assign, assignment]

    def __exit__(self, *_: object) -> None:
        self._thread = None
        threading.Thread.start = self._start  # type: ignore[method-assign]

    def _audit(self, event: str, _: tuple[object, ...]) -> None:
        if event in _REFUSED and threading.get_ident() == self._thread:
            raise OwnTrainingError(f"local training {_REFUSED[event]}; {_ALONE}")


_GUARD = _Guard()


class _TimeIsOver(BaseException):
    """No Exception: training that continues after every exception must end, too."""


@contextmanager
def _limited(patience: float) -> Generator[None, None, None]:
    """Raise OwnTrainingError, with the line that is executed, when the CPU time of a step is over.

    A suspended process uses none. Signals reach the main thread only: in another one, nothing is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise _TimeIsOver

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, patience, _AGAIN_SECONDS)
    try:
        yield
    except _TimeIsOver as over:
        problem = f"a step of local training has not ended after {patience:g} s of computing"
        remedy = "if it needs longer, raise training.patience"
        raise OwnTrainingError(f"{problem}; {remedy}").with_traceback(over.__traceback__) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
