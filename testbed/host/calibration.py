"""Timing local steps on this host, alone and in company, in forked children of the template.

Seconds are of CPU, not of the wall: what a step costs a core that many share. In company every step begins with the
caches that others have left behind, and on some hosts with a clock rate that more load has moved.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from testbed.common.stats import quantile
from testbed.host.cores import Priority, die_with_parent, settle
from testbed.host.survey import StepTime

_SECONDS = 0.12
"""CPU seconds for each batch size in each child."""
_LONGEST_STEP = 0.5
"""CPU seconds, about. Whatever takes longer is told from steps of fewer samples, in proportion."""
_TRIAL_SAMPLES = 8
_LEAST_STEPS = 3
_MOST_STEPS = 60
MOST_PROCESSES = 4
"""To a core. More of them only take longer: with four, a step already finds nothing of its own in the caches."""

Steps = Callable[[int], Iterator[object]]
"""Endless local steps of so many samples."""


def measure(steps: Steps, batch: int, crowd: Mapping[int, int]) -> tuple[StepTime, ...]:
    """Time steps of a small batch and of ``batch`` samples, with ``crowd[core]`` processes on each core.

    Where the whole batch would take too long (a device's whole data, or a large network), a part of it is timed.
    """
    lone = min(crowd)
    whole = _affordable(lone, steps, batch)
    sizes = sorted({max(1, whole // 8), whole})
    alone = _together([lone], steps, sizes)
    company = _together([core for core, count in crowd.items() for _ in range(count)], steps, sizes)
    return tuple(_step_time(size, alone[size], company[size]) for size in sizes)


def _affordable(core: int, steps: Steps, batch: int) -> int:
    """As much of ``batch`` as takes no longer than the longest step that is worth waiting for."""
    if batch <= _TRIAL_SAMPLES:
        return batch
    times = _together([core], steps, [_TRIAL_SAMPLES], seconds=0.0)[_TRIAL_SAMPLES]
    seconds = max(min(times), 1e-9)  # noise only lengthens
    return max(_TRIAL_SAMPLES, min(batch, int(_TRIAL_SAMPLES * _LONGEST_STEP / seconds)))


def in_child(work: Callable[[], object]) -> object:
    """Have a forked child do ``work`` and give its result, which must be JSON; None if it failed."""
    [result] = in_children([work])
    return result


def _step_time(samples: int, alone: Sequence[float], company: Sequence[float]) -> StepTime:
    return StepTime(
        samples=samples,
        seconds=statistics.median(company),
        alone=statistics.median(alone),
        slow=quantile(company, 0.9),
    )


def _together(
    cores: Sequence[int], steps: Steps, sizes: Sequence[int], seconds: float = _SECONDS
) -> dict[int, list[float]]:
    """The seconds of every step that one child per entry of ``cores`` has timed, by batch size."""
    results = in_children([functools.partial(_time_steps, core, steps, sizes, seconds) for core in cores])
    if any(result is None for result in results):
        raise RuntimeError("a process that timed local steps ended early; was memory short?")
    return {size: [s for result in results for s in result[str(size)]] for size in sizes}  # type: ignore[index]


def _time_steps(core: int, steps: Steps, sizes: Sequence[int], seconds: float) -> dict[str, list[float]]:
    settle(core, Priority.DEVICE)
    return {str(size): _times(steps(size), seconds) for size in sizes}


def _times(steps: Iterator[object], seconds: float) -> list[float]:
    next(steps)  # faults in this process's own pages
    times: list[float] = []
    while len(times) < _LEAST_STEPS or (sum(times) < seconds and len(times) < _MOST_STEPS):
        before = time.thread_time()
        next(steps)
        times.append(time.thread_time() - before)
        os.sched_yield()  # as devices do, whose next deadline has not come
    return times


def in_children(works: Sequence[Callable[[], object]]) -> list[object]:
    """The results of forked children that work at the same time; JSON, or None for one that failed."""
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
                os._exit(code)  # not a word to whatever the parent has registered for its end
        os.close(writing)
        children.append((pid, reading))
    results: list[object] = []
    for pid, reading in children:
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
        results.append(json.loads(text) if text else None)
    return results
