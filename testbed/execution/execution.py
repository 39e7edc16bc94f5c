"""One run of an experiment, from its core plan to its results: what the commands ``run`` and ``resume`` share."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from aggregator.process.checkpoint import Saved
from testbed.common.console import TerminalConsole, say
from testbed.common.errors import RunFailed, UserError
from testbed.execution import early_import, live_progress, report_writing, survey_check
from testbed.execution.guarded_view import GuardedView
from testbed.execution.outcome import Outcome
from testbed.execution.survey_check import StepUses
from testbed.history import packing
from testbed.history.trace import TraceError
from testbed.host import cores
from testbed.host.core_plan import CoreRoles
from testbed.host.memory import memory_check
from testbed.host.private_folder import private_folder
from testbed.host.rapl import HostEnergy
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.learning.data import progress_bar
from testbed.loading import script_check
from testbed.planning import plan_text, planner
from testbed.planning.planner import Plan
from testbed.processes.launcher import Launcher
from testbed.processes.templates import early
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.replay import replay_certificate
from testbed.report.content.report_data import ReportCollector
from testbed.runs import resuming, run_results, tensorboard
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.run_folder import RunFolder
from testbed.runs.run_results import RunResults
from testbed.wire import endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of an experiment, from its beginning or from a checkpoint."""

    experiment: Experiment
    source: Path | None
    """The profile that the user named; own strategies and tasks may be beside it. None if it is not a file."""
    open_folder: Callable[[], RunFolder]
    """Called when the input has been checked."""
    console: Console = field(default_factory=TerminalConsole)
    """For the live view and for what is said before the run."""
    quiet: bool = False
    """Nothing is shown but warnings, on standard error."""
    no_admission: bool = False
    report: bool = True
    """Whether to write report.html."""
    saved: Saved | None = None
    """The checkpoint that a resumed run continues from."""
    dilation_given: bool = False
    """Whether --dilation was given; without it, a resumed run may take any dilation that fits."""
    tensorboard: bool = False
    jobs: int = 0
    """On a virtual clock: how many processes compute the devices' jobs. 0: one on each core."""
    tell_failure: Callable[[str], None] = lambda problem: None
    """Called as soon as the run has failed, before its results are computed."""

    def say(self, text: str) -> None:
        if not self.quiet:
            say(self.console, text)


def execute(run: Execution) -> Outcome:
    """Run the processes and write the results. Raises UserError before the run begins."""
    if run.experiment.clock == "virtual":
        return _execute_virtually(run)
    early.begin()  # it imports torch while the data is read
    experiment, saved = run.experiment, run.saved
    devices = len(fleet.names(experiment))
    roles = cores.roles()
    memory_check.check_memory_and_files(devices)
    with progress_bar.ProgressBar() as progress:
        setup.check(experiment, progress)
    if run.tensorboard:
        tensorboard.check()
    folder = run.open_folder()
    run.say(f"{experiment.name}: {experiment.strategy_name} over {devices} devices")
    if saved is not None:
        run.say(f"continuing from version {saved.version}, at {saved.at:.1f} s")
    for problem in (*script_check.too_late(experiment), *endpoints.warnings(experiment.transport)):
        run.say(f"warning: {problem}")
    try:
        return _carry_out(run, roles, folder)
    except UserError:
        if saved is None:
            folder.remove()  # the run did not begin
        raise
    finally:
        folder.release()


def _execute_virtually(run: Execution) -> Outcome:
    """Compute a run on a virtual clock and write its results. Raises UserError before the run begins."""
    from testbed.execution import virtual_execution  # imports torch

    experiment = run.experiment
    if run.tensorboard:
        tensorboard.check()
    folder = run.open_folder()
    outcome = Outcome(folder=folder.path)
    count = len(fleet.names(experiment))
    run.say(f"{experiment.name}: {experiment.strategy_name} over {count} devices, on a virtual clock")
    for problem in script_check.too_late(experiment):
        run.say(f"warning: {problem}")
    try:
        devices = virtual_execution.run_virtually(
            experiment,
            folder,
            run.source,
            outcome,
            run.console,
            jobs=run.jobs or len(cores.available_cores()),
            quiet=run.quiet,
        )
        if outcome.failure is not None:
            run.tell_failure(outcome.failure)
        _write_results(run, folder, outcome, None, None, devices)
        return outcome
    except UserError:
        folder.remove()  # the run did not begin
        raise
    finally:
        folder.release()


def _carry_out(run: Execution, roles: CoreRoles, folder: RunFolder) -> Outcome:
    """Run the processes, then write the results. Raises UserError before the run begins."""
    outcome = Outcome(folder=folder.path)
    plan, host_energy = _run_processes(run, roles, folder, outcome)
    if plan is not None or run.saved is None:  # else interrupted before the run resumed: its results are unchanged
        devices = plan.devices if plan is not None else ()
        _write_results(run, folder, outcome, plan, host_energy, devices)
    return outcome


# ---- processes


def _run_processes(
    run: Execution, roles: CoreRoles, folder: RunFolder, outcome: Outcome
) -> tuple[Plan | None, HostEnergy | None]:
    """Return the admitted plan (None if there is none) and the energy that the host measured."""
    errors = TerminalConsole(stderr=True)
    view = GuardedView(lambda: live_progress.view(run.console, errors, quiet=run.quiet))
    resume_at = None if run.saved is None else run.saved.at
    plan = None
    with private_folder() as private:
        launcher = Launcher(run.experiment, roles, folder.path, private, view, resume_at=resume_at)
        try:
            with launcher:
                survey = launcher.survey()
                if survey is not None:
                    if run.saved is not None:
                        then = resuming.data_digest_of(folder.path)
                        resuming.check_data(folder.path, run.experiment, then, survey.data_sha256)
                    plan = _admit(run, survey, roles)
                    folder.write_profile(replace(run.experiment, dilation=plan.dilation))
                    for note in survey.notes:
                        run.say(note)
                    run.say(f"core plan: {plan.core_plan}")
                    run.say(plan_text.demand(plan))
                    if survey.is_remembered:
                        run.say(survey.origin)
                    pids = launcher.start(plan)
                    folder.write_meta(run.experiment, plan, pids, run.source)
                    if run.saved is not None:
                        folder.forget_results()
                    with early_import.imported_beside(roles.aggregator) if run.report else nullcontext():
                        launcher.wait()
        except RunFailed as failure:
            outcome.failure = str(failure)
            view.close()
            run.tell_failure(outcome.failure)
        finally:
            view.close()
    if view.failure is not None:
        log = report_writing.keep_log(view.failure, folder.path, "view.log")
        outcome.warnings.append(f"the live view failed, and the run went on without it; see {log}")
    outcome.signal = launcher.interrupted_by
    return plan, launcher.host_energy


def _admit(run: Execution, survey: Survey, roles: CoreRoles) -> Plan:
    """Return the plan of the run. Raises HostTooSmall if this host is too small for it."""
    plan = planner.settled(run.experiment, survey, roles)
    if run.saved is not None and not plan.fits and not run.dilation_given and not run.no_admission:
        # emulated time is the same at any dilation, so a run that was admitted once can continue at another
        plan = planner.settled(replace(run.experiment, dilation="auto"), survey, roles)
    if not plan.fits and not run.no_admission:
        raise planner.refusal(plan)
    return plan


# ---- results


def _write_results(
    run: Execution,
    folder: RunFolder,
    outcome: Outcome,
    plan: Plan | None,
    host_energy: HostEnergy | None,
    devices: Sequence[DeviceSpec],
) -> None:
    """Read the trace once, and write results and report; pack the trace if the profile says so."""
    experiment = run.experiment
    uses = StepUses()
    try:
        results, collected = _compute(run, folder, devices, host_energy, uses)
    except TraceError as error:
        outcome.unreadable = f"the trace cannot be read, so there are no results: {error}"
        return
    folder.write_results(results, tensorboard=run.tensorboard)
    if plan is not None:
        outcome.warnings += survey_check.recheck(plan, uses, results.summary.fidelity)
        survey_check.remember_service(plan, str(experiment.strategy_name), results.summary.fidelity)
    outcome.summary, outcome.unwritten = results.summary, folder.unwritten
    # before packing: it reads the plain trace
    outcome.resumable = outcome.exit_code != 0 and resuming.is_possible(folder.path, experiment)
    if experiment.compress:
        _pack(run, folder.trace, outcome)  # also if the run failed
    if run.report:
        report_writing.after_run(folder.path, outcome, results, collected, run.console, quiet=run.quiet)
    replay = results.summary.replay
    if replay is not None and experiment.replay.mode == "strict":
        outcome.departure = _departure(replay)


def _departure(replay: ReplayCertificate) -> str | None:
    """Return how a strict replay differs from the recorded run, or why that is unknown; None if it does not."""
    if replay.problem is not None:
        return f"is not certified: {replay.problem}"
    found = replay_certificate.departure(replay)
    return None if found is None else f"differs from the recorded run in: {found}"


def _compute(
    run: Execution,
    folder: RunFolder,
    devices: Sequence[DeviceSpec],
    host_energy: HostEnergy | None,
    uses: StepUses,
) -> tuple[RunResults, ReportCollector | None]:
    """Return the results, and what the report needs (None: it must read the trace itself)."""

    def compute(collected: ReportCollector | None) -> RunResults:
        return run_results.compute(
            folder.trace,
            devices,
            run.experiment.replay,
            target=run.experiment.stop.target_accuracy,
            host_energy=host_energy,
            checkers=(uses,) if collected is None else (uses, *collected.checkers),
            listeners=() if collected is None else collected.listeners,
        )

    collected = ReportCollector() if run.report else None
    try:
        return compute(collected), collected
    except TraceError:
        raise
    except Exception:
        if collected is None:
            raise
        # hours of computing must not end in a failure to collect what a page shows
        report_writing.keep_log(traceback.format_exc(), folder.path)
        return compute(None), None


def _pack(run: Execution, path: Path, outcome: Outcome) -> None:
    """Pack the trace. Whatever goes wrong, the results and the trace are kept."""
    if not path.exists():  # the run failed before its first event
        return
    try:
        with live_progress.progress(run.console, f"packing {path.name}", quiet=run.quiet) as show:
            packing.pack(path, show)
    except OSError as error:
        outcome.warnings.append(f"{path}: cannot be packed: {error.strerror}; the uncompressed trace is kept")
    except KeyboardInterrupt:
        outcome.warnings.append(f"{path}: packing was interrupted; the uncompressed trace is kept")
        outcome.signal = outcome.signal or signal.SIGINT
