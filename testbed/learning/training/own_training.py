"""Local training of the user's own: what it may do is checked while it runs, and errors name its file and line.

A function is either a generator that yields the loss of each step, so that steps are paced and suspended one by one, or
it computes the whole job and returns the mean loss: then the job has one deadline, at its end (``Job.whole``).

An audit hook refuses threads and processes at the line that starts them: a device is one process with one thread on
one core, and a thread would compute beside the clock of the device.
"""

from __future__ import annotations

import inspect
import math
import random
import signal
import sys
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch

from testbed.learning.training.local_job import LocalJob

OwnTraining: TypeAlias = Callable[[LocalJob], Any]
"""Returns an iterator over the losses of the steps, or the mean loss of the whole job (None: it is not known)."""

PATIENCE = 120.0
"""CPU seconds after which a step that has not ended is interrupted. A suspended process uses none."""
_REFUSED = {
    "_thread.start_new_thread": "starts a thread",
    "os.fork": "forks",
    "os.forkpty": "forks",
    "os.posix_spawn": "starts a process",
    "subprocess.Popen": "starts a process",
}
_active = False
_is_installed = False


class OwnTrainingError(Exception):
    """Local training of the user's own does what it must not do."""


def checked_steps(own: OwnTraining, local: LocalJob) -> Iterator[float]:
    """Yield the losses of a job. Raises OwnTrainingError, or what the user's code raises."""
    seed_generators(int(local.rng.integers(2**32)))
    steps, place = local.job.steps_over(len(local.samples)), function_place(own)
    produced = guarded(lambda: own(local))
    if not isinstance(produced, (Iterator, types.GeneratorType)):
        if not local.job.whole:
            raise OwnTrainingError(f"{place} returned instead of yielding the loss of each step")
        yield _loss(produced, place)
        return
    count = 0
    while (loss := guarded(lambda: next(produced, _END))) is not _END:
        count += 1
        if count > steps:
            raise OwnTrainingError(
                f"{function_place(own)} yields more than the {steps} losses of the job: one for each step"
            )
        yield _loss(loss, place)
    if count < steps:
        raise OwnTrainingError(
            f"{function_place(own)} yielded {count} losses; the job has {steps} steps, one loss for each"
        )


_END = object()


def check_result(vector: object, size: int, place: str) -> None:
    """Raise OwnTrainingError if a new model has another size or type, or is not finite. ``place``: who made it."""
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32 or vector.shape != (size,):
        given = f"{vector.dtype} of shape {vector.shape}" if isinstance(vector, np.ndarray) else type(vector).__name__
        raise OwnTrainingError(f"{place} made a model that is {given}; it must be float32 of shape ({size},)")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise OwnTrainingError(
            f"{place} made a model in which {len(bad)} numbers are not finite, first number {bad[0]}"
        )


def seed_generators(seed: int) -> None:
    """Seed the generators that code usually draws from, so that a job that is computed again has the same result."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def _loss(value: object, place: str) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise OwnTrainingError(f"{place} gave {type(value).__name__} as a loss; it must be a number") from None


def function_place(own: Callable[..., object]) -> str:
    """Return where a function is: file, line and name."""
    code = getattr(inspect.unwrap(own), "__code__", None)
    name = getattr(own, "__qualname__", type(own).__name__)
    return f"{code.co_filename}:{code.co_firstlineno}: {name}" if code is not None else name


def guarded(compute: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Compute a step: refuse threads and processes, and interrupt it after ``patience`` CPU seconds."""
    with _watched(), _limited(patience):
        return compute()


@contextmanager
def _watched() -> Generator[None, None, None]:
    global _active, _is_installed
    if not _is_installed:
        sys.addaudithook(_audit)
        _is_installed = True
    _active = True
    try:
        yield
    finally:
        _active = False


def _audit(event: str, _: tuple[object, ...]) -> None:
    if _active and event in _REFUSED:
        raise OwnTrainingError(
            f"local training {_REFUSED[event]}; a device is one process with one thread: use num_workers=0 in a"
            " DataLoader, and no pools"
        )


@contextmanager
def _limited(patience: float) -> Generator[None, None, None]:
    """Raise OwnTrainingError in the line that is executed when the time is over."""

    def too_long(*_: object) -> None:
        raise OwnTrainingError(f"a step of local training has not ended after {patience:g} s of computing")

    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, patience)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
