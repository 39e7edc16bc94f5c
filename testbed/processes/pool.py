"""The processes of a run by name: forking them from the template, why they ended, and ending all of them."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from testbed.common.errors import RunFailed, UserError
from testbed.processes import child, forkserver
from testbed.processes.configs import RoleConfig

AGGREGATOR = "aggregator"
POLL_SECONDS = 0.25
_END_SECONDS = 5.0


class Processes:
    """The processes of one run by name. A process that is forked again replaces its predecessor."""

    def __init__(self, run_folder: Path) -> None:
        self._logs = run_folder / "logs"
        self._context = multiprocessing.get_context("forkserver")
        self._processes: dict[str, ForkServerProcess] = {}
        self._old_log_bytes: dict[str, int] = {}
        """Bytes in the log of a process that its predecessor wrote."""

    def __getitem__(self, name: str) -> ForkServerProcess:
        return self._processes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._processes)

    # ---- forking

    def fork(self, name: str, config: RoleConfig, report: connection.Connection | None = None) -> None:
        """Fork a process. Raises RunFailed if the host cannot."""
        log = self._logs / f"{name}.log"
        self._old_log_bytes[name] = log.stat().st_size if log.exists() else 0
        process = self._context.Process(target=child.enter, args=(config, str(log), report), name=name)
        try:
            with forkserver.without_main():
                process.start()
        except (EOFError, OSError) as error:
            raise RunFailed(
                f"{name} could not be forked: {error!r}; free memory, or raise the limit on processes (ulimit -u)"
            ) from None
        self._processes[name] = process

    def fork_and_wait(self, name: str, config: RoleConfig, interrupted: Callable[[], bool]) -> str:
        """Fork a process and wait until it is ready; returns its answer, or "" if interrupted.

        Raises UserError or RunFailed if the process fails before that.
        """
        listener, report = self._context.Pipe(duplex=False)
        self.fork(name, config, report)
        report.close()
        try:
            while not listener.poll(POLL_SECONDS):
                if interrupted():
                    return ""
            answer = json.loads(listener.recv_bytes())
        except EOFError:
            raise RunFailed(self.why(name)) from None
        finally:
            listener.close()
        if "ready" in answer:
            return str(answer["ready"])
        raise (UserError if answer["user"] else RunFailed)(answer["problem"])

    # ---- ending

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].join(_END_SECONDS)

    def why(self, name: str) -> str:
        """How a process ended, and the last line that it wrote to its log."""
        process = self._processes[name]
        process.join(_END_SECONDS)
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        log = self._logs / f"{name}.log"
        written = log.read_bytes()[self._old_log_bytes[name] :] if log.exists() else b""
        lines = written.decode(errors="replace").strip().splitlines()
        return f"{name} (pid {process.pid}) {how}" + (f": {lines[-1]} (see {log})" if lines else "")

    def end_all(self, meanwhile: Callable[[], None]) -> None:
        """Wait for processes to end by themselves, then kill those that are left.

        ``meanwhile`` is called after the kill, before the wait for their end.
        """
        aggregator = self._processes.get(AGGREGATOR)
        if aggregator is not None and aggregator.is_alive():
            aggregator.terminate()  # first: it saves the results, and asks the devices for theirs
            aggregator.join(_END_SECONDS)
        grace = _END_SECONDS if aggregator is not None and aggregator.exitcode == 0 else 0.0
        limit = time.monotonic() + grace
        for process in self._processes.values():
            process.join(max(0.0, limit - time.monotonic()))
        alive = [process for process in self._processes.values() if process.is_alive()]
        for process in alive:
            process.kill()
        meanwhile()
        for process in alive:
            process.join(_END_SECONDS)
