"""``run_testbed.py run``: run an experiment in a new run folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from testbed.cli import options, outcome_text
from testbed.cli.options import Commands, ExecutionOptions, ExperimentOptions
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


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("run", help="run an experiment (the word may be left out before a .toml)")
    options.set_command(parser, RunOptions, run)
    options.add_experiment_options(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="folder for run folders (default: runs)"
    )
    parser.add_argument(
        "--compress", action="store_true", default=None, help="pack the trace (trace.jsonl.gz) when the run is over"
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="write event files for TensorBoard into the run folder when the run is over",
    )
    options.add_execution_options(parser)


def run(given: RunOptions) -> int:
    experiment = options.experiment(given.experiment, compress=given.compress)
    return outcome_text.carry_out(
        Execution(
            experiment=experiment,
            source=profile_files.located(given.experiment.profile),
            open_folder=lambda: RunFolder.new(given.out, experiment.name, datetime.now()),
            tensorboard=given.tensorboard,
        ),
        given.execution,
    )
