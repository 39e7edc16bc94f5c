"""``run_testbed.py list``: what can be named in a profile."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aggregator.strategies import STRATEGIES
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
from testbed.wire.messages import Job

_CATALOGUES: dict[str, Catalogue[Any]] = {"strategies": STRATEGIES, "tasks": TASKS, "splits": SPLITS}


def show(options: argparse.Namespace) -> int:
    kinds = dict.fromkeys(_CATALOGUES, _classes) | {"devices": _profiles, "links": _profiles, "keys": _keys}
    rows = kinds[options.what](options)
    if options.format == "json":
        print(json.dumps(rows, indent=2))
        return 0
    console = Console()
    for row in rows:
        console.print(Text(row["name"], style="bold"), row["title"], highlight=False, markup=False, soft_wrap=True)
        if options.verbose or options.what == "keys":
            for line in row["details"]:
                console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))
            if row["parameters"]:
                console.print(_parameters(row["parameters"]))
            console.print()
    return 0


def _parameters(rows: Sequence[tuple[str, str, str, str]]) -> Table:
    table = Table(box=None, padding=(0, 2))
    for column in ("parameter", "default", "allowed", "meaning"):
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))  # as it is: what stands in brackets is no markup
    return table


def _classes(options: argparse.Namespace) -> list[dict[str, Any]]:
    about = {"strategies": _whose, "tasks": _data_set, "splits": _nothing}[options.what]
    return [
        {"name": name, "title": (cls.__doc__ or "").strip(), "parameters": list(describe(cls)), "details": about(cls)}
        for name, cls in _CATALOGUES[options.what].items()
    ]


def _whose(cls: type[Any]) -> list[str]:
    return [citation(cls)]


def _data_set(cls: type[Any]) -> list[str]:
    """Size, licence and citation of the data set that a task takes from the store."""
    from testbed.learning.data import loader  # readers and downloads, which other lists do without

    return [line for name, line in loader.described() if name == getattr(cls, "stored", None)]


def _nothing(cls: type[Any]) -> list[str]:
    return []


def _keys(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every key of a profile, table by table. A device's profile and link may be names, paths or such tables."""
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


def _profiles(options: argparse.Namespace) -> list[dict[str, Any]]:
    cls = {"devices": DeviceProfile, "links": LinkProfile}[options.what]
    rows = []
    for name in profile_files.catalogue(options.what):
        found: Any = profile_files.named(cls, options.what, name, name, options.what, Path())
        rows.append({"name": name, "title": found.title, "parameters": [], "details": _details(found)})
    return rows


def _details(found: DeviceProfile | LinkProfile) -> list[str]:
    if isinstance(found, LinkProfile):
        lines = [
            f"{way}: {d.trace or ('no limit' if d.mbit is None else f'{d.mbit:g} Mbit/s')}, {d.delay * 1e3:g} ms"
            f" + |N(0, {d.jitter * 1e3:g} ms)|, drop {d.drop:g}"
            for way, d in (("down", found.down), ("up", found.up))
        ]
    else:
        speeds = found.seconds_per_sample
        by_task = speeds if isinstance(speeds, dict) else {} if speeds is None else {"any task": speeds}
        lines = [f"{task}: {seconds * 1e3:g} ms per sample" for task, seconds in by_task.items()]
    return [*lines, f"source: {found.source}", *([] if found.power is None else _watts(found.power))]


def _watts(power: Power | Radio) -> list[str]:
    """What the power model says, and where it has that from."""
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
