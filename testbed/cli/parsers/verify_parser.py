"""The options of ``run_testbed.py verify``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import AS_WRITTEN, Commands

DESCRIPTION = """\
Recompute a run from its folder, without processes and without a clock: the recorded arrivals go to the real engine and
strategy, every update is trained again with the same batches, and every version is made again. Each event of the trace,
each score, the final model and the checkpoint must be equal. Prints "verified", or the first departure.

A run that was made on another processor, or with another version of torch or numpy, may differ in the last bits: then
events must agree, and the largest difference of the final model is printed instead ("close").

The code that a profile names (module:Class) is imported and executed.

exit codes: 0 verified or close, 1 a departure was found, 2 a run cannot be verified
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser(
        "verify", help="recompute a run and compare it, bit by bit", description=DESCRIPTION, formatter_class=AS_WRITTEN
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folder")
    parser.add_argument("--all", action="store_true", help="also all runs below these folders; skip what is not a run")
    shared_options.add_data_dir(parser)
    shared_options.add_format(parser, "json: the results as JSON on standard output")
