"""The memory that a process needs for itself."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.host.calibration import Steps, in_child
from testbed.host.memory import unique_memory

MB = 1 << 20


@pytest.fixture(autouse=True)
def frozen_heap() -> Iterator[None]:
    """As in the template: or a collection in the child copies the pages of all objects that pytest has."""
    gc.freeze()
    yield
    gc.unfreeze()


def growing(bytes_per_sample: int, seconds_per_sample: float = 0.0) -> Steps:
    """Steps that keep this much memory for each of their samples, until the next step size."""

    def steps(samples: int) -> Iterator[object]:
        kept = bytearray(b"x") * (samples * bytes_per_sample)
        while True:
            end = time.thread_time() + samples * seconds_per_sample
            while time.thread_time() < end:
                pass
            yield kept

    return steps


def test_memory_that_a_child_writes_to_is_its_own() -> None:
    def work() -> list[int | None]:
        before = unique_memory.unique_bytes()
        kept = bytearray(b"x") * (64 * MB)
        return [before, unique_memory.unique_bytes(), len(kept)]

    before, after, _ = in_child(work)  # type: ignore[misc]
    assert after - before == pytest.approx(64 * MB, rel=0.1)


def test_a_step_of_the_whole_batch_is_measured_if_it_is_short() -> None:
    small, large = (unique_memory.measure(growing(MB), samples) for samples in (8, 264))
    # what the fork itself costs differs by some megabytes from time to time
    assert large - small == pytest.approx(256 * MB, rel=0.2)


def test_the_memory_of_a_long_step_is_estimated_from_shorter_ones() -> None:
    slow = growing(MB, seconds_per_sample=0.02)

    def steps(samples: int) -> Iterator[object]:
        assert samples < 100, "a step of 2 CPU seconds or more"
        return slow(samples)

    small, large = unique_memory.measure(growing(MB), 8), unique_memory.measure(steps, 1000)
    assert large - small == pytest.approx(992 * MB, rel=0.3)


def test_without_a_figure_of_the_kernel_the_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_memory, "_ROLLUP", Path("/proc/self/absent"))
    assert unique_memory.unique_bytes() is None
    assert unique_memory.measure(growing(MB), 8) == 0
