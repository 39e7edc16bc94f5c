"""The commands ``run`` and ``resume``: an experiment from its core plan to its results, and what a user is told."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from aggregator.process.checkpoint import Saved
from testbed.cli import live, terminal
from testbed.cli import report_command as reporting
from testbed.common.console import say
from testbed.common.errors import UserError
from testbed.history import packing
from testbed.history.trace import TraceError
from testbed.host import capacity, cores
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.learning.data import progress_bar
from testbed.loading import profile_files, script_check
from testbed.planning import planner
from testbed.planning.planner import Plan
from testbed.processes import forkserver, launcher
from testbed.processes.pool import RunFailed
from testbed.profile import fleet
from testbed.profile.schema import Experiment
from testbed.replay import replay_certificate
from testbed.runs import resuming, tensorboard
from testbed.runs.run_folder import RunFolder


def run(experiment: Experiment, options: argparse.Namespace) -> int:
    """Everything from here to the exit code; ``options`` are those of the command line."""
    source = profile_files.located(options.profile)
    return _run(experiment, options, lambda: RunFolder.new(options.out, experiment.name, datetime.now()), source, None)


def resume(experiment: Experiment, options: argparse.Namespace, folder: RunFolder, saved: Saved) -> int:
    """As :func:`run`, from the checkpoint of a run that was interrupted; it goes on in the same folder."""
    return _run(experiment, options, lambda: folder, resuming.source(folder.path), saved)


def _run(
    experiment: Experiment,
    options: argparse.Namespace,
    place: Callable[[], RunFolder],
    source: Path,
    saved: Saved | None,
) -> int:
    devices = len(fleet.names(experiment))
    core_plan = cores.plan(cores.available_cores(), devices)
    capacity.check_capacity(devices)
    with progress_bar.ProgressBar() as progress:
        setup.check(experiment, progress)
    if options.tensorboard:
        tensorboard.check()
    console = Console(stderr=options.format == "json")
    folder = place()

    say = partial(_say, console, options)
    say(f"{experiment.name}: {experiment.strategy_name} over {devices} devices")
    if saved is not None:
        say(f"it goes on from version {saved.version}, at {saved.at:.1f} s")
    say(f"core plan: {core_plan}")
    for problem in script_check.too_late(experiment):
        say(f"warning: {problem}")

    def admit(survey: Survey) -> Plan:
        plan = planner.settled(experiment, survey, core_plan)
        if saved is not None and not plan.fits and options.dilation is None and not options.no_admission:
            # emulated time is the same at any dilation: who was admitted once is not sent away now
            plan = planner.settled(replace(experiment, dilation="auto"), survey, core_plan)
        if not plan.fits and not options.no_admission:
            raise planner.refusal(plan)
        folder.write_profile(replace(experiment, dilation=plan.dilation))
        say(terminal.demand(plan))
        return plan

    try:
        code, plan, host_energy = _carry_out(
            experiment, core_plan, folder, console, admit, source, saved, quiet=options.quiet
        )
    except UserError:
        if saved is None:
            folder.remove()  # the run did not begin
        raise
    if plan is None and saved is not None:
        return code  # it was interrupted before it went on: its results are what they were
    return _write_up(experiment, options, folder, console, plan, host_energy, code)


def _say(console: Console, options: argparse.Namespace, text: str) -> None:
    if not options.quiet:
        say(console, text)


def _write_up(
    experiment: Experiment,
    options: argparse.Namespace,
    folder: RunFolder,
    console: Console,
    plan: Plan | None,
    host_energy: dict[str, Any] | None,
    code: int,
) -> int:
    """Results, report, and what the user is told of them. Gives the exit code: that of the run, if it had failed."""
    try:
        summary = folder.write_results(
            plan.devices if plan is not None else (),
            experiment.replay,
            target=experiment.stop.target_accuracy,
            host_energy=host_energy,
            tensorboard=options.tensorboard,
        )
    except TraceError as error:
        print(f"error: the trace cannot be read, so there are no results: {error}", file=sys.stderr)
        return 1
    if folder.unwritten:
        code = _own_up(folder)
    if experiment.compress:
        packed = _pack(folder.trace, console, quiet=options.quiet)  # of a run that failed, too
        code = code or packed
    if options.format == "json":
        print(json.dumps(summary | {"run_folder": str(folder.path)}, indent=2))
    elif options.quiet:
        print(folder.path)
    else:
        terminal.show_summary(console, summary, folder.path)
    if code and resuming.is_possible(folder.path, experiment):
        _say(console, options, f"run_testbed.py resume {folder.path} goes on from here")
    if not options.no_report:
        code = reporting.after_run(folder.path, console, quiet=options.quiet) or code
    if code == 0 and experiment.replay.mode == "strict" and "replay" in summary:
        code = _judge(summary["replay"], summary["stopped"])
    return code


def _carry_out(
    experiment: Experiment,
    core_plan: cores.CorePlan,
    folder: RunFolder,
    console: Console,
    admit: Callable[[Survey], Plan],
    source: Path,
    saved: Saved | None,
    *,
    quiet: bool,
) -> tuple[int, Plan | None, dict[str, Any] | None]:
    """The exit code, the plan that was admitted if it came to that, and what the host used as far as it measured it."""
    view = live.view(console, Console(stderr=True), quiet=quiet)
    admitted: list[Plan] = []

    def remember(survey: Survey) -> Plan:
        admitted.append(admit(survey))
        return admitted[0]

    def started(pids: dict[str, int]) -> None:
        folder.write_meta(experiment, core_plan, admitted[0], pids, source)
        if saved is not None:
            folder.forget_results()

    with forkserver.private_folder() as private:
        processes = launcher.Launcher(
            experiment,
            core_plan,
            folder.path,
            private,
            view,
            remember,
            started,
            resume_at=saved.at if saved is not None else None,
        )
        code = 0
        try:
            processes.run()
        except RunFailed as failure:
            view.close()
            print(f"error: {failure}; what was recorded is kept", file=sys.stderr)
            code = 1
        finally:
            view.close()
    if code == 0 and processes.interrupted_by is not None:
        code = 128 + processes.interrupted_by
    return code, admitted[0] if admitted else None, processes.host_energy


def _own_up(folder: RunFolder) -> int:
    """Some files of the results are missing. Gives the exit code."""
    why = " and ".join(sorted(set(folder.unwritten.values())))
    remedy = f"make room; the trace is kept, and run_testbed.py report {folder.path} makes a page of it"
    print(f"error: {folder.path}: {', '.join(folder.unwritten)} cannot be written: {why}; {remedy}", file=sys.stderr)
    return 1


def _judge(certificate: dict[str, Any], stopped: str) -> int:
    """A strict replay that is another run than the recorded one has failed. Gives the exit code."""
    problem = certificate.get("problem")
    departure = None if problem is not None else replay_certificate.departure(certificate)
    if problem is None and departure is None:
        return 0
    told = f"is not certified: {problem}" if departure is None else f"differs from the recorded run in: {departure}"
    print(f"error: the replay {told} ({stopped})", file=sys.stderr)
    return 1


def _pack(path: Path, console: Console, *, quiet: bool) -> int:
    """The results are there already, so whatever happens here, the run and its trace are kept. Gives the exit code."""
    if not path.exists():  # the run failed before anything happened
        return 0
    try:
        with live.progress(console, f"packing {path.name}", quiet=quiet) as told:
            packing.pack(path, told)
    except OSError as error:
        print(f"warning: {path}: cannot be packed: {error.strerror}; it is kept as it is", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"warning: {path}: is not packed, and kept as it is", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0
