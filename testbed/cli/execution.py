"""What ``run`` and ``resume`` share: an experiment from its core plan to its results, and what a user reads of it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from aggregator.process.checkpoint import Saved
from testbed.cli import live_progress, report_command
from testbed.cli.options import ExecutionOptions
from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.history import packing
from testbed.history.trace import TraceError
from testbed.host import cores, memory_check
from testbed.host.cores import CorePlan
from testbed.host.rapl import HostEnergy
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.learning.data import progress_bar
from testbed.loading import script_check
from testbed.planning import plan_text, planner
from testbed.planning.planner import Plan
from testbed.processes import forkserver
from testbed.processes.launcher import Launcher
from testbed.processes.pool import RunFailed
from testbed.profile import fleet
from testbed.profile.schema import Experiment
from testbed.replay import replay_certificate
from testbed.runs import resuming, summary_text, tensorboard
from testbed.runs.run_folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of an experiment, from its beginning or from a checkpoint."""

    experiment: Experiment
    options: ExecutionOptions
    source: Path
    """The profile that the user named; own strategies and tasks may be beside it."""
    open_folder: Callable[[], RunFolder]
    """Called when the input has been checked."""
    saved: Saved | None = None
    """The checkpoint that a resumed run continues from."""
    dilation_given: bool = False
    """Whether --dilation was given; without it, a resumed run may take any dilation that fits."""
    tensorboard: bool = False

    @property
    def quiet(self) -> bool:
        return self.options.output.quiet

    @property
    def as_json(self) -> bool:
        return self.options.output.format == "json"

    def say(self, console: Console, text: str) -> None:
        if not self.quiet:
            say(console, text)


def execute(run: Execution) -> int:
    """Run the processes, write the results and show them. Returns the exit code; raises UserError before the start."""
    experiment, saved = run.experiment, run.saved
    devices = len(fleet.names(experiment))
    core_plan = cores.plan(cores.available_cores(), devices)
    memory_check.check_memory_and_files(devices)
    with progress_bar.ProgressBar() as progress:
        setup.check(experiment, progress)
    if run.tensorboard:
        tensorboard.check()
    console = Console(stderr=run.as_json)
    folder = run.open_folder()
    run.say(console, f"{experiment.name}: {experiment.strategy_name} over {devices} devices")
    if saved is not None:
        run.say(console, f"continuing from version {saved.version}, at {saved.at:.1f} s")
    run.say(console, f"core plan: {core_plan}")
    for problem in script_check.too_late(experiment):
        run.say(console, f"warning: {problem}")
    try:
        code, plan, host_energy = _run_processes(run, core_plan, folder, console)
    except UserError:
        if saved is None:
            folder.remove()  # the run did not begin
        raise
    if plan is None and saved is not None:
        return code  # interrupted before the run resumed: its results are unchanged
    return _write_results(run, folder, console, plan, host_energy, code)


# ---- processes


def _run_processes(
    run: Execution, core_plan: CorePlan, folder: RunFolder, console: Console
) -> tuple[int, Plan | None, HostEnergy | None]:
    """Return the exit code, the admitted plan (None if there is none) and the energy that the host measured."""
    view = live_progress.view(console, Console(stderr=True), quiet=run.quiet)
    resume_at = None if run.saved is None else run.saved.at
    code, plan = 0, None
    with forkserver.private_folder() as private:
        launcher = Launcher(run.experiment, core_plan, folder.path, private, view, resume_at=resume_at)
        try:
            with launcher:
                survey = launcher.survey()
                if survey is not None:
                    plan = _admit(run, survey, core_plan)
                    folder.write_profile(replace(run.experiment, dilation=plan.dilation))
                    run.say(console, plan_text.demand(plan))
                    pids = launcher.start(plan)
                    folder.write_meta(run.experiment, core_plan, plan, pids, run.source)
                    if run.saved is not None:
                        folder.forget_results()
                    launcher.wait()
        except RunFailed as failure:
            view.close()
            print(f"error: {failure}; what was recorded is kept", file=sys.stderr)
            code = 1
        finally:
            view.close()
    if code == 0 and launcher.interrupted_by is not None:
        code = 128 + launcher.interrupted_by
    return code, plan, launcher.host_energy


def _admit(run: Execution, survey: Survey, core_plan: CorePlan) -> Plan:
    """Return the plan of the run. Raises UserError if this host is too small for it."""
    forced = run.options.no_admission
    plan = planner.settled(run.experiment, survey, core_plan)
    if run.saved is not None and not plan.fits and not run.dilation_given and not forced:
        # emulated time is the same at any dilation, so a run that was admitted once can continue at another
        plan = planner.settled(replace(run.experiment, dilation="auto"), survey, core_plan)
    if not plan.fits and not forced:
        raise planner.refusal(plan)
    return plan


# ---- results


def _write_results(
    run: Execution,
    folder: RunFolder,
    console: Console,
    plan: Plan | None,
    host_energy: HostEnergy | None,
    code: int,
) -> int:
    """Write and show results and report. Returns ``code``, or 1 if the run succeeded and writing failed."""
    experiment = run.experiment
    try:
        summary = folder.write_results(
            plan.devices if plan is not None else (),
            experiment.replay,
            target=experiment.stop.target_accuracy,
            host_energy=host_energy,
            tensorboard=run.tensorboard,
        )
    except TraceError as error:
        print(f"error: the trace cannot be read, so there are no results: {error}", file=sys.stderr)
        return 1
    if folder.unwritten:
        code = report_unwritten(folder)
    resumable = code != 0 and resuming.is_possible(folder.path, experiment)  # before packing: it reads the plain trace
    if experiment.compress:
        packed = _pack(folder.trace, console, quiet=run.quiet)  # also if the run failed
        code = code or packed
    _show(run, console, summary, folder.path)
    if resumable:
        run.say(console, f"to continue: run_testbed.py resume {folder.path}")
    if not run.options.no_report:
        code = report_command.after_run(folder.path, console, quiet=run.quiet) or code
    if code == 0 and experiment.replay.mode == "strict" and "replay" in summary:
        code = _check_replay(summary["replay"], summary["stopped"])
    return code


def _show(run: Execution, console: Console, summary: dict[str, Any], folder: Path) -> None:
    if run.as_json:
        print(json.dumps(summary | {"run_folder": str(folder)}, indent=2))
    elif run.quiet:
        print(folder)
    else:
        summary_text.show(console, summary, folder)


def report_unwritten(folder: RunFolder) -> int:
    """Print which files of the results are missing, and why. Returns the exit code."""
    why = " and ".join(sorted(set(folder.unwritten.values())))
    remedy = f"free disk space; the trace is kept, and run_testbed.py report {folder.path} writes a page from it"
    print(f"error: {folder.path}: {', '.join(folder.unwritten)} cannot be written: {why}; {remedy}", file=sys.stderr)
    return 1


def _check_replay(certificate: dict[str, Any], stopped: str) -> int:
    """Return the exit code of a strict replay: 1, with a message, if it differs from the recorded run."""
    problem = certificate.get("problem")
    departure = None if problem is not None else replay_certificate.departure(certificate)
    if problem is None and departure is None:
        return 0
    found = f"is not certified: {problem}" if departure is None else f"differs from the recorded run in: {departure}"
    print(f"error: the replay {found} ({stopped})", file=sys.stderr)
    return 1


def _pack(path: Path, console: Console, *, quiet: bool) -> int:
    """Pack the trace. Whatever goes wrong, the results and the trace are kept. Returns the exit code."""
    if not path.exists():  # the run failed before its first event
        return 0
    try:
        with live_progress.progress(console, f"packing {path.name}", quiet=quiet) as show:
            packing.pack(path, show)
    except OSError as error:
        print(f"warning: {path}: cannot be packed: {error.strerror}; the uncompressed trace is kept", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"warning: {path}: packing was interrupted; the uncompressed trace is kept", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0
