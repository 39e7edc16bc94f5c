"""The options of ``run_testbed.py data``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import AS_WRITTEN, Commands

DESCRIPTION = """\
Which training samples the split of an experiment assigns to which device, without running it: how many of which label,
how uneven that is, and which samples no device has. Where targets are values, their mean and standard deviation.
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser(
        "data",
        help="how many samples of which label each device has",
        description=DESCRIPTION,
        formatter_class=AS_WRITTEN,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_experiment_options(parser)
    add_view_options(parser)


def add_view_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="show every device of a large fleet, on a terminal too")
    parser.add_argument("--png", type=Path, metavar="FILE", help="also draw a heat map, labels by devices")
    shared_options.add_format(parser)
