"""The processes of a run: forked from the template, known by name, each with a log, and ended to the last."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from testbed.common.errors import UserError
from testbed.processes import child
from testbed.processes.configs import RoleConfig

AGGREGATOR = "aggregator"
POLL_SECONDS = 0.25
_FAREWELL_SECONDS = 5.0


class RunFailed(Exception):
    """The run ended before its time; what was recorded is kept."""


class Processes:
    """By name. One that is forked again takes the place of the one before."""

    def __init__(self, run_folder: Path) -> None:
        self._logs = run_folder / "logs"
        self._context = multiprocessing.get_context("forkserver")
        self._processes: dict[str, ForkServerProcess] = {}
        self._said_before: dict[str, int] = {}
        """Bytes in the log of a process that are from an earlier one of its name."""

    def __getitem__(self, name: str) -> ForkServerProcess:
        return self._processes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._processes)

    # ---- beginning

    def fork(self, name: str, config: RoleConfig, report: connection.Connection | None = None) -> None:
        log = self._logs / f"{name}.log"
        self._said_before[name] = log.stat().st_size if log.exists() else 0
        process = self._context.Process(target=child.enter, args=(config, str(log), report), name=name)
        try:
            process.start()
        except (EOFError, OSError) as error:
            raise RunFailed(
                f"{name} could not be forked: {error!r}; was memory short, or the number of processes?"
            ) from None
        self._processes[name] = process

    def fork_and_hear(self, name: str, config: RoleConfig, interrupted: Callable[[], bool]) -> str:
        """Fork a process that others wait for, and wait for its one word; there is none if interrupted."""
        listener, report = self._context.Pipe(duplex=False)
        self.fork(name, config, report)
        report.close()
        try:
            while not listener.poll(POLL_SECONDS):
                if interrupted():
                    return ""
            said = json.loads(listener.recv_bytes())
        except EOFError:
            raise RunFailed(self.why(name)) from None
        finally:
            listener.close()
        if "ready" in said:
            return str(said["ready"])
        raise (UserError if said["user"] else RunFailed)(said["problem"])

    # ---- ending

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].join(_FAREWELL_SECONDS)

    def why(self, name: str) -> str:
        """How a process ended, and the last line that it wrote to its log."""
        process = self._processes[name]
        process.join(_FAREWELL_SECONDS)
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        log = self._logs / f"{name}.log"
        said = log.read_bytes()[self._said_before[name] :] if log.exists() else b""
        lines = said.decode(errors="replace").strip().splitlines()
        return f"{name} (pid {process.pid}) {how}" + (f": {lines[-1]} (see {log})" if lines else "")

    def end_all(self, meanwhile: Callable[[], None]) -> None:
        """Devices have been told to stop; those that did not hear it are ended by force.

        ``meanwhile`` is called between the blow and their death.
        """
        aggregator = self._processes.get(AGGREGATOR)
        if aggregator is not None and aggregator.is_alive():
            aggregator.terminate()  # before the others: it keeps the results, and asks the devices for theirs
            aggregator.join(_FAREWELL_SECONDS)
        grace = _FAREWELL_SECONDS if aggregator is not None and aggregator.exitcode == 0 else 0.0
        limit = time.monotonic() + grace
        for process in self._processes.values():
            process.join(max(0.0, limit - time.monotonic()))
        alive = [process for process in self._processes.values() if process.is_alive()]
        for process in alive:
            process.kill()
        meanwhile()
        for process in alive:
            process.join(_FAREWELL_SECONDS)
