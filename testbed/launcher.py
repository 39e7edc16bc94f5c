"""Starts the processes of a run, watches them, and leaves nothing behind.

Who ends whom: every process is a child of the template and dies with it (PR_SET_PDEATHSIG); the template dies with
the launcher and removes the private folder, where the sockets are. So even ``kill -9`` of the launcher leaves no
process and no socket.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

from testbed import child
from testbed.cores import CorePlan
from testbed.errors import UserError
from testbed.forking import prepared_template, wait_for_template
from testbed.messages import EVALUATOR
from testbed.profile import Experiment, Transport, fleet
from testbed.roles import AggregatorConfig, DeviceConfig, EvaluatorConfig, RoleConfig
from testbed.template import STOP_SIGNALS

AGGREGATOR = "aggregator"
_POLL_SECONDS = 0.25
_FAREWELL_SECONDS = 5.0


class RunFailed(Exception):
    """The run ended before its time; what was recorded is kept."""


class View(Protocol):
    """Whoever shows the run while it goes on."""

    def starting(self, ready: int, total: int) -> None: ...
    def stopping(self) -> None: ...
    def status(self, status: dict[str, Any]) -> None: ...
    def note(self, text: str) -> None: ...


class Launcher:
    """The processes of one run."""

    def __init__(
        self,
        experiment: Experiment,
        plan: CorePlan,
        run_folder: Path,
        private: Path,
        view: View,
        started: Callable[[dict[str, int]], None],
    ) -> None:
        """``started`` is told the pids as soon as everybody has one."""
        self._experiment, self._plan, self._view, self._started = experiment, plan, view, started
        self._run_folder, self._private = run_folder, private
        self._context = multiprocessing.get_context("forkserver")
        self._processes: dict[str, ForkServerProcess] = {}
        self._told_to_stop = 0
        self._signal: int | None = None
        self._signals_passed_on = 0
        self._running = False

    @property
    def interrupted_by(self) -> int | None:
        """The signal that ended the run early, if one did."""
        return self._signal

    def run(self) -> None:
        """Start everybody and wait for the end. Raises UserError or RunFailed."""
        with self._signals(), prepared_template(self._private, self._order()):
            try:
                if self._template_is_ready():
                    self._start()
                    self._started({name: process.pid or 0 for name, process in self._processes.items()})
                    with _pinned(self._plan.aggregator):
                        self._watch()
            finally:
                self._end_all()

    # ---- starting

    def _order(self) -> dict[str, Any]:
        experiment = self._experiment
        return {
            "source": experiment.name,
            "task": experiment.task_name,
            "parameters": experiment.task_parameters,
            "devices": len(fleet(experiment)),
            "seed": experiment.seed,
        }

    def _template_is_ready(self) -> bool:
        try:
            return wait_for_template(self._private, lambda: self._signal is not None)
        except EOFError:
            raise RunFailed("the template died while it loaded the task; was memory short?") from None

    def _start(self) -> None:
        devices = fleet(self._experiment)
        endpoint = self._start_aggregator()
        self._fork(EVALUATOR, EvaluatorConfig(core=self._plan.evaluator, endpoint=endpoint))
        for number, (spec, core) in enumerate(zip(devices, self._plan.devices, strict=True), 1):
            if self._signal is not None:
                return
            self._fork(
                spec.name,
                DeviceConfig(
                    spec=spec, core=core, endpoint=endpoint, seed=self._experiment.seed,
                    beat=self._experiment.presence.beat,
                ),
            )  # fmt: skip
            self._view.starting(number, len(devices))

    def _start_aggregator(self) -> str:
        """Fork the aggregator and wait until peers can connect; gives the endpoint."""
        listener, report = self._context.Pipe(duplex=False)
        config = AggregatorConfig(
            experiment=self._experiment,
            core=self._plan.aggregator,
            endpoint=_endpoint(self._experiment.transport, self._private),
            run_folder=str(self._run_folder),
            status_file=str(self._status_file),
        )
        self._fork(AGGREGATOR, config, report)
        report.close()
        try:
            answer = json.loads(listener.recv_bytes())
        except EOFError:
            raise RunFailed(self._why(AGGREGATOR)) from None
        finally:
            listener.close()
        if "endpoint" in answer:
            return str(answer["endpoint"])
        raise (UserError if answer["user"] else RunFailed)(answer["problem"])

    def _fork(self, name: str, config: RoleConfig, report: connection.Connection | None = None) -> None:
        log = str(self._run_folder / "logs" / f"{name}.log")
        process = self._context.Process(target=child.enter, args=(config.role, config, log, report), name=name)
        try:
            process.start()
        except (EOFError, OSError) as error:
            raise RunFailed(
                f"{name} could not be forked: {error!r}; was memory short, or the number of processes?"
            ) from None
        self._processes[name] = process

    # ---- watching

    def _watch(self) -> None:
        """Until the aggregator ends. A device that dies is its business.

        A death before the start is ours, and so is the evaluator's: without scores a run may never reach its end.
        """
        alive = dict(self._processes)
        seen = 0.0
        while AGGREGATOR in alive:
            ended = connection.wait([process.sentinel for process in alive.values()], timeout=_POLL_SECONDS)
            self._pass_on_signal()
            seen = self._show_status(seen)
            for name in [name for name, process in alive.items() if process.sentinel in ended]:
                process = alive.pop(name)
                # with the aggregator gone as well, that is the news: all end at once if the template dies
                if AGGREGATOR in alive and process.exitcode != 0 and self._told_to_stop == 0:
                    if not self._running or name == EVALUATOR:
                        raise RunFailed(self._why(name))
                    self._view.note(self._why(name))
            if self._running and alive.keys() <= {AGGREGATOR, EVALUATOR} and self._all_devices_died():
                raise RunFailed("every device has died")
        if self._processes[AGGREGATOR].exitcode != 0 and self._told_to_stop < 2:
            raise RunFailed(self._why(AGGREGATOR))

    def _all_devices_died(self) -> bool:
        """Killed or failed; at a normal end, those still alive end with 0."""
        return all(process.exitcode for name, process in self._processes.items() if name not in (AGGREGATOR, EVALUATOR))

    @property
    def _status_file(self) -> Path:
        return self._private / "status.json"

    def _show_status(self, seen: float) -> float:
        try:
            changed = self._status_file.stat().st_mtime
        except FileNotFoundError:
            return seen
        if changed != seen:
            self._running = True
            self._view.status(json.loads(self._status_file.read_text(encoding="utf-8")))
        return changed

    def _why(self, name: str) -> str:
        """How a process ended, and the last line of its log."""
        process = self._processes[name]
        process.join(_FAREWELL_SECONDS)
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        log = self._run_folder / "logs" / f"{name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
        return f"{name} (pid {process.pid}) {how}" + (f": {lines[-1]} (see {log})" if lines else "")

    # ---- ending

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and a closed terminal end the run cleanly, a second signal at once."""

        def note(number: int, _: object) -> None:
            self._signal = self._signal or number
            self._told_to_stop += 1

        old = {number: signal.signal(number, note) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _pass_on_signal(self) -> None:
        if self._told_to_stop == self._signals_passed_on:
            return
        self._signals_passed_on = self._told_to_stop
        if self._told_to_stop == 1:
            self._view.stopping()
            self._processes[AGGREGATOR].terminate()  # it ends the run and keeps the results
        else:
            self._processes[AGGREGATOR].kill()

    def _end_all(self) -> None:
        """The devices have been told to stop; those that did not hear it are ended by force."""
        aggregator = self._processes.get(AGGREGATOR)
        if aggregator is not None and aggregator.is_alive():
            aggregator.terminate()  # before the others: it keeps the results, and asks the devices for theirs
            aggregator.join(_FAREWELL_SECONDS)
        grace = _FAREWELL_SECONDS if self._processes and self._processes[AGGREGATOR].exitcode == 0 else 0.0
        limit = time.monotonic() + grace
        for process in self._processes.values():
            process.join(max(0.0, limit - time.monotonic()))
        alive = [process for process in self._processes.values() if process.is_alive()]
        for process in alive:
            process.kill()
        for process in alive:
            process.join(_FAREWELL_SECONDS)


@contextlib.contextmanager
def _pinned(core: int) -> Iterator[None]:
    """While devices keep their deadlines, the launcher stays off their cores. (The template only waits then.)"""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _endpoint(transport: Transport, private: Path) -> str:
    if transport.kind == "ipc":
        return f"ipc://{private}/hub"
    return f"tcp://127.0.0.1:{transport.port or '*'}"
