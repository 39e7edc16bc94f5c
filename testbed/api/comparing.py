"""``compare``: strategies over seeds, as values, text, HTML and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.common.console import TerminalConsole
from testbed.common.errors import UserError
from testbed.comparison import compare_files, compare_text, compared_runs, comparison, goal
from testbed.comparison.compare_columns import ColumnTable
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.comparison import Comparison
from testbed.runs.stored_run import StoredRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 160


class RunComparison:
    """A comparison of runs. ``print`` shows its tables as text; a notebook shows them as HTML."""

    def __init__(self, values: Comparison, runs: Sequence[ComparedRun]) -> None:
        self.values = values
        """Groups with means and intervals, paired differences, one row per run, and notes."""
        self._runs = runs

    @property
    def tables(self) -> dict[str, ColumnTable]:
        """Name → table as columns, which pandas and polars take: ``results``, ``costs``, ``paired``, ``runs``.

        A quantity has a column with its mean and one, ``…_half``, with half of its 95 % interval.
        """
        values = self.values
        return {
            "results": values.result_columns,
            "costs": values.cost_columns,
            "paired": values.paired_columns,
            "runs": values.run_columns,
        }

    def figures(self) -> dict[str, Figure]:
        """Name → figure: the metric over seconds, joules (if all devices have power models) and bytes."""
        from testbed.comparison import compare_figures  # imported late: matplotlib is slow

        return {each.name: each.figure for each in compare_figures.figures(self.values, self._runs)}

    def write(self, out: str | Path) -> list[Path]:
        """Write the files that the command writes: page, Markdown, LaTeX, CSV, figures. Returns their paths."""
        return compare_files.write(Path(out), self.values, self._runs)

    def __repr__(self) -> str:
        return f"<comparison: {self.values.headline}>"

    def __str__(self) -> str:
        console = TerminalConsole(width=_WIDTH, no_color=True, force_jupyter=False)
        with console.capture() as captured:
            compare_text.show(console, self.values)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _repr_html_(self) -> str:
        from testbed.comparison import compare_page  # imported late: jinja2 is slow

        return compare_page.fragment(self.values)


def _place(given: str | Path | StoredRun) -> Path:
    if isinstance(given, StoredRun):
        return given.path
    if isinstance(given, str | Path):
        return Path(given)
    raise UserError(f"compare: {given!r} is not a run; use runs, their folders or traces, or folders of sweeps")


def compare(
    runs: Iterable[str | Path | StoredRun],
    *,
    metric: str | None = None,
    lower: bool | None = None,
    target: float | None = None,
) -> RunComparison:
    """Compare runs, as the command ``compare`` does: means over seeds with intervals, and paired differences.

    Args:
        runs: runs, their folders or traces, or folders of sweeps, which stand for their finished runs; or what
            ``sweep`` returned.
        metric: what they are compared by; default: accuracy, or loss where there is none.
        lower: whether lower values are better; default: for loss, error, mse, mae and perplexity.
        target: the value to reach; default: one that all runs reached.

    Raises:
        UserError: a run cannot be read, or the runs have no common task or metric.
    """
    if isinstance(runs, str | Path | StoredRun):
        raise UserError(f"compare({runs!r}): takes a list of runs; write compare([…])")
    places = [_place(each) for each in runs]
    if not places:
        raise UserError("compare([]): there is nothing to compare; name at least one run")
    if target is not None and not isinstance(target, float | int):
        raise UserError(f"target={target!r}: must be a number")
    found = compared_runs.read(places)
    return RunComparison(comparison.compare(found, goal.choose(found, metric, lower, target)), found)
