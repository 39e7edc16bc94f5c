"""Measures the memory that a device needs for itself, in a forked child of the template that computes local steps.

Forked processes share the pages that none of them has written to. What counts for a fleet is the unique memory of a
process: its own copies of pages of the template (Python writes to each object that it uses), the vectors, and what a
step allocates. The last part depends on network and batch, so no constant holds for every task.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path

from testbed.host.calibration import LONGEST_STEP, TRIAL_SAMPLES, Steps, in_child

_ROLLUP = Path("/proc/self/smaps_rollup")
_STEPS = 2
"""The allocator places the second step elsewhere than the first; later ones add little."""


def unique_bytes() -> int | None:
    """The memory that only this process uses; None if the kernel does not report it."""
    try:
        lines = _ROLLUP.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    fields = dict(line.split(":") for line in lines)
    return sum(int(fields[name].split()[0]) << 10 for name in ("Private_Clean", "Private_Dirty"))


def measure(steps: Steps, samples: int) -> int:
    """Return the unique memory of a process that has computed steps of ``samples`` samples; 0 if it is not known."""
    found = in_child(lambda: _after_steps(steps, samples))
    return found if isinstance(found, int) else 0


def _after_steps(steps: Steps, samples: int) -> int | None:
    """Compute steps in a child that ends afterwards, without garbage collections: one between the two readings would
    copy pages of its parent, and the estimate would multiply them.
    """
    gc.disable()
    few = min(samples, TRIAL_SAMPLES)
    at_few, seconds = _compute(steps, few)
    more = min(samples, int(few * LONGEST_STEP / max(seconds, 1e-9)))
    if at_few is None or more <= few:
        return at_few
    at_more, _ = _compute(steps, more)
    if at_more is None:
        return at_few
    return at_more + max(0, at_more - at_few) * (samples - more) // (more - few)


def _compute(steps: Steps, samples: int) -> tuple[int | None, float]:
    """Compute steps. Return the unique memory after them, and the CPU seconds of the last one."""
    iterator, seconds = steps(samples), 0.0
    for _ in range(_STEPS):
        before = time.thread_time()
        next(iterator)
        seconds = time.thread_time() - before
    return unique_bytes(), seconds
