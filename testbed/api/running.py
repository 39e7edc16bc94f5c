"""``run`` and ``plan``: the commands of the same names as functions."""

from __future__ import annotations

import threading
import warnings
from datetime import datetime
from pathlib import Path
from typing import Unpack

from testbed.api import experiments
from testbed.api.experiments import Changes, Profile
from testbed.api.run import Run
from testbed.common.console import TerminalConsole
from testbed.common.errors import ReplayDiffers, RunFailed, RunInterrupted, UserError
from testbed.execution import admission
from testbed.execution.execution import Execution, execute
from testbed.execution.outcome import Outcome
from testbed.planning.planner import Plan
from testbed.processes.templates import early
from testbed.runs import summary_text
from testbed.runs.run_folder import RunFolder


def run(
    profile: Profile,
    *,
    out: str | Path = "runs",
    report: bool = True,
    tensorboard: bool = False,
    no_admission: bool = False,
    quiet: bool = False,
    data_dir: str | Path | None = None,
    jobs: int = 0,
    **changes: Unpack[Changes],
) -> Run:
    """Run an experiment in real processes and real time, as the command ``run`` does, and return the run.

    With ``clock="virtual"``, it is computed as fast as possible instead, and nothing is measured.

    ``run("quickstart.toml", strategy="fedbuff", seconds=20, set={"training.lr": 0.05})``

    The process that has imported torch is kept for the next run, and the task, too, if the next run has the same one;
    both end with this process.

    Args:
        profile: a TOML file, the name of a shipped one, a table with the same keys (dict), or an ``Experiment``.
        out: the folder in which the run gets a folder of its own.
        report: whether to write ``report.html`` into it.
        tensorboard: whether to write event files for TensorBoard, too.
        no_admission: run even if this host is too small; the certificate shows how exact the timing was.
        quiet: show no progress, only warnings.
        data_dir: the folder of data sets (otherwise ``EDGEBED_DATA``).
        jobs: on a virtual clock, how many processes train; 0: one on each core. Results do not depend on it.
        changes: keys of the profile, each as in the command: ``strategy`` and ``task`` (a name, a table, a class or an
            object), ``seed``, ``seconds``, ``dilation``, ``replay`` (a run or its path), ``replay_mode``, ``clock``,
            ``compute``, ``compress``, and ``set`` for any other key: ``{"training.lr": 0.05}``.

    Raises:
        UserError: something in the arguments, the profile or the host prevents the run; nothing is left behind.
        RunFailed: the run ended early; its folder is kept (``error.folder``).
        RunInterrupted: Ctrl-C; the results up to then are kept: ``Run.open(error.folder)``.
        ReplayDiffers: a strict replay differs from the recorded run.
    """
    experiment, source = experiments.load(profile, changes, data_dir)
    check_main_thread()
    if experiment.clock == "wall":
        early.keep()
    console = TerminalConsole(stderr=True)
    outcome = execute(
        Execution(
            experiment=experiment,
            source=source,
            open_folder=lambda: RunFolder.new(Path(out), experiment.name, datetime.now()),
            console=console,
            quiet=quiet,
            no_admission=no_admission,
            report=report,
            tensorboard=tensorboard,
            jobs=jobs,
        )
    )
    if not quiet and outcome.summary is not None and outcome.summary.fidelity is not None:
        summary_text.show_certificate(console, outcome.summary.fidelity)
    return _run_of(outcome)


def plan(profile: Profile, *, data_dir: str | Path | None = None, **changes: Unpack[Changes]) -> Plan:
    """Measure whether this host can run an experiment, without running it: ``plan(...).fits``, ``.dilation``.

    The arguments are those of ``run``. Raises UserError as ``run`` does, RunFailed if the task cannot be loaded.
    """
    experiment, _ = experiments.load(profile, changes, data_dir)
    check_main_thread()
    early.keep()
    return admission.plan(experiment)


def check_main_thread() -> None:
    """Raise UserError in another thread: only the main one may handle signals."""
    if threading.current_thread() is not threading.main_thread():
        raise UserError("a run must be started in the main thread, which receives Ctrl-C; start it there")


def _run_of(outcome: Outcome) -> Run:
    """Return the run that ended so, or raise what went wrong."""
    for text in outcome.warnings:
        warnings.warn(text, stacklevel=3)
    folder = outcome.folder
    problems = "; ".join(filter(None, (outcome.failure, outcome.unreadable)))
    if problems:
        raise RunFailed(f"{problems}; what was recorded is kept in {folder}", folder)
    if outcome.unwritten:
        named = ", ".join(f"{name} ({why})" for name, why in outcome.unwritten.items())
        raise RunFailed(f"{folder}: cannot be written: {named}; free disk space; the trace is kept", folder)
    if outcome.signal is not None:
        what = "the results up to then are in" if outcome.summary is not None else "it had not begun; its logs are in"
        more = f"; to continue: run_testbed.py resume {folder}" if outcome.resumable else ""
        raise RunInterrupted(f"interrupted; {what} {folder}{more}", folder)
    if outcome.departure is not None:
        raise ReplayDiffers(f"the replay {outcome.departure}; its results are in {folder}", folder)
    return Run.open(folder)
