"""Starts the processes of a run, watches them, and leaves nothing behind.

Who ends whom: every process is a child of the template and dies with it (PR_SET_PDEATHSIG); the template dies with
the launcher and removes the private folder, where the sockets are. So even ``kill -9`` of the launcher leaves no
process and no socket.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

from testbed import cgroups, child, host, rapl, replay, resuming, script
from testbed.cgroups import Quota
from testbed.clock import WallClock
from testbed.cores import CorePlan, yield_to_everybody
from testbed.errors import UserError
from testbed.fleet import DeviceSpec
from testbed.forking import prepared_template
from testbed.messages import EVALUATOR
from testbed.planner import Plan
from testbed.preparation import TemplateFailed, answer, order
from testbed.profile import Experiment, Transport
from testbed.roles import (
    GRAIN_SECONDS,
    AggregatorConfig,
    CanaryConfig,
    DeviceConfig,
    EvaluatorConfig,
    Rejoining,
    Resumption,
    RoleConfig,
)
from testbed.survey import Survey
from testbed.template import STOP_SIGNALS

AGGREGATOR = "aggregator"
_POLL_SECONDS = 0.25
_FAREWELL_SECONDS = 5.0
_LAST_WORD_SECONDS = 0.05
"""A device that the script kills is silent at once, and tells what it had not told yet: then comes the SIGKILL."""
_BOOT_SECONDS = 1.0
"""Before a device rejoins, it is forked and warmed up: what that takes here must not be part of its absence."""
_CANARY_SHARE = 0.01
"""A canary sings about once a second, and takes no more than this share of its core."""


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
        cores: CorePlan,
        run_folder: Path,
        private: Path,
        view: View,
        admit: Callable[[Survey], Plan],
        started: Callable[[dict[str, int]], None],
        resume_at: float | None = None,
    ) -> None:
        """``admit`` says how the experiment is run, or refuses it; ``started`` is told everybody's pid.

        ``resume_at``: the run was interrupted, and goes on from the checkpoint that was made then.
        """
        self._experiment, self._cores, self._view = experiment, cores, view
        self._admit, self._started = admit, started
        self._run_folder, self._private, self._resume_at = run_folder, private, resume_at
        self._context = multiprocessing.get_context("forkserver")
        self._processes: dict[str, ForkServerProcess] = {}
        self._devices: dict[str, DeviceConfig] = {}
        self._acts: list[script.Act] = []
        """Kills and rejoins that the script still wants."""
        self._killed: set[str] = set()
        self._clock: WallClock | None = None
        """Of the run, once it has begun."""
        self._fence: cgroups.Fence | None = None
        self._groups: list[Quota] = []
        self._rapl: rapl.Meter | None = None
        self._told_to_stop = 0
        self._signal: int | None = None
        self._signals_passed_on = 0
        self._running = False

    @property
    def interrupted_by(self) -> int | None:
        """The signal that ended the run early, if one did."""
        return self._signal

    @property
    def host_energy(self) -> dict[str, Any] | None:
        """What the host itself used since the run began, as far as it was measured."""
        return self._rapl.report() if self._rapl is not None else None

    def run(self) -> None:
        """Start everybody and wait for the end. Raises UserError or RunFailed."""
        with contextlib.suppress(UserError):
            cgroups.sweep(cgroups.find())  # what a run left behind that was killed
        with self._signals(), prepared_template(self._private, order(self._experiment, self._cores)):
            try:
                survey = self._survey()
                if survey is not None:
                    self._start(self._admit(survey))
                    self._started({name: process.pid or 0 for name, process in self._processes.items()})
                    with _pinned(self._cores.aggregator):
                        self._watch()
            finally:
                self._end_all()

    # ---- starting

    def _survey(self) -> Survey | None:
        try:
            return answer(self._private, lambda: self._signal is not None)
        except TemplateFailed as failure:
            log = self._run_folder / "logs" / "template.log"
            log.write_text(failure.details, encoding="utf-8")
            raise RunFailed(f"{failure} (see {log})" if failure.details else str(failure)) from None

    def _start(self, plan: Plan) -> None:
        self._acts = script.acts(
            (device.script for device in plan.devices),
            last_word=_LAST_WORD_SECONDS / plan.dilation, boot=_BOOT_SECONDS / plan.dilation,
        )  # fmt: skip
        resume = self._resumption(plan)
        experiment, canaries, quotas = self._experiment, self._canaries(plan), self._quotas(plan)
        names = [spec.name for spec in plan.devices]
        replayed = self._prepare_replay(names) if experiment.replay.trace is not None else None
        endpoint = self._start_first(
            AGGREGATOR,
            AggregatorConfig(
                experiment=experiment, plan=plan, canaries=tuple(canaries), core=self._cores.aggregator,
                endpoint=_endpoint(experiment.transport, self._private),
                run_folder=str(self._run_folder), status_file=str(self._status_file), replay=replayed,
                resume=resume,
            ),
        )  # fmt: skip
        for name, canary in canaries.items():  # alone: before the devices
            if self._signal is not None:
                return
            self._start_first(name, replace(canary, endpoint=endpoint))
        self._fork(EVALUATOR, EvaluatorConfig(core=self._cores.evaluator, endpoint=endpoint))
        for number, (spec, core) in enumerate(zip(plan.devices, self._cores.devices, strict=True), 1):
            if self._signal is not None:
                return
            config = DeviceConfig(
                spec=spec if replayed is None else _as_recorded(spec, replayed), core=core,
                endpoint=endpoint, seed=experiment.seed, dilation=plan.dilation,
                beat=experiment.presence.beat, job=experiment.training, quota=quotas.get(spec.name),
                recording=replayed.recordings[spec.name] if replayed is not None else None,
                recording_end=experiment.replay.end, heads=str(self._private),
                begins=self._resume_at or 0.0,
            )  # fmt: skip
            self._devices[spec.name] = config
            if spec.name not in self._killed:
                self._fork(spec.name, config)
            self._view.starting(number, len(plan.devices))

    def _resumption(self, plan: Plan) -> Resumption | None:
        """Of a run that goes on: what the script has done by then is done."""
        if self._resume_at is None:
            return None
        self._killed.update(resuming.dead(plan.devices, self._resume_at))
        self._acts = [act for act in self._acts if act.at > self._resume_at]
        return Resumption(at=self._resume_at, dead=frozenset(self._killed))

    def _prepare_replay(self, names: list[str]) -> replay.Prepared:
        self._view.starting(0, len(names))  # a long trace takes some seconds
        prepared = replay.prepare(self._experiment, names, self._private / "replay")
        if prepared.torn is not None:
            self._view.note(
                f"its last line ({prepared.torn}) is torn, as a crash leaves it; it is replayed up to there"
            )
        return prepared

    def _canaries(self, plan: Plan) -> dict[str, CanaryConfig]:
        """One on each core of devices, if there are deadlines at all; as long as what devices are checked by."""
        step = plan.shortest_step
        if step is None:
            return {}
        steps = math.ceil(GRAIN_SECONDS / step.asked)
        return {
            f"canary@{core}": CanaryConfig(
                name=f"canary@{core}", core=core, endpoint="", dilation=plan.dilation, batch=step.samples,
                steps=steps, seconds=steps * step.asked, every=max(1.0, steps * step.needed / _CANARY_SHARE),
            )
            for core in sorted(set(self._cores.devices))
        }  # fmt: skip

    def _quotas(self, plan: Plan) -> dict[str, Quota | float]:
        """Of the devices that a quota slows."""
        quotas: dict[str, Quota | float] = {}
        for step in plan.steps:
            key = f"devices[{step.device.group}].profile.throttle ({step.device.name})"
            if step.device.throttle == "signal":
                if not host.keeps_account():
                    raise UserError(f'{key}: signal needs /proc/PID/schedstat, which this kernel lacks; use "pace"')
                quotas[step.device.name] = step.quota
            elif step.device.throttle == "cgroup":
                try:
                    quotas[step.device.name] = group = self._fenced().quota(step.device.name, step.quota)
                except UserError as problem:
                    raise UserError(f"{key}: {problem}") from None
                self._groups.append(group)
        return quotas

    def _fenced(self) -> cgroups.Fence:
        if self._fence is None:
            self._fence = cgroups.find().fence(os.getpid())
        return self._fence

    def _start_first(self, name: str, config: RoleConfig) -> str:
        """Fork a process that others wait for, and wait for its one word, or for a signal."""
        listener, report = self._context.Pipe(duplex=False)
        self._fork(name, config, report)
        report.close()
        try:
            while not listener.poll(_POLL_SECONDS):
                if self._signal is not None:
                    return ""
            said = json.loads(listener.recv_bytes())
        except EOFError:
            raise RunFailed(self._why(name)) from None
        finally:
            listener.close()
        if "ready" in said:
            return str(said["ready"])
        raise (UserError if said["user"] else RunFailed)(said["problem"])

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
            patience = self._until_next_act()
            ended = connection.wait([process.sentinel for process in alive.values()], timeout=patience)
            self._pass_on_signal()
            seen = self._show_status(seen)
            self._meter_host()
            for name in [name for name, process in alive.items() if process.sentinel in ended]:
                process = alive.pop(name)
                if name in self._devices and process.exitcode == 0:
                    self._acts.clear()  # devices are being told to stop: the run is over
                # with the aggregator gone as well, that is the news: all end at once if the template dies
                if AGGREGATOR in alive and process.exitcode != 0 and self._told_to_stop == 0:
                    if not self._running or name == EVALUATOR:
                        raise RunFailed(self._why(name))
                    self._view.note(self._why(name))
            if self._running and alive.keys().isdisjoint(self._devices) and self._all_devices_died():
                raise RunFailed("every device has died")
            if AGGREGATOR in alive:
                self._follow_script(alive)
        if self._processes[AGGREGATOR].exitcode != 0 and self._told_to_stop < 2:
            raise RunFailed(self._why(AGGREGATOR))

    def _meter_host(self) -> None:
        if self._rapl is not None:
            self._rapl.look(time.monotonic())
        elif self._running:
            self._rapl = rapl.Meter(time.monotonic())

    def _all_devices_died(self) -> bool:
        """Killed or failed; at a normal end, those still alive end with 0. What the script wants is no failure."""
        if self._killed.issuperset(self._devices) or any(act.do == "rejoin" for act in self._acts):
            return False
        return all(self._processes[name].exitcode for name in self._devices if name in self._processes)

    # ---- the script

    def _until_next_act(self) -> float:
        """Host seconds for which there is nothing to do but to look."""
        if self._clock is None or not self._acts:
            return _POLL_SECONDS
        left = self._clock.host_seconds(self._acts[0].moment - self._clock.now())
        return min(_POLL_SECONDS, max(0.0, left))

    def _follow_script(self, alive: dict[str, ForkServerProcess]) -> None:
        """Kill and fork whom the script wants dead or alive by now."""
        if self._told_to_stop:
            self._acts.clear()
        while self._clock is not None and self._acts and self._acts[0].moment <= self._clock.now():
            act = self._acts.pop(0)
            if act.do == "kill":
                self._processes[act.device].kill()
                self._processes[act.device].join(_FAREWELL_SECONDS)
                alive.pop(act.device, None)  # it is no news that it has died
                self._killed.add(act.device)
            else:
                rejoining = Rejoining(at=act.at, origin=self._clock.origin)
                self._fork(act.device, replace(self._devices[act.device], rejoining=rejoining))
                alive[act.device] = self._processes[act.device]
                self._killed.discard(act.device)

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
            status = json.loads(self._status_file.read_text(encoding="utf-8"))
            self._clock = WallClock(status["origin"], status["dilation"])
            self._view.status(status)
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
        for quota in self._groups:
            with contextlib.suppress(UserError):
                quota.set(1.0)  # or whoever is in it has hardly the time to die
        for process in alive:
            process.join(_FAREWELL_SECONDS)
        if self._fence is not None:
            try:
                self._fence.close()
            except UserError as problem:  # no reason to lose the results; the next run sweeps
                self._view.note(str(problem))


def _as_recorded(spec: DeviceSpec, replayed: replay.Prepared) -> DeviceSpec:
    """A device that is away when it was, and not when its profile says."""
    return replace(spec, availability=replayed.absences.get(spec.name), availability_offset=0.0)


@contextlib.contextmanager
def _pinned(core: int) -> Iterator[None]:
    """While devices keep their deadlines, the launcher stays off their cores, and steps back behind the aggregator.

    (The template only waits then.)
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    yield_to_everybody()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        with contextlib.suppress(PermissionError):  # the way back is for root only; what is left to do is short
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _endpoint(transport: Transport, private: Path) -> str:
    if transport.kind == "ipc":
        return f"ipc://{private}/hub"
    return f"tcp://127.0.0.1:{transport.port or '*'}"
