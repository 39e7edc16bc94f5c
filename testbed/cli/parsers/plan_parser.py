"""The options of ``run_testbed.py plan``."""

from __future__ import annotations

import argparse

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import Commands


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser("plan", help="whether this host is large enough for an experiment, and what would fit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_experiment_options(parser)
    shared_options.add_survey(parser)
    shared_options.add_format(parser)
