"""The processes of a run by name: forking them from the run templates, why they ended, and ending all of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from testbed.common.channel import Channel, readable
from testbed.common.errors import RunFailed, UserError
from testbed.processes.templates import child, forkserver
from testbed.processes.templates.configs import RoleConfig
from testbed.processes.templates.forkserver import Exited, ForkBatch, ForkOrder, ForkReport
from testbed.processes.templates.run_process import RunProcess

AGGREGATOR = "aggregator"
_TEMPLATE = "template"
POLL_SECONDS = 0.25
_END_SECONDS = 5.0
_BATCH = 8
"""Processes that a template forks at one request. The next request comes when it has forked half of them."""


class RunTemplate:
    """A run template, as the launcher sees it: what it was asked to fork, and its processes that are alive."""

    def __init__(self, channel: Channel[ForkReport], pid: int) -> None:
        self.channel, self.pid = channel, pid
        self.forking = 0
        self.alive: dict[int, RunProcess] = {}

    def request(self, orders: Sequence[ForkOrder], descriptors: Sequence[int] = ()) -> None:
        self.channel.send(ForkBatch(orders=tuple(orders)), descriptors)
        self.forking += len(orders)


class Processes:
    """The processes of one run by name. A process that is forked again replaces its predecessor."""

    def __init__(self, run_folder: Path) -> None:
        self._logs = run_folder / "logs"
        self._templates: list[RunTemplate] = []
        self._processes: dict[str, RunProcess] = {}
        self._problems: dict[str, str] = {}
        """Name → why it could not be forked."""
        self._old_log_bytes: dict[str, int] = {}
        """Bytes in the log of a process that its predecessor wrote."""
        self._dead_templates: list[int] = []
        self._is_ending = False

    def __getitem__(self, name: str) -> RunProcess:
        return self._processes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._processes)

    def fork_from(self, templates: Sequence[RunTemplate]) -> None:
        """Fork from these templates from now on: single processes from the first one, fleets from all."""
        self._templates = list(templates)
        self._note_log_size(_TEMPLATE)

    @property
    def template_log(self) -> Path:
        """What the templates write, and processes that have not opened their own logs yet."""
        return self.log(_TEMPLATE)

    def log(self, name: str) -> Path:
        """The file that a process writes its output to."""
        return self._logs / f"{name}.log"

    def _note_log_size(self, name: str) -> None:
        log = self.log(name)
        self._old_log_bytes[name] = log.stat().st_size if log.exists() else 0

    # ---- forking

    def fork(self, name: str, config: RoleConfig, report: int | None = None) -> None:
        """Fork a process. Raises RunFailed if the host cannot."""
        self._request(self._living()[0], {name: config}, report)
        while name not in self._processes and name not in self._problems:
            self.wait_for_exits(POLL_SECONDS)
        self._check_forked()

    def fork_all(
        self,
        configs: Mapping[str, RoleConfig],
        interrupted: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> None:
        """Fork many processes, from all templates at the same time, until a signal comes. Raises RunFailed."""
        left = deque(configs.items())
        while True:
            if interrupted():
                left.clear()
            for template in self._living():
                if left and template.forking <= _BATCH // 2:
                    self._request(template, dict(left.popleft() for _ in range(min(_BATCH, len(left)))))
            forking = sum(template.forking for template in self._templates)
            if not forking:
                return
            self.wait_for_exits(POLL_SECONDS)
            self._check_forked()
            progress(len(configs) - len(left) - sum(template.forking for template in self._templates), len(configs))

    def fork_and_wait(self, name: str, config: RoleConfig, interrupted: Callable[[], bool]) -> str:
        """Fork a process and wait until it is ready; returns its answer, or "" if interrupted.

        Raises UserError or RunFailed if the process fails before that.
        """
        listener, report = os.pipe()
        with os.fdopen(listener, "rb") as pipe:
            try:
                self.fork(name, config, report)
            finally:
                os.close(report)
            while not readable([listener], POLL_SECONDS):
                if interrupted():
                    return ""
            text = pipe.read()
        if not text:
            raise RunFailed(self.why(name))
        answer = json.loads(text)
        if "ready" in answer:
            return str(answer["ready"])
        raise (UserError if answer["user"] else RunFailed)(answer["problem"])

    def _request(self, template: RunTemplate, configs: Mapping[str, RoleConfig], report: int | None = None) -> None:
        orders = []
        for name, config in configs.items():
            self._note_log_size(name)
            self._processes.pop(name, None)
            log = str(self.log(name))
            orders.append(forkserver.order(name, child.enter, config, log, descriptors=int(report is not None)))
        try:
            template.request(orders, () if report is None else (report,))
        except OSError as error:
            raise RunFailed(_not_forked(next(iter(configs)), repr(error))) from None

    def _check_forked(self) -> None:
        if self._problems:
            name, problem = next(iter(self._problems.items()))
            self._problems.clear()
            raise RunFailed(_not_forked(name, problem))

    def check_templates(self) -> None:
        """Raise RunFailed if a template has died: nothing more can be forked from it."""
        if self._dead_templates:
            raise RunFailed(self._template_died())

    def _living(self) -> list[RunTemplate]:
        self.check_templates()
        return self._templates

    # ---- ending

    def wait_for_exits(self, seconds: float) -> None:
        """Wait until a template reports something, and note the exit codes of processes that have ended."""
        ready = readable([template.channel.fileno() for template in self._templates], seconds)
        for template in [each for each in self._templates if each.channel.fileno() in ready]:
            try:
                self._hear(template, template.channel.receive()[0])
            except EOFError:
                self._note_death(template)

    def _hear(self, template: RunTemplate, report: ForkReport) -> None:
        if isinstance(report, Exited):
            template.alive.pop(report.pid).exitcode = report.code
            return
        template.forking -= 1
        if report.problem:
            self._problems[report.name] = report.problem
        else:
            self._processes[report.name] = template.alive[report.pid] = RunProcess(report.pid)

    def _note_death(self, template: RunTemplate) -> None:
        """A template has died, and the kernel kills its processes."""
        self._templates.remove(template)
        self._dead_templates.append(template.pid)
        template.channel.close()
        for process in template.alive.values():
            process.exitcode = -signal.SIGKILL
            with contextlib.suppress(ProcessLookupError), os.fdopen(os.pidfd_open(process.pid)) as ended:
                readable([ended.fileno()], _END_SECONDS)
        if template.forking and not self._is_ending:
            raise RunFailed(self._template_died())

    def join(self, name: str, seconds: float = _END_SECONDS) -> None:
        """Wait for the end of a process."""
        limit = time.monotonic() + seconds
        while self._processes[name].exitcode is None and (left := limit - time.monotonic()) > 0:
            self.wait_for_exits(left)

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self.join(name)

    def why(self, name: str) -> str:
        """How a process ended, and the last line that it wrote to its log.

        If it failed before it opened its log, the line is in that of the template. A killed process writes nothing.
        """
        process = self._processes[name]
        self.join(name)
        if self._dead_templates:
            return self._template_died()
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        line = self._last_line(name) or (self._last_line(_TEMPLATE) if code > 0 else "")
        return f"{name} (pid {process.pid}) {how}{line}"

    def _template_died(self) -> str:
        pids, why = ", ".join(map(str, self._dead_templates)), self._last_line(_TEMPLATE) or "; free memory"
        return f"the template (pid {pids}) died, and with it the processes that were forked from it{why}"

    def _last_line(self, name: str) -> str:
        """The last line in a log, as the end of a message; empty if this run has written nothing to it."""
        log = self.log(name)
        written = log.read_bytes()[self._old_log_bytes[name] :] if log.exists() else b""
        lines = written.decode(errors="replace").strip().splitlines()
        return f": {lines[-1]} (see {log})" if lines else ""

    def end_all(self, meanwhile: Callable[[], None]) -> None:
        """Wait for processes to end by themselves, then kill those that are left.

        ``meanwhile`` is called after the kill, before the wait for their end.
        """
        self._is_ending = True
        limit = time.monotonic() + _END_SECONDS
        while any(template.forking for template in self._templates) and (left := limit - time.monotonic()) > 0:
            self.wait_for_exits(left)
        aggregator = self._processes.get(AGGREGATOR)
        if aggregator is not None and aggregator.exitcode is None:
            aggregator.terminate()  # first: it saves the results, and asks the devices for theirs
            self.join(AGGREGATOR)
        grace = _END_SECONDS if aggregator is not None and aggregator.exitcode == 0 else 0.0
        limit = time.monotonic() + grace
        for name in self._processes:
            self.join(name, limit - time.monotonic())
        alive = [name for name, process in self._processes.items() if process.exitcode is None]
        for name in alive:
            self._processes[name].kill()
        meanwhile()
        for name in alive:
            self.join(name)
        for template in self._templates:
            template.channel.close()
        self._templates.clear()


def _not_forked(name: str, problem: str) -> str:
    return f"{name} could not be forked: {problem}; free memory, or raise the limit on processes (ulimit -u)"
