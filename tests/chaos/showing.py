"""Shows the measurements as a table on the terminal and in a document."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from testbed.host.kernel import processor
from tests.chaos import running, verdict
from tests.chaos import sockets as raw_sockets
from tests.chaos.plan import Settings
from tests.chaos.verdict import Line

_WORDS = {True: "holds", False: "**DOES NOT HOLD**", None: ""}
_LINE_SECONDS = 10.0
_DEVICES = 16
_LEAST_SECONDS, _CONNECTIONS_A_SECOND = 10.0, 120.0
"""Length of a run under hostile connections, in emulated seconds; an idle host makes 400 connections a second."""


class Progress:
    """One line that is overwritten; without a terminal, a new line every ten seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            print(text, file=sys.stderr, flush=True)


def chaos(settings: Settings, progress: Progress) -> list[Line]:
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        seen = running.carry_out(settings, Path(folder), progress)
        if seen.interrupted:
            raise KeyboardInterrupt  # the run has ended; a part of it proves nothing
        found = verdict.lines(seen)
        if seen.outcome.code != 0:
            print(f"\n{seen.outcome.stderr}", file=sys.stderr)
        return found


def sockets(connections: int, progress: Progress) -> list[Line]:
    """Attack a run over plain and one over encrypted TCP."""
    return [
        line
        for encrypt in (False, True)
        for line in raw_sockets.carry_out(
            encrypt=encrypt,
            connections=connections,
            devices=_DEVICES,
            seconds=_LEAST_SECONDS + connections / _CONNECTIONS_A_SECOND,
            progress=progress,
        )
    ]


def show(found: Sequence[Line], command: str) -> None:
    table = Table(title=f"{command}, {_where()}", title_justify="left", box=None)
    for column in ("what", "measured", "bound", ""):
        table.add_column(column, overflow="fold")
    for line in found:
        mark = {True: "[green]holds[/green]", False: "[red]DOES NOT HOLD[/red]", None: ""}[line.holds]
        table.add_row(line.what, line.measured, line.bound, mark)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    Console(width=160).print(table)


def write(path: Path, what: str, found: Sequence[Line], command: str) -> None:
    """Replace the table between the marks of ``what``."""
    begin, end = f"<!-- {what}: begin, written by tests.chaos -->", f"<!-- {what}: end -->"
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"{path}: {begin} and {end} are missing; add them where the table belongs")
    rows = [f"| {line.what} | {line.measured} | {line.bound} | {_WORDS[line.holds]} |" for line in found]
    table = [f"`{command}` ({_where()}):", "", "| what | measured | bound | |", "| --- | --- | --- | --- |", *rows]
    path.write_text("\n".join([before + begin, *table, end + after]), encoding="utf-8")


def _where() -> str:
    memory = psutil.virtual_memory().total / (1 << 30)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    cores = f"{os.cpu_count()} cores ({processor()}), {memory:.0f} GiB"
    return f"{today}; {cores}; Linux {platform.release()}, Python {platform.python_version()}"
