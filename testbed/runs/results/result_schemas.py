"""The result files by name: their types as tables of documentation and as JSON schemas.

``python -m testbed.runs.results.result_schemas docs/metrics.md`` writes the tables into a document, each between the
lines ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from testbed.common.documented import meanings
from testbed.runs.results.certificate import Certificate
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.results.run_meta import Meta
from testbed.runs.results.summary import Summary
from testbed.runs.results.table_rows import DeviceRow, MetricRow, RoundRow, VersionRow

RESULT_FILES: Mapping[str, type[msgspec.Struct]] = {
    "metrics": MetricRow,
    "versions": VersionRow,
    "devices": DeviceRow,
    "rounds": RoundRow,
    "summary": Summary,
    "fidelity": Certificate,
    "replay": ReplayCertificate,
    "meta": Meta,
}
"""Name of a file without its ending → the type of its content, or of its rows."""
_BLOCK = re.compile(r"(?P<begin><!-- begin (?P<name>\w+) -->)\n.*?(?P<end><!-- end (?P=name) -->)", re.DOTALL)
TABLES = ("metrics", "versions", "devices", "rounds")
"""The files that are tables (CSV); the others are JSON."""


def json_schema(name: str) -> dict[str, object]:
    """The JSON schema of a file, or of a row of a table."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(RESULT_FILES[name])}


def markdown(name: str) -> str:
    """A table of all columns or keys of a file, with unit and meaning."""
    is_table = name in TABLES
    lines = [f"| {'column' if is_table else 'key'} | unit | |", "| --- | --- | --- |"]
    for field in meanings(RESULT_FILES[name]):
        shown = field.name.removeprefix("scores.") if is_table else field.name  # in a table, a metric is a column
        lines.append(f"| `{shown}` | {field.unit} | {_escaped(field.meaning)} |".replace("|  |", "| |"))
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")


def updated(document: str) -> str:
    """The document with the present table of each file that it has markers for."""
    return _BLOCK.sub(lambda found: f"{found['begin']}\n{markdown(found['name'])}\n{found['end']}", document)


def main(paths: list[str]) -> int:
    """Update the documents."""
    for path in map(Path, paths):
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
