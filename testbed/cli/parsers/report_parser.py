"""The options of ``run_testbed.py report``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers.shared_options import Commands

DESCRIPTION = """\
A run on one page that needs no network: what was run, the certificates, key figures, accuracy and loss, the timeline
of the fleet, staleness, energy (a proxy), contributions, versions and devices. If the run was killed or is not over, it
shows what was recorded.
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser("report", help="a run on one page, as report.html", description=DESCRIPTION)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, or its trace.jsonl[.gz]")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: report.html beside the trace)")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also each figure as SVG and PDF, for a paper")
