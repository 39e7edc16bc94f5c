"""One run on a virtual clock, from its task to the end of its trace. It imports torch: import it where it is used."""

from __future__ import annotations

import contextlib
import gc
import math
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console

from aggregator.process.output_files import Unwritten
from devices.compute.job_computer import JobComputer
from testbed.common.errors import ProfileError, RunFailed, UserError
from testbed.common.finders.user_code import in_one_line
from testbed.common.parameters import ParameterError
from testbed.common.signals import handled_signals
from testbed.emulation.recorded import PreparedReplay
from testbed.execution import live_progress, report_writing
from testbed.execution.outcome import Outcome
from testbed.host.private_folder import private_folder
from testbed.learning import setup
from testbed.learning.data import progress_bar
from testbed.learning.one_thread import one_thread
from testbed.learning.training.task import Task
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.replay import replay_setup
from testbed.runs.run_folder import RunFolder
from testbed.twin import virtual_fleet
from testbed.twin.job_pool import JobPool
from testbed.twin.job_results import ComputedHere, JobResults, NothingComputed
from testbed.twin.virtual_run import VirtualRun
from testbed.wire.messages import Snapshot


def run_virtually(
    experiment: Experiment,
    folder: RunFolder,
    source: Path | None,
    outcome: Outcome,
    console: Console,
    *,
    jobs: int,
    quiet: bool,
) -> Sequence[DeviceSpec]:
    """Run, and return the devices. How it ended is in ``outcome``. Raises UserError before the run begins.

    ``jobs``: how many processes compute the devices' jobs; the results do not depend on it.
    """
    with one_thread(), private_folder() as private:
        try:
            task = _open_task(experiment)
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001  a task of the user's own may raise anything
            _note_failure(error, folder, outcome)
            return ()
        survey = virtual_fleet.survey_of(experiment, task)
        devices = virtual_fleet.devices_of(experiment, survey)
        replayed: PreparedReplay | None = None
        if experiment.replay.trace is not None:
            names = [spec.name for spec in devices]
            replayed = replay_setup.prepare(experiment, names, private.path / "replay")
        folder.write_profile(experiment)
        folder.write_virtual_meta(experiment, survey, source)
        with (
            _results(experiment, task, devices, jobs) as results,
            live_progress.progress(console, experiment.name, quiet=quiet) as show,
        ):
            run = VirtualRun(
                experiment,
                virtual_fleet.configs_of(experiment, devices, replayed),
                task,
                results,
                lambda snapshot: _scores(experiment, task, snapshot),
                folder.path,
                replayed,
                _progress(experiment, show),
            )
            gc.collect()
            gc.freeze()  # what the fleet is made of lives as long as the run
            try:
                _carry_out(run, folder, outcome)
            finally:
                gc.unfreeze()
    return devices


def _open_task(experiment: Experiment) -> Task:
    """Load data and network. Raises UserError, or what a task of the user's own raises."""
    entry = setup.entry(experiment.task_name, experiment.task_parameters, experiment.name)
    with progress_bar.ProgressBar() as progress, setup.as_profile_errors(experiment.name):
        opened = entry.open(setup.setting(experiment, progress))
    try:
        opened.check(experiment.training)
    except ParameterError as error:
        raise ProfileError(experiment.name, f"training.{error.key}", error.problem) from None
    return opened


@contextlib.contextmanager
def _results(experiment: Experiment, task: Task, devices: tuple[DeviceSpec, ...], jobs: int) -> Iterator[JobResults]:
    """Yield what computes the jobs of the fleet."""
    if experiment.compute == "none":
        yield NothingComputed(task.size)
        return
    computer = JobComputer(task, experiment.seed, {spec.name: spec.index for spec in devices})
    if jobs == 1:
        yield ComputedHere(computer)
        return
    with JobPool(jobs, computer, task.size) as pool:
        yield pool


def _scores(experiment: Experiment, task: Task, snapshot: Snapshot) -> dict[str, float]:
    if experiment.compute == "none":
        return {}
    return {name: value for name, value in task.evaluate(snapshot.model).items() if math.isfinite(value)}


def _progress(experiment: Experiment, show: Callable[[float], None]) -> Callable[[float, int], None]:
    """Return what takes the emulated seconds and the version, and shows the share of the run that is over."""
    stop = experiment.stop

    def report(seconds: float, version: int) -> None:
        of_time = 0.0 if stop.seconds is None else seconds / stop.seconds
        show(max(of_time, 0.0 if stop.versions is None else version / stop.versions))

    return report


def _carry_out(run: VirtualRun, folder: RunFolder, outcome: Outcome) -> None:
    """Run to the end, or up to the second stop signal."""
    try:
        with _stop_signals(run, outcome):
            run.run()
    except KeyboardInterrupt:
        outcome.signal = outcome.signal or signal.SIGINT
    except Exception as error:  # noqa: BLE001  a strategy or a task of the user's own may raise anything
        _note_failure(error, folder, outcome)


def _note_failure(error: Exception, folder: RunFolder, outcome: Outcome) -> None:
    """Note why a run has failed; the log has the traceback of what nobody expected."""
    expected = isinstance(error, RunFailed | Unwritten | UserError)
    outcome.failure = in_one_line(error, with_type=not expected)
    if not expected:
        report_writing.keep_log(traceback.format_exc(), folder.path, "run.log")


@contextlib.contextmanager
def _stop_signals(run: VirtualRun, outcome: Outcome) -> Iterator[None]:
    """Let the first stop signal end the run cleanly, and a second one at once."""

    def note(number: int, frame: FrameType | None) -> None:
        if outcome.signal is not None:
            raise KeyboardInterrupt
        outcome.signal = number
        run.stop()

    before = {number: signal.signal(number, note) for number in handled_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
