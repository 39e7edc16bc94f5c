"""``run_testbed.py run``: run an experiment in a new run folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from testbed.cli import options, outcome_text
from testbed.cli.options import ExecutionOptions, ExperimentOptions
from testbed.execution.execution import Execution
from testbed.loading import profile_files
from testbed.runs.run_folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    experiment: ExperimentOptions
    execution: ExecutionOptions
    out: Path
    compress: bool | None
    """None: as the profile says."""
    tensorboard: bool
    jobs: int
    """0: one on each core."""


def run(given: RunOptions) -> int:
    experiment = options.experiment(given.experiment, compress=given.compress)
    return outcome_text.carry_out(
        Execution(
            experiment=experiment,
            source=profile_files.located(given.experiment.profile),
            open_folder=lambda: RunFolder.new(given.out, experiment.name, datetime.now()),
            tensorboard=given.tensorboard,
            jobs=given.jobs,
        ),
        given.execution,
    )


COMMAND = options.command(RunOptions, run)
