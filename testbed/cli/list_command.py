"""``run_testbed.py list``: what can be named in a profile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aggregator.strategies import STRATEGIES
from testbed.cli import options
from testbed.cli.options import Commands
from testbed.common.parameters import describe
from testbed.common.plugins import Catalogue, citation
from testbed.learning.splits import SPLITS
from testbed.learning.tasks import TASKS
from testbed.loading import profile_files
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
from testbed.wire.endpoints import Transport
from testbed.wire.training_job import Job

_CATALOGUES: dict[str, Catalogue[Any]] = {"strategies": STRATEGIES, "tasks": TASKS, "splits": SPLITS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    what: str
    verbose: bool
    format: str


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("list", help="what can be named in a profile")
    options.set_command(parser, ListOptions, show)
    kinds = ("strategies", "devices", "links", "tasks", "splits", "keys")
    parser.add_argument("what", choices=kinds, help="splits: of data; keys: of a profile")
    parser.add_argument("-v", "--verbose", action="store_true", help="with parameters, or with sources")
    options.add_format(parser)


def show(given: ListOptions) -> int:
    rows = _rows(given.what)
    if given.format == "json":
        print(json.dumps(rows, indent=2))
        return 0
    console = Console()
    for row in rows:
        console.print(Text(row["name"], style="bold"), row["title"], highlight=False, markup=False, soft_wrap=True)
        if given.verbose or given.what == "keys":
            for line in row["details"]:
                console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))
            if row["parameters"]:
                console.print(_parameters(row["parameters"]))
            console.print()
    return 0


def _rows(what: str) -> list[dict[str, Any]]:
    if what == "keys":
        return _keys()
    return _classes(what) if what in _CATALOGUES else _profiles(what)


def _parameters(rows: Sequence[tuple[str, str, str, str]]) -> Table:
    table = Table(box=None, padding=(0, 2))
    for column in ("parameter", "default", "allowed", "meaning"):
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))  # as a Text: brackets are not markup
    return table


def _classes(what: str) -> list[dict[str, Any]]:
    about = {"strategies": _source, "tasks": _data_set, "splits": _nothing}[what]
    return [
        {"name": name, "title": (cls.__doc__ or "").strip(), "parameters": list(describe(cls)), "details": about(cls)}
        for name, cls in _CATALOGUES[what].items()
    ]


def _source(cls: type[Any]) -> list[str]:
    return [citation(cls)]


def _data_set(cls: type[Any]) -> list[str]:
    """Return size, licence and citation of the task's data set, if it is one of the files that Edgebed reads."""
    from testbed.learning.data import loader  # imports all readers, which other lists do not need

    return [line for name, line in loader.described() if name == getattr(cls, "stored", None)]


def _nothing(cls: type[Any]) -> list[str]:
    return []


def _keys() -> list[dict[str, Any]]:
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
        {"name": name, "title": (cls.__doc__ or "").splitlines()[0], "parameters": list(describe(cls)), "details": []}
        for name, cls in tables.items()
    ]


def _profiles(what: str) -> list[dict[str, Any]]:
    cls = {"devices": DeviceProfile, "links": LinkProfile}[what]
    rows = []
    for name in profile_files.catalogue(what):
        found: Any = profile_files.named(cls, what, name, name, what, Path())
        rows.append({"name": name, "title": found.title, "parameters": [], "details": _details(found)})
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
