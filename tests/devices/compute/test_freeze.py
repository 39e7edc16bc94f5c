"""A process that stops itself, seen from another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys, time
from devices.compute.freeze import freeze
wall, cpu = time.monotonic(), time.process_time()
for seconds in sys.argv[1:]:
    freeze(float(seconds))
print(time.monotonic() - wall, time.process_time() - cpu)
"""


@contextmanager
def freezing(*seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Yield a child that freezes for each of ``seconds``, prints the wall and CPU seconds of that, and ends."""
    command = [sys.executable, "-c", SCRIPT, *map(repr, seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        try:
            yield child
        finally:
            child.kill()


def wait_until_stopped(child: subprocess.Popen[str]) -> None:
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert os.WSTOPSIG(status) == signal.SIGSTOP


def measured_seconds(child: subprocess.Popen[str], timeout: float = 280.0) -> tuple[float, float]:
    output, _ = child.communicate(timeout=timeout)
    assert child.returncode == 0
    wall, cpu = output.split()
    return float(wall), float(cpu)


def test_a_frozen_process_is_stopped_and_continues_by_itself() -> None:
    with freezing(0.3) as child:
        wait_until_stopped(child)
        wall, cpu = measured_seconds(child)
    assert wall > 0.29
    assert cpu < 0.15


def test_a_signal_from_outside_wakes_a_frozen_process_early() -> None:
    with freezing(300.0) as child:
        wait_until_stopped(child)
        assert psutil.Process(child.pid).status() == psutil.STATUS_STOPPED
        child.send_signal(signal.SIGCONT)
        wall, _ = measured_seconds(child)
    assert wall < 300


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_freeze_of_no_seconds_does_nothing(seconds: float) -> None:
    with freezing(seconds) as child:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFEXITED(status)
        assert os.WEXITSTATUS(status) == 0


def test_a_frozen_process_can_be_killed() -> None:
    with freezing(300.0) as child:
        wait_until_stopped(child)
        child.kill()
        assert child.wait(timeout=60) == -signal.SIGKILL


def test_a_process_continues_after_the_shortest_freezes() -> None:
    with freezing(1e-10, 1e-9, 1e-6, 1e-5, 1e-4) as child:
        wait_until_stopped(child)
        measured_seconds(child)


def test_a_process_continues_after_many_freezes_that_end_about_when_they_begin() -> None:
    """SIGSTOP discards a SIGCONT that comes at the same moment: each of many freezes must end nevertheless."""
    with freezing(*(10 ** (-5 - (number % 40) / 10) for number in range(400))) as child:
        measured_seconds(child)
