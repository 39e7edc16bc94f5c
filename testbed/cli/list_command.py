"""``run_testbed.py list``: what can be named in a profile.

Each list imports what it shows, and rich only if there is a table: a list of names is printed at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.cli import options
from testbed.cli.parsers.list_parser import JSON_SCHEMA, RESULT_FILES
from testbed.common.errors import UserError, nearest
from testbed.common.terminal import plain_text

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.common.json_schema import JsonSchema
    from testbed.profile.power import Power, Radio
    from testbed.profile.schema import DeviceProfile, LinkProfile

_COLUMNS = ("parameter", "default", "allowed", "meaning")
_SCHEMA_COLUMNS = ("key or column", "unit", "meaning")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    what: str
    name: str | None
    """For ``schema``: the file; None: all of them."""
    verbose: bool
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedName:
    """A name that a profile may contain, or a table of a profile."""

    name: str
    title: str
    parameters: Sequence[tuple[str, ...]] = ()
    """Name, default, allowed values and meaning of each; of a field of a result file: name, unit and meaning."""
    details: Sequence[str] = ()
    """Lines that are shown with --verbose."""


def show(given: ListOptions) -> int:
    _check_name(given)
    if given.format == JSON_SCHEMA:
        _print_json(_schema(given.what) if given.name is None else _result_schema(given.name))
        return 0
    rows = [row for row in _LISTS[given.what]() if given.name in (None, row.name)]
    if given.format == "json":
        _print_json(rows)
    elif given.verbose or given.what in ("keys", "schema"):
        _print_details(rows, _SCHEMA_COLUMNS if given.what == "schema" else _COLUMNS)
    else:
        begin, end = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
        for row in rows:
            plain_text.show_titled(row.name, row.title, begin, end)
    return 0


def _print_json(value: object) -> None:
    from testbed.common.json_text import json_text

    plain_text.show_json(json_text(value))


def _print_details(rows: Sequence[ListedName], columns: Sequence[str]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from testbed.common.console import TerminalConsole

    console = TerminalConsole()
    for row in rows:
        console.print(Text(row.name, style="bold"), row.title, highlight=False, markup=False, soft_wrap=True)
        for line in row.details:
            console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))
        if row.parameters:
            console.print(_parameters(row.parameters, columns))
        console.print()


def _schema(what: str) -> JsonSchema:
    from testbed.loading import profile_schema

    schemas = {
        "devices": profile_schema.device_schema,
        "links": profile_schema.link_schema,
        "keys": profile_schema.experiment_schema,
    }
    if what not in schemas:
        problem = f"--format {JSON_SCHEMA} describes a file, and {what} have none"
        raise UserError(f"{problem}: use list keys --format {JSON_SCHEMA}, which contains all {what}")
    return schemas[what]()


def _result_schema(name: str) -> dict[str, object]:
    from testbed.runs.results import result_schemas

    return result_schemas.json_schema(name)


def _check_name(given: ListOptions) -> None:
    """Raise UserError for a file that is not known, or where no file can be named."""
    if given.what == "schema" and given.format == JSON_SCHEMA and given.name is None:
        raise UserError(f"list schema --format {JSON_SCHEMA}: name one file: {', '.join(RESULT_FILES)}")
    if given.name is None:
        return
    if given.what != "schema":
        raise UserError(f"list {given.what} {given.name}: only list schema takes a name; leave it out")
    if given.name not in RESULT_FILES:
        raise UserError(f"list schema {given.name}: there is no such file; {nearest(given.name, RESULT_FILES)}")


def _result_files() -> list[ListedName]:
    from testbed.common.documented import meanings
    from testbed.runs.results import result_schemas

    return [
        ListedName(
            name=name,
            title=(cls.__doc__ or "").splitlines()[0],
            parameters=[(field.name, field.unit, field.meaning) for field in meanings(cls)],
        )
        for name, cls in result_schemas.RESULT_FILES.items()
    ]


def _parameters(rows: Sequence[tuple[str, ...]], columns: Sequence[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2))
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))  # as a Text: brackets are not markup
    return table


def _strategies() -> list[ListedName]:
    from aggregator.strategies import STRATEGIES
    from testbed.common.plugins import citation

    return _classes(STRATEGIES, lambda cls: [citation(cls)])


def _tasks() -> list[ListedName]:
    from testbed.learning.data import loader
    from testbed.learning.tasks import TASKS

    # size, licence and citation of the data set, if it is one of the files that Edgebed reads
    lines = dict(loader.described())
    return _classes(TASKS, lambda cls: [lines[cls.stored]] if hasattr(cls, "stored") else [])


def _networks() -> list[ListedName]:
    from testbed.common.parameters import parameter_of
    from testbed.learning.models import NETWORKS
    from testbed.learning.tasks import TASKS

    offers = {
        task: parameter_of(cls, "model").allowed.choices or () for task, cls in TASKS.items() if hasattr(cls, "model")
    }
    return [
        ListedName(
            name=name,
            title=network.title,
            details=[
                f"{network.parameters:,} parameters"
                + (f", {network.buffers:,} numbers in buffers" if network.buffers else ""),
                f"input: {'×'.join(map(str, network.inputs))}, outputs: {network.outputs}",
                f"tasks: {', '.join(task for task, models in offers.items() if name in models) or 'none by name'}",
            ],
        )
        for name, network in NETWORKS.items()
    ]


def _splits() -> list[ListedName]:
    from testbed.learning.splits import SPLITS

    return _classes(SPLITS, lambda cls: [])


def _classes(classes: Mapping[str, type[Any]], details: Callable[[Any], list[str]]) -> list[ListedName]:
    from testbed.common.parameters import describe

    return [
        ListedName(name=name, title=(cls.__doc__ or "").strip(), parameters=list(describe(cls)), details=details(cls))
        for name, cls in classes.items()
    ]


def _keys() -> list[ListedName]:
    """Return the keys of a profile, table by table. A device's profile and link may be names, paths or such tables."""
    from testbed.common.parameters import describe
    from testbed.profile import power, schema
    from testbed.profile.radio import Cell
    from testbed.wire.endpoints import Transport
    from testbed.wire.training_job import Job

    tables: dict[str, type[Any]] = {
        "(top level)": schema.Experiment,
        "[[devices]]": schema.DeviceGroup,
        "[devices.profile]": schema.DeviceProfile,
        "[devices.profile.power]": power.Power,
        "[[devices.schedule]]": schema.Phase,
        "[devices.link.up], [devices.link.down]": schema.Direction,
        "[devices.link.power]": power.Radio,
        "[cell]": Cell,
        "[training]": Job,
        "[stop]": schema.StopWhen,
        "[transport]": Transport,
        "[evaluation]": schema.Evaluation,
        "[presence]": schema.Presence,
        "[checkpoint]": schema.Checkpoint,
        "[replay]": schema.Replay,
        "[[events]]": schema.ScriptedEvent,
    }
    return [
        ListedName(name=name, title=(cls.__doc__ or "").splitlines()[0], parameters=list(describe(cls)))
        for name, cls in tables.items()
    ]


def _devices() -> list[ListedName]:
    from testbed.profile.schema import DeviceProfile

    return _profiles("devices", DeviceProfile)


def _links() -> list[ListedName]:
    from testbed.profile.schema import LinkProfile

    return _profiles("links", LinkProfile)


def _profiles(kind: str, cls: type[DeviceProfile] | type[LinkProfile]) -> list[ListedName]:
    from testbed.loading import profile_files

    rows = []
    for name in profile_files.catalogue(kind):
        found = profile_files.named(cls, kind, name, name, kind, Path())
        rows.append(ListedName(name=name, title=found.title, details=_details(found)))
    return rows


def _details(found: DeviceProfile | LinkProfile) -> list[str]:
    from testbed.profile.schema import LinkProfile

    if isinstance(found, LinkProfile):
        lines = [
            f"{direction}: {d.trace or ('no limit' if d.mbit is None else f'{d.mbit:g} Mbit/s')}, {d.delay * 1e3:g} ms"
            f" + |N(0, {d.jitter * 1e3:g} ms)|, drop {d.drop:g}"
            for direction, d in (("down", found.down), ("up", found.up))
        ]
    else:
        speeds = found.seconds_per_sample
        by_task = speeds if isinstance(speeds, dict) else {} if speeds is None else {"any task": speeds}
        lines = [
            f"{task}: {seconds * 1e3:g} ms per sample"
            + (", derived from FLOPs" if task in found.derived_speeds else "")
            for task, seconds in by_task.items()
        ]
    return [*lines, f"source: {found.source}", *([] if found.power is None else _watts(found.power))]


def _watts(power: Power | Radio) -> list[str]:
    """Return the figures of a power model, and their source."""
    from testbed.profile.power import Radio

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
    "networks": _networks,
    "splits": _splits,
    "keys": _keys,
    "schema": _result_files,
}
"""In the order of --help."""


COMMAND = options.command(ListOptions, show)
