"""The options of ``run_testbed.py resume``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import Commands

DESCRIPTION = (
    "A run saves its state every checkpoint.seconds, and when it is interrupted. It continues in its own folder and"
    " emulated time: what happened after the checkpoint is undone, and devices start their jobs again."
)


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser(
        "resume", help="continue an interrupted run from its last checkpoint", description=DESCRIPTION
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="its folder, such as runs/NAME-YYYYmmdd-HHMMSS")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="a new stop.seconds, counted from the beginning of the run"
    )
    parser.add_argument(
        "--dilation",
        type=shared_options.number_or_word,
        metavar="K|auto",
        help="host seconds per emulated second from here on (default: as before)",
    )
    shared_options.add_data_dir(parser)
    shared_options.add_execution_options(parser)
