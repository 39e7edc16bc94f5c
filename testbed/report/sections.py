"""The figures of a report in the order of the page, and what is said where there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from testbed.report import bydevice, cell, fleetlanes, headship, overtime
from testbed.report.data import RunData
from testbed.report.drawing import Picture
from testbed.report.tables import Table, energy_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    pictures: list[Picture]
    note: str = ""
    tables: list[Table] = field(default_factory=list)


def draw(run: RunData) -> list[Section]:
    """In the style of :func:`testbed.report.drawing.style`."""
    found = [_section(run, "Learning", "No version was scored.", overtime.learning)]
    found.append(_section(run, "The fleet over time", "No device joined.", fleetlanes.fleet))
    if pictures := [*headship.heads(run), *headship.at_aggregator(run), *headship.purity(run)]:
        shown = [table for table in headship.tables(run) if table.rows]
        found.append(Section(title="Clusters and their heads", pictures=pictures, tables=shown))
    if pictures := list(cell.rounds(run)):
        found.append(Section(title="Rounds in the cell", pictures=pictures))
    found.append(_section(run, "Staleness", "No update became part of a version.", overtime.staleness))
    found.append(Section(title="Energy", pictures=list(bydevice.spent(run)), note=energy_note(run)))
    nobody = "No update arrived."
    found.append(_section(run, "Contribution and local loss", nobody, bydevice.contribution, overtime.local_loss))
    found.append(_section(run, "Versions", "No version came to be.", overtime.versions))
    return found


def _section(run: RunData, title: str, otherwise: str, *figures: Callable[[RunData], Iterator[Picture]]) -> Section:
    pictures = [picture for figure in figures for picture in figure(run)]
    return Section(title=title, pictures=pictures, note="" if pictures else otherwise)
