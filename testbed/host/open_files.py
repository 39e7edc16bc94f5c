"""The limit on open files of this process."""

from __future__ import annotations

import contextlib
import resource


def raise_limit() -> int:
    """Raise the soft limit to the hard one, and return what the kernel then reports.

    Processes that use select() cannot use descriptors beyond 1023, which is why the soft limit is low by default. None
    of ours does.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a container may forbid it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
