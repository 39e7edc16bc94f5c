"""Starts the processes of a run, watches them, and leaves nothing behind.

Who ends whom: every process is a child of the template and dies with it (PR_SET_PDEATHSIG); the template dies with
the launcher and removes the private folder, where the sockets are. So even ``kill -9`` of the launcher leaves no
process and no socket.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggregator.process.aggregator_config import AggregatorConfig, Resumption
from devices.device_config import GRAIN_SECONDS, CanaryConfig, DeviceConfig
from testbed.common.errors import UserError
from testbed.common.signals import STOP_SIGNALS
from testbed.emulation import recorded
from testbed.host import cgroups, kernel
from testbed.host.cgroups import CpuQuota
from testbed.host.cores import CorePlan, yield_to_everybody
from testbed.host.survey import Survey
from testbed.planning.planner import Plan
from testbed.processes.configs import EvaluatorConfig
from testbed.processes.forkserver import prepared_template
from testbed.processes.pool import AGGREGATOR, Processes, RunFailed
from testbed.processes.preparation import TemplateFailed, answer, template_request
from testbed.processes.restarts import Schedule
from testbed.processes.watchdog import BOOT_SECONDS, RunView, StopRequests, Watchdog
from testbed.profile import fleet, script
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.replay import replay_setup
from testbed.wire import credentials, endpoints
from testbed.wire.authentication import new_key_pair
from testbed.wire.messages import EVALUATOR

_LAST_WORD_SECONDS = 0.05
"""A device that the script kills is silent at once, and tells what it had not told yet: then comes the SIGKILL."""
_CANARY_SHARE = 0.01
"""A canary sings about once a second, and takes no more than this share of its core."""


class Launcher:
    """The processes of one run."""

    def __init__(
        self,
        experiment: Experiment,
        cores: CorePlan,
        run_folder: Path,
        private: Path,
        view: RunView,
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
        self._processes, self._stopping = Processes(run_folder), StopRequests()
        self._watch: Watchdog | None = None
        """Over all that were started."""
        self._fence: cgroups.CgroupParent | None = None
        self._groups: list[CpuQuota] = []

    @property
    def interrupted_by(self) -> int | None:
        """The signal that ended the run early, if one did."""
        return self._stopping.signal

    @property
    def host_energy(self) -> dict[str, Any] | None:
        """What the host itself used since the run began, as far as it was measured."""
        return self._watch.host_energy if self._watch is not None else None

    def run(self) -> None:
        """Start everybody and wait for the end. Raises UserError or RunFailed."""
        with contextlib.suppress(UserError):
            cgroups.sweep(cgroups.find())  # what a run left behind that was killed
        with self._signals(), prepared_template(self._private, template_request(self._experiment, self._cores)):
            try:
                survey = self._survey()
                if survey is not None:
                    self._watch = self._start(self._admit(survey))
                    self._started({name: self._processes[name].pid or 0 for name in self._processes})
                    with _pinned(self._cores.aggregator):
                        self._watch.wait()
            finally:
                self._end_all()

    def _is_interrupted(self) -> bool:
        return self._stopping.signal is not None

    # ---- starting

    def _survey(self) -> Survey | None:
        try:
            return answer(self._private, self._is_interrupted)
        except TemplateFailed as failure:
            log = self._run_folder / "logs" / "template.log"
            with contextlib.suppress(OSError):  # then it can only be said in short
                log.write_text(failure.details, encoding="utf-8")
            raise RunFailed(f"{failure} (see {log})" if failure.details else str(failure)) from None

    def _start(self, plan: Plan) -> Watchdog:
        """Fork everybody, and say who watches over them."""
        resume = None
        if self._resume_at is not None:
            resume = Resumption(at=self._resume_at, dead=fleet.dead_at(plan.devices, self._resume_at))
        experiment, canaries, quotas = self._experiment, self._canaries(plan), self._quotas(plan)
        names = [spec.name for spec in plan.devices]
        replayed = self._prepare_replay(names) if experiment.replay.trace is not None else None
        status_file = self._private / "status.json"
        encrypted = endpoints.is_encrypted(experiment.transport)
        allow, credential = credentials.issue([*names, *canaries, EVALUATOR], new_key_pair if encrypted else None)
        endpoint = self._processes.fork_and_hear(
            AGGREGATOR,
            AggregatorConfig(
                experiment=experiment,
                devices=plan.devices,
                dilation=plan.dilation,
                demand=plan.demand,
                pressure=plan.survey.pressure,
                canaries=tuple(canaries),
                core=self._cores.aggregator,
                endpoint=endpoints.endpoint(experiment.transport, self._private),
                allow=allow,
                run_folder=str(self._run_folder),
                status_file=str(status_file),
                replay=replayed,
                resume=resume,
            ),
            self._is_interrupted,
        )
        evaluator = EvaluatorConfig(core=self._cores.evaluator, endpoint=endpoint, credential=credential[EVALUATOR])
        devices = {
            spec.name: DeviceConfig(
                spec=spec if replayed is None else _as_recorded(spec, replayed),
                core=core,
                endpoint=endpoint,
                credential=credential[spec.name],
                seed=experiment.seed,
                dilation=plan.dilation,
                beat=experiment.presence.beat,
                job=experiment.training,
                quota=quotas.get(spec.name),
                recording=replayed.recordings[spec.name] if replayed is not None else None,
                recording_end=experiment.replay.end,
                heads=str(self._private),
                begins=self._resume_at or 0.0,
            )
            for spec, core in zip(plan.devices, self._cores.devices, strict=True)
        }
        dead = resume.dead if resume is not None else frozenset()
        self._fork_fleet(
            {
                name: replace(canary, endpoint=endpoint, credential=credential[name])
                for name, canary in canaries.items()
            },
            evaluator,
            {name: device for name, device in devices.items() if name not in dead},
        )
        actions = script.scheduled_actions(
            (device.script for device in plan.devices),
            last_word=_LAST_WORD_SECONDS / plan.dilation,
            boot=BOOT_SECONDS / plan.dilation,
        )
        schedule = Schedule(act for act in actions if self._resume_at is None or act.at > self._resume_at)
        return Watchdog(
            self._processes, experiment, devices, evaluator, schedule, self._stopping, self._view, status_file, dead
        )

    def _fork_fleet(
        self, canaries: Mapping[str, CanaryConfig], evaluator: EvaluatorConfig, devices: Mapping[str, DeviceConfig]
    ) -> None:
        """One after the other, unless a signal comes meanwhile."""
        for name, canary in canaries.items():  # alone: before the devices
            if self._is_interrupted():
                return
            self._processes.fork_and_hear(name, canary, self._is_interrupted)
        self._processes.fork(EVALUATOR, evaluator)
        for number, (name, device) in enumerate(devices.items(), 1):
            if self._is_interrupted():
                return
            self._processes.fork(name, device)
            self._view.starting(number, len(devices))

    def _prepare_replay(self, names: list[str]) -> recorded.PreparedReplay:
        self._view.starting(0, len(names))  # a long trace takes some seconds
        prepared = replay_setup.prepare(self._experiment, names, self._private / "replay")
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
                name=f"canary@{core}",
                core=core,
                endpoint="",
                dilation=plan.dilation,
                batch=step.samples,
                steps=steps,
                seconds=steps * step.asked,
                every=max(1.0, steps * step.needed / _CANARY_SHARE),
            )
            for core in sorted(set(self._cores.devices))
        }

    def _quotas(self, plan: Plan) -> dict[str, CpuQuota | float]:
        """Of the devices that a quota slows."""
        quotas: dict[str, CpuQuota | float] = {}
        for step in plan.steps:
            key = f"devices[{step.device.group}].profile.throttle ({step.device.name})"
            if step.device.throttle == "signal":
                if not kernel.keeps_account():
                    raise UserError(f'{key}: signal needs /proc/PID/schedstat, which this kernel lacks; use "pace"')
                quotas[step.device.name] = step.quota
            elif step.device.throttle == "cgroup":
                try:
                    quotas[step.device.name] = group = self._fenced().quota(step.device.name, step.quota)
                except UserError as problem:
                    raise UserError(f"{key}: {problem}") from None
                self._groups.append(group)
        return quotas

    def _fenced(self) -> cgroups.CgroupParent:
        if self._fence is None:
            self._fence = cgroups.find().fence(os.getpid())
        return self._fence

    # ---- ending

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and a closed terminal end the run cleanly, a second signal at once."""
        old = {number: signal.signal(number, self._stopping.note) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _end_all(self) -> None:
        self._processes.end_all(self._loosen_quotas)
        if self._fence is not None:
            try:
                self._fence.close()
            except UserError as problem:  # no reason to lose the results; the next run sweeps
                self._view.note(str(problem))

    def _loosen_quotas(self) -> None:
        for quota in self._groups:
            with contextlib.suppress(UserError):
                quota.set(1.0)  # or whoever is in it has hardly the time to die


def _as_recorded(spec: DeviceSpec, replayed: recorded.PreparedReplay) -> DeviceSpec:
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
