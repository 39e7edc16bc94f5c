"""``run_testbed.py compare``: compare runs, as files and as a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from rich.console import Console

from testbed.cli import options
from testbed.cli.options import AS_WRITTEN, Commands
from testbed.common.console import say
from testbed.common.json_text import json_text
from testbed.comparison import compare_files, compare_text, compared_runs, comparison, goal
from testbed.comparison.comparison import Comparison
from testbed.execution import live_progress

DESCRIPTION = """\
Strategies over seeds: for each group of runs, the mean and its 95 % interval (Student's t) of scores and costs, and
paired differences between groups with p-values (exact sign-flip test). Runs are grouped by their strategy and, within a
strategy, by whatever else differs between them except the seed. The folder of a sweep stands for its finished runs.
Whether runs met the same delays, job by job, is shown by trace compare.

Writes compare.html, compare.md, compare.tex, compare.csv, paired.csv, runs.csv and figures/ (SVG, PDF).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOptions:
    metric: str | None = None
    lower: bool | None = None


_USUAL_METRIC = MetricOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    runs: tuple[Path, ...]
    target: float | None
    by: MetricOptions
    out: Path | None
    format: str


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="strategies over seeds: means, intervals, paired tests, figures",
        description=DESCRIPTION,
        formatter_class=AS_WRITTEN,
    )
    options.set_command(parser, CompareOptions, compare)
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
    add_metric(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the files (default: compare-YYYYmmdd-HHMMSS, here)"
    )
    options.add_format(parser)


def add_metric(parser: argparse.ArgumentParser) -> None:
    """Add the options of MetricOptions, which a sweep has, too."""
    parser.add_argument(
        "--metric", metavar="NAME", help="what runs are compared by (default: accuracy, or loss where there is none)"
    )
    parser.add_argument(
        "--lower",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="lower values of the metric are better (default: for loss, error, mse, mae and perplexity)",
    )


def compare(given: CompareOptions) -> int:
    out = given.out or Path(f"compare-{datetime.now():%Y%m%d-%H%M%S}")
    result, files = into(out, given.runs, given.by, given.target)
    if given.format == "json":
        print(json_text(msgspec.to_builtins(result) | {"files": [str(path) for path in files]}))
    else:
        show(Console(), result, files)
    return 0


def into(
    out: Path, places: Iterable[Path], by: MetricOptions = _USUAL_METRIC, target: float | None = None
) -> tuple[Comparison, list[Path]]:
    """Compare runs and write the files. Returns the comparison and the files. Raises UserError."""
    with live_progress.status(Console(stderr=True), "reading traces …"):
        found = compared_runs.read(places)
    result = comparison.compare(found, goal.choose(found, by.metric, by.lower, target))
    return result, compare_files.write(out, result, found)


def show(console: Console, result: Comparison, files: list[Path]) -> None:
    compare_text.show(console, result)
    say(console, f"page: {files[0]} (beside it: {', '.join(path.name for path in files[1:6])}, figures)")
