"""The memory check: whether this host has enough memory and open files for a fleet.

It runs before the task is loaded, with a constant; ``testbed.planning.planner`` repeats it with the memory that the
survey has measured for this task (``testbed.host.memory.unique_memory``).
"""

from __future__ import annotations

import resource

import psutil

from testbed.common.errors import UserError

BYTES_PER_DEVICE = 12 << 20
"""A device with a small model: an estimate for as long as the survey has not measured it."""
BYTES_FOR_THE_REST = 700 << 20
"""Template, aggregator and evaluator."""
_BYTES_BESIDE_STEPS = 4 << 20
"""What a device needs beside its steps: messages and their threads, the fork server's part, the kernel's tables, and
its connection in the aggregator. 500 devices of the 21,840-parameter CNN: 13.1 to 14 MB each, 10 MB in the survey."""
_VECTORS_ON_DEVICE = 4
"""Model, gradient, base and delta: part of what the survey measures."""
_VECTORS_ELSEWHERE = 2
"""A delta, and possibly a past model, in the aggregator."""
_VECTORS_FOR_BASELINE = 3
"""The baseline in double precision (two), and the difference that is not yet confirmed."""
_VECTORS_FOR_KEPT_UPDATE = 2
"""The last update, and the one under way."""
_VECTORS_FOR_RESIDUAL = 4
"""The residual, the residual after the update under way, the delta as it was sent, and the compressed bytes."""
FILES_PER_DEVICE = 8
FILES_FOR_THE_REST = 256


def bytes_needed(
    devices: int,
    model_bytes: int = 0,
    measured: int = 0,
    *,
    baselines: bool = False,
    kept_updates: bool = False,
    residuals: bool = False,
) -> int:
    """Memory for a fleet: its processes, and for each device the vectors on the device and in the aggregator.

    ``measured``: the unique memory of a process that has computed steps of this task; 0 if it was not measured.
    ``baselines``, ``kept_updates``: whether each device keeps a baseline, or its last update after the upload.
    ``residuals``: whether devices compress their updates.
    """
    device = measured + _BYTES_BESIDE_STEPS if measured else BYTES_PER_DEVICE + _VECTORS_ON_DEVICE * model_bytes
    vectors = _VECTORS_ELSEWHERE
    vectors += _VECTORS_FOR_BASELINE if baselines else 0
    vectors += _VECTORS_FOR_KEPT_UPDATE if kept_updates else 0
    vectors += _VECTORS_FOR_RESIDUAL if residuals else 0
    return devices * (device + vectors * model_bytes) + BYTES_FOR_THE_REST


def check_memory_and_files(devices: int) -> None:
    """Raise UserError if this host has too little memory or too few open files; raise the soft limit on files."""
    needed, free = bytes_needed(devices), psutil.virtual_memory().available
    if needed > free:
        most = max(0, int((free - BYTES_FOR_THE_REST) // BYTES_PER_DEVICE))
        raise UserError(
            f"devices: {devices} devices need about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free;"
            f" use at most {most} devices"
        )
    # the launcher and the aggregator have a few descriptors open for each device
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_PER_DEVICE * devices + FILES_FOR_THE_REST
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise UserError(
                f"devices: {devices} devices need {wanted} open files, the limit is {hard}; raise ulimit -n"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
