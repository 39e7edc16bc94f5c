"""A run template with real forks: the program is small here, so that a fork takes no time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from testbed.common.channel import Channel, readable
from testbed.processes.templates import forkserver
from testbed.processes.templates.forkserver import Exited, ForkBatch, Forked, ForkOrder, ForkReport

Report = TypeVar("Report", Forked, Exited)
ROOT = Path(__file__).parents[4]
PROGRAM = """
import socket, sys
from testbed.processes.templates import forkserver
forkserver.serve(socket.socket(fileno=int(sys.argv[1])))
"""


class Server:
    """A run template of its own interpreter."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=ROOT
            )
        self.channel: Channel[ForkReport] = Channel(ours, ForkReport)

    def fork(self, *orders: ForkOrder, descriptors: tuple[int, ...] = ()) -> list[Forked]:
        self.channel.send(ForkBatch(orders=orders), descriptors)
        return [self.next(Forked) for _ in orders]

    def next(self, kind: type[Report]) -> Report:
        report, _ = self.channel.receive()
        assert isinstance(report, kind)
        return report


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.channel.close()
    made.process.wait(30)


def sleeping(name: str = "sleeper") -> ForkOrder:
    return forkserver.order(name, time.sleep, 600.0)


def test_a_batch_is_forked_and_each_exit_code_is_reported(server: Server) -> None:
    works = [forkserver.order("done", abs, 1), forkserver.order("three", sys.exit, 3), sleeping()]
    done, three, sleeper = server.fork(*works)
    assert [done.name, three.name, sleeper.name] == ["done", "three", "sleeper"]
    os.kill(sleeper.pid, signal.SIGKILL)
    codes = {report.pid: report.code for report in (server.next(Exited) for _ in works)}
    assert codes == {done.pid: 0, three.pid: 3, sleeper.pid: -9}


def test_an_exception_ends_a_process_with_code_1_and_its_traceback_is_written(
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = Server()
    server.fork(forkserver.order("broken", int, "x"))
    assert server.next(Exited).code == 1
    server.channel.close()
    server.process.wait(30)
    assert "ValueError: invalid literal" in capfd.readouterr().err


def test_a_process_reports_to_the_descriptor_that_came_with_its_order(server: Server) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        server.fork(sleeping(), forkserver.order("answers", say, b"ready", descriptors=1), descriptors=(writing,))
        os.close(writing)
        assert pipe.read() == b"ready"  # and the end: no other process has the descriptor


def say(what: bytes, report: int) -> None:
    os.write(report, what)
    os.close(report)


def test_the_end_of_the_launcher_ends_the_template_and_its_processes(server: Server) -> None:
    [sleeper] = server.fork(sleeping())
    process = psutil.Process(sleeper.pid)
    server.channel.close()
    assert server.process.wait(30) == 0
    psutil.wait_procs([process], timeout=30)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_the_death_of_the_template_closes_its_socket_although_its_processes_live_a_moment_longer(
    server: Server,
) -> None:
    server.fork(sleeping(), sleeping("another"))
    server.process.kill()
    assert readable([server.channel.fileno()], 30)
    with pytest.raises(EOFError):
        server.channel.receive()


def test_processes_do_not_inherit_the_descriptors_of_the_template(server: Server) -> None:
    first, second = server.fork(sleeping(), sleeping("another"))
    limit = time.monotonic() + 30
    while sockets(first.pid) | sockets(second.pid):
        assert time.monotonic() < limit


def sockets(pid: int) -> set[str]:
    links = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            links.add(str(link.readlink()))
    return {link for link in links if link.startswith("socket:")}
