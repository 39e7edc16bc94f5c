"""Starts the processes of a run, watches them, and ends all of them.

    with Launcher(experiment, roles, run_folder, private, view) as fleet:
        survey = fleet.survey()
        plan = ...  # admit the survey, or raise
        fleet.start(plan)
        fleet.wait()

Every process is a child of a run template and dies with it (PR_SET_PDEATHSIG). The templates end when the launcher
does, and the private folder that contains the sockets is removed. So even ``kill -9`` of the launcher leaves no process
and no socket behind (``root_template`` and ``forkserver`` say how).
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from devices.device_config import CanaryConfig, DeviceConfig
from testbed.common.errors import RunFailed, UserError
from testbed.common.signals import handled_signals
from testbed.emulation.recorded import PreparedReplay
from testbed.host.core_plan import CoreRoles
from testbed.host.priority import can_leave_idle, run_only_when_idle
from testbed.host.private_folder import PrivateFolder
from testbed.host.quotas import cgroups
from testbed.host.rapl import HostEnergy
from testbed.host.survey import Survey
from testbed.planning.planner import Plan
from testbed.processes.device_quotas import DeviceQuotas
from testbed.processes.fleet_configs import FleetConfigs, device_names
from testbed.processes.pool import AGGREGATOR, Processes
from testbed.processes.preparation import (
    Preparation,
    TemplateFailed,
    objects_of,
    prepared_template,
    template_request,
)
from testbed.processes.restarts import Schedule
from testbed.processes.templates.configs import EvaluatorConfig
from testbed.processes.watchdog import BOOT_SECONDS, RunView, StopRequests, Watchdog
from testbed.profile import script
from testbed.profile.schema import Experiment
from testbed.replay import replay_setup
from testbed.wire.messages import EVALUATOR

_GRACE_SECONDS = 0.05
"""Host seconds from a scripted kill to the SIGKILL: the device is silent at once, and sends its last events."""


class Launcher:
    """The processes of one run.

    Call ``survey``, ``start`` and ``wait`` once each, in this order, within the ``with`` block. From its beginning to
    its end, a stop signal (Ctrl-C, SIGTERM, a closed terminal) ends the run cleanly, and a second one ends it at once.
    """

    def __init__(
        self,
        experiment: Experiment,
        roles: CoreRoles,
        run_folder: Path,
        private: PrivateFolder,
        view: RunView,
        resume_at: float | None = None,
    ) -> None:
        """``resume_at``: continue an interrupted run from its checkpoint, which was made at this emulated second."""
        self._experiment, self._roles, self._view = experiment, roles, view
        self._run_folder, self._private, self._resume_at = run_folder, private, resume_at
        self._processes, self._stopping, self._quotas = Processes(run_folder), StopRequests(), DeviceQuotas()
        self._preparation: Preparation | None = None
        self._watchdog: Watchdog | None = None
        self._has_deadlines = True
        self._clean_up = contextlib.ExitStack()

    @property
    def interrupted_by(self) -> int | None:
        """The signal that ended the run early, if one did."""
        return self._stopping.signal

    @property
    def host_energy(self) -> HostEnergy | None:
        """The energy that the host used since the run began; None if it was not measured."""
        return self._watchdog.host_energy if self._watchdog is not None else None

    def __enter__(self) -> Launcher:
        """Handle stop signals and send the template its request."""
        with contextlib.suppress(UserError):
            cgroups.sweep(cgroups.find())  # a killed run may have left groups
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._signals())
            request = template_request(self._experiment, self._roles)
            self._preparation = stack.enter_context(
                prepared_template(self._private, request, objects_of(self._experiment))
            )
            stack.callback(self._end_all)
            self._clean_up = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        """End all processes and the template, remove control groups and restore the signal handlers."""
        self._clean_up.__exit__(*exception)

    # ---- the run

    def survey(self) -> Survey | None:
        """Wait for the survey of the template; None if a signal came first.

        Raises UserError if the experiment cannot be prepared, RunFailed if the template failed.
        """
        assert self._preparation is not None
        try:
            return self._preparation.survey(self._is_interrupted)
        except TemplateFailed as failure:
            log = self._processes.template_log
            with contextlib.suppress(OSError):  # a full disk: the message must do without the log
                log.write_text(failure.details, encoding="utf-8")
            raise RunFailed(f"{failure} (see {log})" if failure.details else str(failure)) from None

    def start(self, plan: Plan) -> dict[str, int]:
        """Fork all processes and return the pid of each; after a signal, the rest is not forked.

        Raises UserError or RunFailed if a process cannot be started.
        """
        self._has_deadlines = plan.core_plan.pinned
        configs = FleetConfigs(
            self._experiment,
            plan,
            self._private.path,
            quotas=self._quotas.assign(plan),
            replay=self._prepare_replay(plan),
            resume_at=self._resume_at,
        )
        assert self._preparation is not None
        self._processes.fork_from(self._preparation.run_templates(len(plan.devices), self._processes.template_log))
        aggregator = configs.aggregator(self._run_folder)
        endpoint = self._processes.fork_and_wait(AGGREGATOR, aggregator, self._is_interrupted)
        evaluator, devices = configs.evaluator(endpoint), configs.devices(endpoint)
        living = {name: device for name, device in devices.items() if name not in configs.dead}
        self._fork_fleet(configs.canaries(endpoint), evaluator, living)
        self._watchdog = Watchdog(
            self._processes,
            self._experiment,
            devices,
            evaluator,
            self._schedule(plan),
            self._stopping,
            self._view,
            configs.status_file,
            configs.dead,
        )
        return {name: self._processes[name].pid for name in self._processes}

    def wait(self) -> None:
        """Block until the aggregator process exits. Raises RunFailed if the run fails."""
        assert self._watchdog is not None, "start() comes first"
        with _pinned(self._roles.aggregator) if self._has_deadlines else contextlib.nullcontext():
            self._watchdog.wait()

    def _is_interrupted(self) -> bool:
        return self._stopping.signal is not None

    # ---- starting

    def _prepare_replay(self, plan: Plan) -> PreparedReplay | None:
        if self._experiment.replay.trace is None:
            return None
        names = device_names(plan)
        self._view.starting(0, len(names))  # reading a long trace takes some seconds
        prepared = replay_setup.prepare(self._experiment, names, self._private.path / "replay")
        if prepared.torn is not None:
            self._view.note(f"the last line of the trace ({prepared.torn}) is incomplete; replaying up to there")
        return prepared

    def _fork_fleet(
        self, canaries: Mapping[str, CanaryConfig], evaluator: EvaluatorConfig, devices: Mapping[str, DeviceConfig]
    ) -> None:
        """Fork all processes, until a signal comes."""
        for name, canary in canaries.items():  # before the devices, so that its first probe has the core to itself
            if self._is_interrupted():
                return
            self._processes.fork_and_wait(name, canary, self._is_interrupted)
        self._processes.fork(EVALUATOR, evaluator)
        self._processes.fork_all(devices, self._is_interrupted, self._view.starting)

    def _schedule(self, plan: Plan) -> Schedule:
        """The scripted kills and rejoins that are still to come."""
        actions = script.scheduled_actions(
            (device.script for device in plan.devices),
            grace=_GRACE_SECONDS / plan.dilation,
            boot=BOOT_SECONDS / plan.dilation,
        )
        return Schedule(act for act in actions if self._resume_at is None or act.at > self._resume_at)

    # ---- ending

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Note stop signals instead of dying from them."""
        old = {number: signal.signal(number, self._stopping.note) for number in handled_signals()}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _end_all(self) -> None:
        self._processes.end_all(self._quotas.lift)
        try:
            self._quotas.close()
        except UserError as problem:  # no reason to lose the results
            self._view.note(str(problem))


@contextlib.contextmanager
def _pinned(core: int) -> Iterator[None]:
    """Keep the launcher off the devices' cores, and below the aggregator on its core, while devices have deadlines.

    (The template only waits then.) An ordinary user may not leave SCHED_IDLE again: the report would wait for a free
    core, and so would every process of the next run that the same script starts. It keeps its priority then.
    """
    before, lower = os.sched_getaffinity(0), can_leave_idle()
    os.sched_setaffinity(0, {core})
    if lower:
        run_only_when_idle()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        if lower:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
