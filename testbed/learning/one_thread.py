"""One thread for all arithmetic: with more, sums are added in another order and have other bits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import threadpoolctl
import torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread in this block, as all processes of a run do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpoolctl.threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
