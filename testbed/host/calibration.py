"""Times local steps on this host, alone and with other processes, in forked children of the template.

Seconds are CPU seconds: the cost of a step on a core that many processes share. With other processes, each step starts
with the caches that they left behind and, on some hosts, with another clock rate.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from testbed.common.errors import RunFailed
from testbed.common.stats import quantile
from testbed.host.cores import die_with_parent, settle
from testbed.host.kernel import pressure_seconds
from testbed.host.priority import Priority
from testbed.host.survey import StepTime

_SECONDS = 0.12
"""CPU seconds for each batch size in each child."""
_CHECK_SECONDS = 0.04
"""CPU seconds for comparing the present speed with a remembered survey, roughly."""
LONGEST_STEP = 0.5
"""CPU seconds, roughly. Time and memory of a longer step are estimated from steps with fewer samples."""
TRIAL_SAMPLES = 8
"""The first step that is timed has so many, to learn how many more are affordable."""
_LEAST_STEPS = 3
_MOST_STEPS = 60
MOST_PROCESSES = 4
"""On one core. With four, a step already finds none of its own data in the caches; more only take longer."""

Steps = Callable[[int], Iterator[object]]
"""Samples of a step → an endless iterator over local steps."""


class PressureMeter:
    """The share of the time in which a process of this host waited for a core (PSI).

    Measured while one process of ours times its steps alone: more of them would wait for each other, and a host whose
    cores are all used by others shows it only when one more process wants a core.
    """

    def __init__(self) -> None:
        self.share: float | None = None
        """None before the measurement, or if the kernel does not report it."""

    def __enter__(self) -> None:
        self._began, self._before = time.monotonic(), pressure_seconds()

    def __exit__(self, *_: object) -> None:
        after = pressure_seconds()
        if self._before is not None and after is not None:
            self.share = (after - self._before) / max(time.monotonic() - self._began, 1e-9)


def measure(
    steps: Steps, batch: int, crowd: Mapping[int, int], meter: PressureMeter, possible: Sequence[int] | None = None
) -> tuple[StepTime, ...]:
    """Time steps of a small batch and of ``batch`` samples, with ``crowd[core]`` processes on each core.

    If the whole batch would take too long (all data of a device, or a large network), a part of it is timed.
    ``possible``: the samples that a step may have; None: any number.
    """
    lone = min(crowd)
    if possible is None:
        whole = _affordable(lone, steps, batch)
        sizes = sorted({max(1, whole // 8), whole})
    else:
        sizes = sorted({min(possible), max(possible)})
    with meter:
        alone = _together([lone], steps, sizes)
    crowded = _together([core for core, count in crowd.items() for _ in range(count)], steps, sizes)
    return tuple(_step_time(size, alone[size], crowded[size]) for size in sizes)


def _affordable(core: int, steps: Steps, batch: int) -> int:
    """The largest part of ``batch`` whose step takes no longer than the longest allowed one."""
    if batch <= TRIAL_SAMPLES:
        return batch
    times = _together([core], steps, [TRIAL_SAMPLES], seconds=0.0)[TRIAL_SAMPLES]
    seconds = max(min(times), 1e-9)  # noise only makes a step longer
    return max(TRIAL_SAMPLES, min(batch, int(TRIAL_SAMPLES * LONGEST_STEP / seconds)))


def slowdown(steps: Steps, remembered: Sequence[StepTime], core: int, meter: PressureMeter) -> float:
    """Return how many times as long a step takes now as when ``remembered`` was measured, alone on ``core``.

    A few steps of the largest batch that takes no longer than the check may.
    """
    short = [step for step in remembered if step.alone * (_LEAST_STEPS + 1) <= _CHECK_SECONDS]
    step = short[-1] if short else remembered[0]
    with meter:
        times = _together([core], steps, [step.samples], seconds=_CHECK_SECONDS / 2)[step.samples]
    return statistics.median(times) / step.alone


def feel_pressure(steps: Steps, samples: int, meter: PressureMeter) -> None:
    """Compute a few small steps, on any core, only to measure the pressure meanwhile."""
    with meter:
        in_child(lambda: _times(steps(min(samples, TRIAL_SAMPLES)), _CHECK_SECONDS / 2))


def in_child(work: Callable[[], object]) -> object:
    """Do ``work`` in a forked child and return its result, which must be JSON; None if it failed."""
    [result] = in_children([work])
    return result


def _step_time(samples: int, alone: Sequence[float], crowded: Sequence[float]) -> StepTime:
    return StepTime(
        samples=samples,
        seconds=statistics.median(crowded),
        alone=statistics.median(alone),
        slow=quantile(crowded, 0.9),
    )


def _together(
    cores: Sequence[int], steps: Steps, sizes: Sequence[int], seconds: float = _SECONDS
) -> dict[int, list[float]]:
    """Batch size → the seconds of all steps; one child for each entry of ``cores`` times them at the same time.

    Raises RunFailed if a step does.
    """
    results = in_children([functools.partial(_time_steps, core, steps, sizes, seconds) for core in cores])
    problem = next((result for result in results if isinstance(result, str)), None)
    if problem is not None:
        raise RunFailed(problem)
    if any(result is None for result in results):
        raise RuntimeError("a process that timed local steps ended early; free memory, or use a smaller task")
    return {size: [s for result in results for s in result[str(size)]] for size in sizes}  # type: ignore[index]


def _time_steps(core: int, steps: Steps, sizes: Sequence[int], seconds: float) -> dict[str, list[float]] | str:
    """Return the seconds of steps by their size; the text of a RunFailed, such as of a user's own training."""
    settle((core,), Priority.DEVICE)
    try:
        return {str(size): _times(steps(size), seconds) for size in sizes}
    except RunFailed as failure:
        return str(failure)


def _times(steps: Iterator[object], seconds: float) -> list[float]:
    before = time.thread_time()
    next(steps)  # the first step faults in the pages of this process
    if (first := time.thread_time() - before) > LONGEST_STEP:
        return [first]  # page faults are a small part of it
    times: list[float] = []
    while len(times) < _LEAST_STEPS or (sum(times) < seconds and len(times) < _MOST_STEPS):
        before = time.thread_time()
        next(steps)
        times.append(time.thread_time() - before)
        os.sched_yield()  # as a device does that waits for its deadline
    return times


def in_children(works: Sequence[Callable[[], object]]) -> list[object]:
    """Run each work in a forked child, all at the same time. Returns their results: JSON, or None for a failure."""
    parent, children = os.getpid(), []
    for work in works:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                die_with_parent(parent)
                os.write(writing, json.dumps(work()).encode())
                code = 0
            finally:
                os._exit(code)  # without the exit handlers of the parent
        os.close(writing)
        children.append((pid, reading))
    results: list[object] = []
    for pid, reading in children:
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
        results.append(json.loads(text) if text else None)
    return results
