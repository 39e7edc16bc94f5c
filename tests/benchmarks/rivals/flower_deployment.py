"""Flower's deployment mode on this host: one SuperLink and a SuperNode for each client, over loopback.

Measured are the seconds from the first process to the first training message, and the largest unique memory of what a
client needs: its SuperNode and the processes that this starts.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.benchmarks.records.provenance import ROOT
from tests.threads import ONE_THREAD

FOLDER = ROOT / ".venv-flower"
_BIN = FOLDER / "bin"
_PATIENCE_SECONDS, _LOOK_SECONDS, _BETWEEN_LOOKS = 180.0, 0.05, 1.0


class FlowerMissing(Exception):
    """Why Flower cannot be measured here."""


class StartAndMemory(NamedTuple):
    seconds: float
    """From the start of the first process to the first jobs."""
    client_bytes: float
    """Largest unique memory of a client, the mean of all."""


def check() -> None:
    """Raise FlowerMissing if its environment is not there."""
    if not (FOLDER / ".ready").exists():
        raise FlowerMissing("flwr is not installed; `make test-flower` makes an environment for it")


def environment() -> dict[str, str]:
    path = f"{_BIN}{os.pathsep}{os.environ['PATH']}"
    return os.environ | ONE_THREAD | {"PATH": path, "FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": str(ROOT)}


def measure(project: Path, clients: int) -> StartAndMemory:
    """Run a project once. Raises FlowerMissing if it does not begin."""
    with tempfile.TemporaryDirectory(prefix="flower-") as name:
        folder, superlink, *ports = Path(name), *_free_ports(clients + 1)
        address = f"127.0.0.1:{superlink}"
        (folder / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{address}"\ninsecure = true\n',
            encoding="utf-8",
        )
        where = environment() | {"FLWR_HOME": str(folder)}
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            server = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation"]
            stack.enter_context(_process([*server, "--port", str(superlink)], where, folder / "superlink.log"))
            nodes = [
                stack.enter_context(
                    _process(_supernode(address, port, place, clients), where, folder / f"node-{place}.log")
                )
                for place, port in enumerate(ports)
            ]
            _wait_for_nodes(folder, clients, began)
            log = folder / "run.log"
            with _process(["flwr", "run", str(project), "here", "--stream"], where, log) as run:
                seconds = _wait_for(log, "[ROUND 1/", run, began)
                most = watched_memory([node.pid for node in nodes], lambda: run.poll() is None)
    return StartAndMemory(seconds, sum(most) / clients)


def _supernode(address: str, port: int, place: int, clients: int) -> list[str]:
    config = f"partition-id={place} num-partitions={clients}"
    return ["flower-supernode", "--insecure", "--superlink", address, "--port", str(port), "--node-config", config]


def watched_memory(pids: Sequence[int], goes_on: object) -> list[float]:
    """Return the largest unique bytes of each process with all that it starts, while ``goes_on()``."""
    assert callable(goes_on)
    most, until = [0.0] * len(pids), time.monotonic() + _PATIENCE_SECONDS
    while goes_on() and time.monotonic() < until:
        for place, pid in enumerate(pids):
            most[place] = max(most[place], unique_bytes(pid))
        time.sleep(_BETWEEN_LOOKS)
    return most


def unique_bytes(pid: int) -> float:
    """The memory that only a process and its children use; 0 if it has ended."""
    total = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += each.memory_full_info().uss
    return total


def _wait_for_nodes(folder: Path, clients: int, began: float) -> None:
    """Wait until each SuperNode has started its executor: then it is connected."""
    logs = [folder / f"node-{place}.log" for place in range(clients)]
    while not all("SuperExec" in log.read_text(encoding="utf-8", errors="replace") for log in logs):
        _check_time(began)


def _wait_for(log: Path, words: str, run: subprocess.Popen[bytes], began: float) -> float:
    while words not in (text := log.read_text(encoding="utf-8", errors="replace")):
        if run.poll() is not None:
            last = (text.strip().splitlines() or ["no output"])[-1]
            raise FlowerMissing(f"flwr run ended before its first round: {last[:150]}")
        _check_time(began)
    return time.monotonic() - began


def _check_time(began: float) -> None:
    if time.monotonic() - began > _PATIENCE_SECONDS:
        raise FlowerMissing(f"Flower's deployment did not begin within {_PATIENCE_SECONDS:g} s")
    time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def _process(words: list[str], where: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program; at the end of the block, end it with all that it has started."""
    with log.open("wb") as output:
        command = [str(_BIN / words[0]), *words[1:]]
        process = subprocess.Popen(command, env=where, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        started = [process]
        with contextlib.suppress(psutil.Error):
            started += psutil.Process(process.pid).children(recursive=True)
        for each in started:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                each.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(socket.socket()) for _ in range(count)]
        for end in ends:
            end.bind(("127.0.0.1", 0))
        return [end.getsockname()[1] for end in ends]
