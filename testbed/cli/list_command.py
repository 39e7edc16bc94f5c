"""``run_testbed.py list``: what can be named in a profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aggregator.strategies import STRATEGIES
from testbed.cli import options
from testbed.cli.options import Commands
from testbed.common.documented import meanings
from testbed.common.errors import UserError, nearest
from testbed.common.json_schema import JsonSchema
from testbed.common.json_text import json_text
from testbed.common.parameters import describe
from testbed.common.plugins import citation
from testbed.learning.splits import SPLITS
from testbed.learning.tasks import TASKS
from testbed.loading import profile_files, profile_schema
from testbed.profile.power import Power, Radio
from testbed.profile.radio import Cell
from testbed.profile.schema import (
    Checkpoint,
    DeviceGroup,
    DeviceProfile,
    Direction,
    Evaluation,
    Experiment,
    LinkProfile,
    Phase,
    Presence,
    Replay,
    ScriptedEvent,
    StopWhen,
)
from testbed.runs.results import result_schemas
from testbed.runs.results.result_schemas import RESULT_FILES
from testbed.wire.endpoints import Transport
from testbed.wire.training_job import Job

_JSON_SCHEMA = "json-schema"
_COLUMNS = ("parameter", "default", "allowed", "meaning")
_SCHEMA_COLUMNS = ("key or column", "unit", "meaning")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    what: str
    name: str | None
    """For ``schema``: the file; None: all of them."""
    verbose: bool
    format: str


class ListedName(msgspec.Struct, frozen=True, kw_only=True):
    """A name that a profile may contain, or a table of a profile."""

    name: str
    title: str
    parameters: Sequence[tuple[str, ...]] = ()
    """Name, default, allowed values and meaning of each; of a field of a result file: name, unit and meaning."""
    details: Sequence[str] = ()
    """Lines that are shown with --verbose."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("list", help="what can be named in a profile")
    options.set_command(parser, ListOptions, show)
    parser.add_argument(
        "what", choices=tuple(_LISTS), help="splits: of data; keys: of a profile; schema: of result files"
    )
    parser.add_argument("name", nargs="?", metavar="FILE", help=f"schema: of one file: {', '.join(RESULT_FILES)}")
    parser.add_argument("-v", "--verbose", action="store_true", help="with parameters, or with sources")
    meaning = "json-schema: for editors, of an experiment (keys), of a device profile (devices) or of a link (links)"
    options.add_format(parser, meaning, _JSON_SCHEMA)


def show(given: ListOptions) -> int:
    _check_name(given)
    if given.format == _JSON_SCHEMA:
        print(json_text(_schema(given.what) if given.name is None else result_schemas.json_schema(given.name)))
        return 0
    rows = [row for row in _LISTS[given.what]() if given.name in (None, row.name)]
    if given.format == "json":
        print(json_text(rows))
        return 0
    console = Console()
    for row in rows:
        console.print(Text(row.name, style="bold"), row.title, highlight=False, markup=False, soft_wrap=True)
        if given.verbose or given.what in ("keys", "schema"):
            for line in row.details:
                console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))
            if row.parameters:
                console.print(_parameters(row.parameters, _SCHEMA_COLUMNS if given.what == "schema" else _COLUMNS))
            console.print()
    return 0


def _schema(what: str) -> JsonSchema:
    if what not in _SCHEMAS:
        problem = f"--format {_JSON_SCHEMA} describes a file, and {what} have none"
        raise UserError(f"{problem}: use list keys --format {_JSON_SCHEMA}, which contains all {what}")
    return _SCHEMAS[what]()


def _check_name(given: ListOptions) -> None:
    """Raise UserError for a file that is not known, or where no file can be named."""
    if given.what == "schema" and given.format == _JSON_SCHEMA and given.name is None:
        raise UserError(f"list schema --format {_JSON_SCHEMA}: name one file: {', '.join(RESULT_FILES)}")
    if given.name is None:
        return
    if given.what != "schema":
        raise UserError(f"list {given.what} {given.name}: only list schema takes a name; leave it out")
    if given.name not in RESULT_FILES:
        raise UserError(f"list schema {given.name}: there is no such file; {nearest(given.name, RESULT_FILES)}")


def _result_files() -> list[ListedName]:
    return [
        ListedName(
            name=name,
            title=(cls.__doc__ or "").splitlines()[0],
            parameters=[(field.name, field.unit, field.meaning) for field in meanings(cls)],
        )
        for name, cls in RESULT_FILES.items()
    ]


def _parameters(rows: Sequence[tuple[str, ...]], columns: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2))
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))  # as a Text: brackets are not markup
    return table


def _strategies() -> list[ListedName]:
    return _classes(STRATEGIES, lambda cls: [citation(cls)])


def _tasks() -> list[ListedName]:
    from testbed.learning.data import loader  # imports all readers, which other lists do not need

    # size, licence and citation of the data set, if it is one of the files that Edgebed reads
    lines = dict(loader.described())
    return _classes(TASKS, lambda cls: [lines[cls.stored]] if hasattr(cls, "stored") else [])


def _splits() -> list[ListedName]:
    return _classes(SPLITS, lambda cls: [])


def _classes(classes: Mapping[str, type[Any]], details: Callable[[Any], list[str]]) -> list[ListedName]:
    return [
        ListedName(name=name, title=(cls.__doc__ or "").strip(), parameters=list(describe(cls)), details=details(cls))
        for name, cls in classes.items()
    ]


def _keys() -> list[ListedName]:
    """Return the keys of a profile, table by table. A device's profile and link may be names, paths or such tables."""
    tables: dict[str, type[Any]] = {
        "(top level)": Experiment,
        "[[devices]]": DeviceGroup,
        "[devices.profile]": DeviceProfile,
        "[devices.profile.power]": Power,
        "[[devices.schedule]]": Phase,
        "[devices.link.up], [devices.link.down]": Direction,
        "[devices.link.power]": Radio,
        "[cell]": Cell,
        "[training]": Job,
        "[stop]": StopWhen,
        "[transport]": Transport,
        "[evaluation]": Evaluation,
        "[presence]": Presence,
        "[checkpoint]": Checkpoint,
        "[replay]": Replay,
        "[[events]]": ScriptedEvent,
    }
    return [
        ListedName(name=name, title=(cls.__doc__ or "").splitlines()[0], parameters=list(describe(cls)))
        for name, cls in tables.items()
    ]


def _devices() -> list[ListedName]:
    return _profiles("devices", DeviceProfile)


def _links() -> list[ListedName]:
    return _profiles("links", LinkProfile)


def _profiles(kind: str, cls: type[DeviceProfile] | type[LinkProfile]) -> list[ListedName]:
    rows = []
    for name in profile_files.catalogue(kind):
        found = profile_files.named(cls, kind, name, name, kind, Path())
        rows.append(ListedName(name=name, title=found.title, details=_details(found)))
    return rows


def _details(found: DeviceProfile | LinkProfile) -> list[str]:
    if isinstance(found, LinkProfile):
        lines = [
            f"{direction}: {d.trace or ('no limit' if d.mbit is None else f'{d.mbit:g} Mbit/s')}, {d.delay * 1e3:g} ms"
            f" + |N(0, {d.jitter * 1e3:g} ms)|, drop {d.drop:g}"
            for direction, d in (("down", found.down), ("up", found.up))
        ]
    else:
        speeds = found.seconds_per_sample
        by_task = speeds if isinstance(speeds, dict) else {} if speeds is None else {"any task": speeds}
        lines = [f"{task}: {seconds * 1e3:g} ms per sample" for task, seconds in by_task.items()]
    return [*lines, f"source: {found.source}", *([] if found.power is None else _watts(found.power))]


def _watts(power: Power | Radio) -> list[str]:
    """Return the figures of a power model, and their source."""
    if isinstance(power, Radio):
        figures = f"+{power.transmit:g} W sending, +{power.receive:g} W receiving"
    else:
        away = "as when idle" if power.suspended is None else f"{power.suspended:g} W"
        send, receive = (
            "as its link says" if watts is None else f"+{watts:g} W" for watts in (power.transmit, power.receive)
        )
        figures = (
            f"{power.idle:g} W idle, {power.compute:g} W computing; suspended: {away}; sending: {send};"
            f" receiving: {receive}"
        )
    return [f"power (proxy): {figures}", f"source of power: {power.source or 'not given'}"]


_LISTS = {
    "strategies": _strategies,
    "devices": _devices,
    "links": _links,
    "tasks": _tasks,
    "splits": _splits,
    "keys": _keys,
    "schema": _result_files,
}
"""In the order of --help."""
_SCHEMAS = {
    "devices": profile_schema.device_schema,
    "links": profile_schema.link_schema,
    "keys": profile_schema.experiment_schema,
}
"""Lists that describe a kind of file."""
