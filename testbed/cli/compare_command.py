"""``run_testbed.py compare``: its options, and a comparison from the runs that are named to files and a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.common.console import say
from testbed.compare import compare_files, compare_text, compared_runs, comparison, goal

DESCRIPTION = """\
Rules over seeds: for each group of runs the mean and its 95 % interval (Student's t) of what was reached and what it
took, and paired differences between groups with p-values (exact sign-flip test). Runs are grouped by their rule and,
within a rule, by whatever else differs between them except the seed. The folder of a sweep stands for its finished
runs. Whether runs met the same delays, job by job, is what trace compare tells.

Writes compare.html, compare.md, compare.tex, compare.csv, paired.csv, runs.csv and figures/ (SVG, PDF).
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="run folder, its trace.jsonl[.gz], or a sweep"
    )
    parser.add_argument(
        "--target",
        type=float,
        metavar="VALUE",
        help="the accuracy that is to be reached; default: stop.target_accuracy if all profiles have the same and a run"
        " reached it, else the highest of 0.5, 0.6, … that all runs reached; if possible, better than the initial"
        " model",
    )
    add_metric(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the files (default: compare-YYYYmmdd-HHMMSS, here)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")


def add_metric(parser: argparse.ArgumentParser) -> None:
    """By what runs are compared; for a sweep, too."""
    parser.add_argument(
        "--metric", metavar="NAME", help="which counts (default: accuracy, or loss where there is none)"
    )
    parser.add_argument(
        "--lower",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="less of the metric is better (default: of loss, error, mse, mae and perplexity)",
    )


def compare(options: argparse.Namespace) -> int:
    out = options.out or Path(f"compare-{datetime.now():%Y%m%d-%H%M%S}")
    table, files = into(out, options.runs, options.metric, options.lower, options.target)
    if options.format == "json":
        print(json.dumps(table | {"files": [str(path) for path in files]}, indent=2))
    else:
        show(Console(), table, files)
    return 0


def into(
    out: Path, places: Iterable[Path], metric: str | None = None, lower: bool | None = None, target: float | None = None
) -> tuple[dict[str, Any], list[Path]]:
    """Compare runs and write the files; gives plain values, and which files. Raises UserError."""
    with Console(stderr=True).status("reading traces …"):
        found = compared_runs.read(places)
    table = comparison.compare(found, goal.choose(found, metric, lower, target))
    return table, compare_files.write(out, table, found)


def show(console: Console, table: dict[str, Any], files: list[Path]) -> None:
    compare_text.show(console, table)
    say(console, f"page: {files[0]} (beside it: {', '.join(path.name for path in files[1:6])}, figures)")
