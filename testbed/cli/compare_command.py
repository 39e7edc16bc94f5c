"""``run_testbed.py compare``: compare runs, as files and as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from rich.console import Console

from testbed.cli import options
from testbed.common.console import TerminalConsole, say
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.comparison import compare_files, compare_text, compared_runs, comparison, goal
from testbed.comparison.comparison import Comparison
from testbed.execution import live_progress


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


def compare(given: CompareOptions) -> int:
    out = given.out or Path(f"compare-{datetime.now():%Y%m%d-%H%M%S}")
    result, files = into(out, given.runs, given.by, given.target)
    if given.format == "json":
        plain_text.show_json(json_text(msgspec.to_builtins(result) | {"files": [str(path) for path in files]}))
    else:
        show(TerminalConsole(), result, files)
    return 0


def into(
    out: Path, places: Iterable[Path], by: MetricOptions = _USUAL_METRIC, target: float | None = None
) -> tuple[Comparison, list[Path]]:
    """Compare runs and write the files. Returns the comparison and the files. Raises UserError."""
    with live_progress.status(TerminalConsole(stderr=True), "reading traces …"):
        found = compared_runs.read(places)
    result = comparison.compare(found, goal.choose(found, by.metric, by.lower, target))
    return result, compare_files.write(out, result, found)


def show(console: Console, result: Comparison, files: list[Path]) -> None:
    compare_text.show(console, result)
    say(console, f"page: {files[0]} (beside it: {', '.join(path.name for path in files[1:6])}, figures)")


COMMAND = options.command(CompareOptions, compare)
