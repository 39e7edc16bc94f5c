"""The options of ``run_testbed.py list``."""

from __future__ import annotations

import argparse

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import Commands

LISTS = ("strategies", "devices", "links", "tasks", "networks", "splits", "keys", "schema")
"""What can be listed."""
RESULT_FILES = ("metrics", "versions", "devices", "rounds", "summary", "fidelity", "replay", "meta")
"""The files that ``list schema`` describes. Named here again: their types are not imported to show the help."""
JSON_SCHEMA = "json-schema"


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser("list", help="what can be named in a profile")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=LISTS, help="networks: of tasks; splits: of data; keys: of a profile; schema: of result files"
    )
    parser.add_argument("name", nargs="?", metavar="FILE", help=f"schema: of one file: {', '.join(RESULT_FILES)}")
    parser.add_argument("-v", "--verbose", action="store_true", help="with parameters, or with sources")
    meaning = "json-schema: for editors, of an experiment (keys), of a device profile (devices) or of a link (links)"
    shared_options.add_format(parser, meaning, JSON_SCHEMA)
