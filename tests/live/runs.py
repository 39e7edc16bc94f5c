"""Starts real runs by the command line, waits for their events, and collects their results."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import tomli_w

from testbed.analysis import trace_reading
from testbed.history import trace
from testbed.processes.templates import early
from tests.live import shared_templates

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "run_testbed.py"
PATIENCE = 300.0
"""Host seconds until a test takes a run for hung: no run of a test needs as long, even on a crowded host."""
_LOOK_SECONDS = 0.05
_WRONG_SURVEY = re.compile("warning: the .* was wrong: steps needed")

SMALL: dict[str, Any] = {
    "name": "small",
    "seed": 1,
    "dilation": "auto",  # 1 on an idle host; load of other programs must not make a test fail
    "strategy": "fedasync",
    "training": {"steps": 4, "batch": 32, "lr": 0.1, "momentum": 0.5},
    "evaluation": {"every": 0.5},
    "presence": {"heartbeat": 0.25, "timeout": 10.0},
    "devices": [{"profile": "rpi4", "link": "wifi", "count": 3}],
    "stop": {"seconds": 600.0},
}

T = TypeVar("T")
Result = subprocess.CompletedProcess[str]


def with_this_code() -> dict[str, str]:
    """The environment of a script that imports this copy of the project, whichever copy is installed."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def write_profile(folder: Path, **changes: Any) -> Path:
    """Write the small experiment, with changes at the top level, to a file."""
    path = folder / "small.toml"
    path.write_text(tomli_w.dumps(SMALL | changes), encoding="utf-8")
    return path


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run that has ended."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        return self.json("summary.json")

    @property
    def events(self) -> list[trace.Event]:
        return list(trace.read(trace_reading.file_of(self.folder)))

    def json(self, name: str) -> dict[str, Any]:
        table: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return table

    def csv(self, name: str) -> list[dict[str, str]]:
        with (self.folder / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def of_kind(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    def recount(self) -> dict[str, int]:
        """Count in the trace how tickets ended. No ticket may end twice, or without a dispatch."""
        count = dict.fromkeys(("dispatched", "applied", "rejected", "lost", "superseded", "delivered"), 0)
        in_flight: set[int] = set()
        for event in self.events:
            kind = type(event).__name__.lower()
            if isinstance(event, trace.Dispatched):
                in_flight.add(event.ticket)
                count["dispatched"] += 1
            elif isinstance(event, trace.Aggregated):
                fresh = [ticket for ticket in event.tickets if ticket in in_flight]
                assert len(fresh) == len(event.staleness)  # other tickets were applied before, and are used again
                in_flight.difference_update(fresh)
                count["applied"] += len(fresh)
            elif isinstance(event, trace.Merged):
                assert in_flight.issuperset(event.tickets)
                in_flight.difference_update(event.tickets)
                count["applied"] += len(event.tickets)
            elif isinstance(event, (trace.Rejected, trace.Lost, trace.Superseded, trace.Delivered)):
                in_flight.remove(event.ticket)
                count[kind] += 1
        return count | {"in_flight": len(in_flight)}


class Run:
    """A run that is going on."""

    def __init__(
        self,
        profile: Path,
        out: Path,
        options: tuple[str, ...],
        *,
        report: bool = False,
        program: Path = PROGRAM,
        template: socket.socket | None = None,
    ) -> None:
        """``template`` is a connection to the templates of another process; without it, the run makes its own."""
        command = [sys.executable, str(program), *_words(profile, out, options, report=report)]
        self._out = out
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  close() closes it
        inherited = {} if template is None else {early.SOCKET: template.fileno()}
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._errors,  # a test may read it while the run is going on
            text=True,
            cwd=profile.parent,
            start_new_session=True,
            pass_fds=[*inherited.values()],
            env=os.environ | {name: str(number) for name, number in inherited.items()},
        )

    @property
    def folder(self) -> Path:
        [folder] = self._out.iterdir()
        return folder

    def wait_for(self, condition: Callable[[], T], what: str) -> T:
        """Wait for the first true answer and return it. Fails as soon as the run ends without one."""
        limit = time.monotonic() + PATIENCE
        while not (answer := condition()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.process.wait(_LOOK_SECONDS)
                raise AssertionError(f"exit {code} before {what}: {self.process.communicate()[0]} {self.errors()}")
            assert time.monotonic() < limit, f"{PATIENCE:g} s without {what}"
        return answer

    def wait_until_traced(self, kind: str, count: int = 1) -> None:
        """Wait until the trace has ``count`` events of a kind."""
        word = f'{{"kind":"{kind}",'
        self.wait_for(lambda: self.traced().count(word) >= count, f"{count} × {kind}")

    def wait_until_each_delivered(self, count: int, devices: Collection[str] = ("rpi4-1", "rpi4-2", "rpi4-3")) -> None:
        """Wait until each of these devices has delivered ``count`` updates."""

        def is_done() -> bool:
            arrived = Counter(event.device for event in self.events() if isinstance(event, trace.Arrived))
            return all(arrived[device] >= count for device in devices)

        self.wait_for(is_done, f"{count} updates of each device")

    def wait_until_at_work(self) -> None:
        """Wait until the status shows a device in training, although updates are more frequent than heartbeats."""

        def states() -> set[str]:
            return {state for state, *_ in self.status().get("devices", {}).values()}

        self.wait_for(lambda: "training" in states(), "a device in training")

    def status(self) -> dict[str, Any]:
        """The status that the live view shows; empty before the run has begun."""
        files = list(Path(os.environ["TMPDIR"]).glob("edgebed-*/status.json"))
        status: dict[str, Any] = json.loads(files[0].read_text(encoding="utf-8")) if files else {}
        return status

    def members(self) -> dict[str, psutil.Process]:
        """The processes of the run by name, which is that of their log file.

        ``template`` is the one that the aggregator was forked from; ``template-2`` and so on are the other ones.
        """
        members = {"launcher": psutil.Process(self.process.pid)}
        for process in (*members["launcher"].children(recursive=True), *shared_templates.processes()):
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
                log = Path(f"/proc/{process.pid}/fd/1").readlink()
                if log.suffix == ".log" and log.stem != "template" and log.is_relative_to(self._out):
                    members[log.stem] = process
        if "aggregator" not in members:
            return members
        first = members["aggregator"].ppid()
        others = {process.ppid() for name, process in members.items() if name != "launcher"} - {first}
        members |= {f"template-{number}": psutil.Process(pid) for number, pid in enumerate(sorted(others), 2)}
        return members | {"template": psutil.Process(first)}

    def listening_port(self) -> int:
        """The TCP port of the aggregator."""
        connections = self.members()["aggregator"].net_connections("tcp")
        [port] = {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}
        return int(port)

    def interrupt(self) -> Outcome:
        """End the run by Ctrl-C, when a test has seen enough: how many seconds that takes depends on the host."""
        self.process.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self) -> Outcome:
        """Wait for the end. The pipes close when the last process that could write to them has ended."""
        stdout, _ = self.process.communicate(timeout=PATIENCE)
        return _outcome(self.process.returncode, stdout, self.errors(), self._out)

    def close(self) -> None:
        """Kill the run if it has not ended, and close what it wrote to."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def errors(self) -> str:
        """What the run has written to standard error so far."""
        return os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0).decode()

    def events(self) -> list[trace.Event]:
        """The events so far."""
        files = list(self._out.glob("*/trace.jsonl"))
        return list(trace.read(files[0])) if files else []

    def of_kind(self, kind: type[T]) -> list[T]:
        return [event for event in self.events() if isinstance(event, kind)]

    def traced(self) -> str:
        files = list(self._out.glob("*/trace.jsonl"))
        return files[0].read_text(encoding="utf-8") if files else ""


def _words(profile: Path, out: Path, options: tuple[str, ...], *, report: bool) -> list[str]:
    """The command line of a run."""
    # a report takes seconds, and has its own tests
    return ["run", str(profile), "--out", str(out), *(() if report else ("--no-report",)), *options]


def _outcome(code: int, stdout: str, stderr: str, out: Path) -> Outcome:
    folders = list(out.iterdir()) if out.exists() else []
    return Outcome(code=code, stdout=stdout, stderr=_without_survey(stderr), folder=folders[0] if folders else out)


def _without_survey(errors: str) -> str:
    """Leave out that the survey was wrong: it measured before other programs of this host began or ended."""
    return "".join(line for line in errors.splitlines(keepends=True) if not _WRONG_SURVEY.match(line))


def command(*words: str) -> Result:
    """Execute a command that is not a run."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {"COLUMNS": "200"},
        check=False,
    )


@contextlib.contextmanager
def started(
    profile: Path, *options: str, report: bool = False, program: Path = PROGRAM, own_templates: bool = False
) -> Iterator[Run]:
    """Start a run with results in ``runs`` beside the profile; kill it if the test fails.

    It is forked from templates that all tests of this worker share, unless a test looks at these or kills all at once.
    """
    with contextlib.nullcontext() if own_templates else shared_templates.connected() as template:
        run = Run(profile, profile.parent / "runs", options, report=report, program=program, template=template)
    try:
        yield run
    finally:
        run.close()


def complete(profile: Path, *options: str, report: bool = False) -> Outcome:
    """Execute a run from start to end: as one of a sweep, whose launcher is forked, too, and imports nothing again."""
    with shared_templates.connected() as template:
        if template is not None:
            return _launched(profile, profile.parent / "runs", options, report=report, template=template)
    with started(profile, *options, report=report) as run:
        return run.finish()


def check_verified(outcome: Outcome) -> None:
    """Recompute a run that has ended: its events, scores and models must be equal."""
    from testbed.verification.verifying import verify  # imports torch, which few tests of a worker need

    result = verify(outcome.folder)
    assert (result.verdict, result.departure) == ("verified", None)


def complete_and_verify(profile: Path, *options: str) -> Outcome:
    """Execute a run from start to end, and recompute it."""
    outcome = complete(profile, *options)
    check_verified(outcome)
    return outcome


def _launched(profile: Path, out: Path, options: tuple[str, ...], *, report: bool, template: socket.socket) -> Outcome:
    with contextlib.chdir(profile.parent):
        run = shared_templates.launch(_words(profile, out, options, report=report), template)
    template.close()  # the run has its own copy
    limit = time.monotonic() + PATIENCE
    while not run.wait(_LOOK_SECONDS):
        if time.monotonic() > limit:
            run.signal(signal.SIGKILL)
            raise AssertionError(f"the run has not ended after {PATIENCE:g} s: {run.output} {run.errors}")
    assert run.code is not None
    return _outcome(run.code, run.output, run.errors, out)
