"""The options of ``run_testbed.py doctor``."""

from __future__ import annotations

import argparse

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import Commands


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser("doctor", help="what this host can and cannot do for a run")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure sleep error, step time, loopback and fork cost (about 10 s), and store them for plans",
    )
    shared_options.add_format(parser)
