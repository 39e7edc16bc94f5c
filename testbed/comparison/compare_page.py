"""A comparison as HTML: ``compare.html``, and the same tables as a fragment for the pages of others (notebooks).

``compare.html`` is one file that needs no network, in light and dark mode, on any screen. All names are escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from testbed.comparison.compare_tables import NONE, number
from testbed.comparison.comparison import Comparison


def render(comparison: Comparison, figures: Mapping[str, str], out: Path) -> str:
    """The page as text. ``figures`` maps titles to SVG, ``out`` is the folder of the page."""
    return _template("page.html").render(
        comparison=comparison,
        figures={title: Markup(svg) for title, svg in figures.items()},  # noqa: S704  names in it are escaped
        runs=list(_runs(comparison)),
        reports=[_report(Path(row.run), out) for row in comparison.runs],
    )


def fragment(comparison: Comparison) -> str:
    """The headline, all tables and the notes as HTML without a style of its own."""
    return _template("fragment.html").render(comparison=comparison)


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def _runs(comparison: Comparison) -> Iterator[list[str]]:
    for row in comparison.runs:
        figures = [NONE if value is None else number(value) for value in (row.final, row.best, row.seconds_to_target)]
        yield [row.run, row.group, str(row.seed), row.fidelity or NONE, *figures]


def _report(run: Path, out: Path) -> str | None:
    """The link to the report of one run; None if it has none."""
    page = run / "report.html"
    return quote(Path(os.path.relpath(page, out)).as_posix()) if page.is_file() else None
