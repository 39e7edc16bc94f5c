"""The sections of a report in the order of the page: figures, tables, and a note if there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from testbed.report.content.report_data import RunData
from testbed.report.content.report_tables import Table, energy_note
from testbed.report.figures import by_device, cell_figure, fleet_timeline, heads, over_time
from testbed.report.figures.style import ReportFigure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    pictures: list[ReportFigure]
    note: str = ""
    tables: list[Table] = field(default_factory=list)


def draw(run: RunData) -> list[Section]:
    """Draw all figures; call it within :func:`testbed.report.figures.style.style`."""
    found = [_section(run, "Learning", "No version was scored.", over_time.learning)]
    found.append(_section(run, "The fleet over time", "No device joined.", fleet_timeline.fleet))
    if pictures := [*heads.heads(run), *heads.at_aggregator(run), *heads.purity(run)]:
        shown = [table for table in heads.tables(run) if table.rows]
        found.append(Section(title="Clusters and their heads", pictures=pictures, tables=shown))
    if pictures := list(cell_figure.rounds(run)):
        found.append(Section(title="Rounds in the cell", pictures=pictures))
    found.append(_section(run, "Staleness", "No update became part of a version.", over_time.staleness))
    found.append(Section(title="Energy", pictures=list(by_device.spent(run)), note=energy_note(run)))
    none = "No update arrived."
    found.append(_section(run, "Contribution and local loss", none, by_device.contribution, over_time.local_loss))
    found.append(_section(run, "Versions", "No version was made.", over_time.versions))
    return found


def _section(
    run: RunData, title: str, otherwise: str, *figures: Callable[[RunData], Iterator[ReportFigure]]
) -> Section:
    pictures = [picture for figure in figures for picture in figure(run)]
    return Section(title=title, pictures=pictures, note="" if pictures else otherwise)
