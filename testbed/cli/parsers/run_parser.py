"""The options of ``run_testbed.py run``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import Commands


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser("run", help="run an experiment (the word may be left out before a .toml)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_experiment_options(parser)
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
    shared_options.add_jobs(parser)
    shared_options.add_execution_options(parser)
