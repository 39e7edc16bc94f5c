"""``compare.html``: one file that shows a comparison, without a network, in light and dark mode, on any screen."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from testbed.comparison.compare_tables import NONE, number, tables
from testbed.comparison.compare_text import headline

_TEMPLATE = Path(__file__).with_name("page.html")


def render(table: Mapping[str, Any], figures: Mapping[str, str], out: Path) -> str:
    """The page as text. ``figures`` maps titles to SVG, ``out`` is the folder of the page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        headline=headline(table),
        comparison=table,
        tables=tables(table),
        figures={title: Markup(svg) for title, svg in figures.items()},  # noqa: S704  names in it are escaped
        runs=list(_runs(table)),
        reports=[_report(Path(row["run"]), out) for row in table["runs"]],
    )


def _runs(table: Mapping[str, Any]) -> Iterator[list[str]]:
    for row in table["runs"]:
        values = (row[key] for key in ("final", "best", "seconds_to_target"))
        figures = [NONE if value is None else number(value) for value in values]
        yield [row["run"], row["group"], str(row["seed"]), row["fidelity"] or NONE, *figures]


def _report(run: Path, out: Path) -> str | None:
    """The link to the report of one run; None if it has none."""
    page = run / "report.html"
    return quote(Path(os.path.relpath(page, out)).as_posix()) if page.is_file() else None
