"""``report.html``: a page that needs no network and runs no script but its own.

Names come from profiles, which any person may have written. All text is escaped, and the page's content security
policy allows only our script, by its hash: a script that escaped this would not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from testbed.common.version import __version__
from testbed.report import second_process
from testbed.report.content import wording
from testbed.report.content.report_data import RunData
from testbed.report.content.report_tables import (
    Table,
    device_columns,
    energy_note,
    facts,
    key_figures,
    levels,
    replay,
    replay_rows,
)
from testbed.report.figures import inline_svg
from testbed.report.figures.style import ReportFigure
from testbed.report.sections import Section

_FOLDER = Path(__file__).parent
_FILTERS = (wording.number, wording.share, wording.seconds, wording.joules, wording.size, wording.plural)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSection:
    """A section with its figures as SVG."""

    title: str
    note: str
    figures: list[tuple[ReportFigure, Markup]]
    tables: list[Table]


def render(run: RunData, sections: Sequence[Section]) -> str:
    columns = device_columns(run)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {each.__name__: each for each in _FILTERS}
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = environment.get_template("page.html").render(
        run=run,
        edgebed=__version__,
        facts=facts(run),
        key_figures=key_figures(run),
        levels=levels(run),
        replay=replay(run),
        replay_rows=replay_rows(run),
        columns=columns,
        rows=zip(*(column.cells for column in columns), strict=True),
        energy_note=energy_note(run),
        sections=_shown(sections),
        css=_own("page.css"),
        script=_own("page.js"),
        digest=digest,
    )
    return wording.printable(text)


def _own(name: str) -> Markup:
    return Markup((_FOLDER / name).read_text(encoding="utf-8"))  # noqa: S704  a file of this package


def _shown(sections: Sequence[Section]) -> list[ShownSection]:
    pictures = [picture for section in sections for picture in section.pictures]
    drawn = iter(second_process.texts(inline_svg.svg, pictures))
    return [
        ShownSection(
            title=section.title,
            note=section.note,
            # matplotlib and ElementTree have escaped all names
            figures=[(picture, Markup(next(drawn))) for picture in section.pictures],  # noqa: S704
            tables=section.tables,
        )
        for section in sections
    ]
