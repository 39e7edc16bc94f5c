"""The options of ``run_testbed.py compare``."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.parsers import shared_options
from testbed.cli.parsers.shared_options import AS_WRITTEN, Commands

DESCRIPTION = """\
Strategies over seeds: for each group of runs, the mean and its 95 % interval (Student's t) of scores and costs, and
paired differences between groups with p-values (exact sign-flip test). Runs are grouped by their strategy and, within a
strategy, by whatever else differs between them except the seed. The folder of a sweep stands for its finished runs.
Whether runs met the same delays, job by job, is shown by trace compare.

Writes compare.html, compare.md, compare.tex, compare.csv, paired.csv, runs.csv and figures/ (SVG, PDF).
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    return commands.add_parser(
        "compare",
        help="strategies over seeds: means, intervals, paired tests, figures",
        description=DESCRIPTION,
        formatter_class=AS_WRITTEN,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="run folder, its trace.jsonl[.gz], or a sweep"
    )
    parser.add_argument(
        "--target",
        type=float,
        metavar="VALUE",
        help="the accuracy to reach; default: stop.target_accuracy if all profiles have the same and a run"
        " reached it, else the highest of 0.5, 0.6, … that all runs reached; if possible, better than the initial"
        " model",
    )
    shared_options.add_metric(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the files (default: compare-YYYYmmdd-HHMMSS, here)"
    )
    shared_options.add_format(parser)
