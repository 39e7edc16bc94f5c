"""FLASH's ``state_traces.json`` (Yang et al., WWW 2021): user → {guid, model, messages}.

``messages`` are lines ``2020-01-02 03:04:05<tab>state``. A phone is available while it is locked, on Wi-Fi and
charging (``models/timer.py``); at first it is none of these. The trace lasts from the first message to the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from testbed.common.errors import UserError
from testbed.traces.formats import table_file
from testbed.traces.formats.found_trace import Entry, FoundTrace, ImportOptions, availability_trace, shown

_CHANGES = {
    "battery_charged_on": ("charging", True),
    "battery_charged_off": ("charging", False),
    "wifi": ("wifi", True),
    "unknown": ("wifi", False),
    "2g": ("wifi", False),
    "3g": ("wifi", False),
    "4g": ("wifi", False),
    "5g": ("wifi", False),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
}
_OTHERS = re.compile(r"screen_on|screen_off|\d+(\.\d+)?%")
"""States that do not affect availability: the screen, and the charge of the battery."""


def read(path: Path, options: ImportOptions) -> Iterator[Entry]:
    for user, table in table_file.entries(path):
        yield Entry(name=user, build=partial(_found, user, table, f"{path}, {user!r}"))


def _found(user: str, table: object, place: str) -> FoundTrace:
    (messages,) = table_file.get(table, ("messages",), place)
    if not isinstance(messages, str):
        raise UserError(f"{place}: messages is {shown(messages)}; it must be a string of lines")
    spans: list[tuple[float, float]] = []
    state = {"charging": False, "wifi": False, "locked": False}
    first = since = None
    moment = 0.0
    for number, when, what in _messages(messages, place):
        first = first or when
        before, moment = moment, (when - first).total_seconds()
        if moment < before:
            problem = f"has the time {when}, before that of the message above; times must not decrease"
            raise UserError(f"{place}, message {number}: {problem}")
        if what in _CHANGES:
            key, value = _CHANGES[what]
            state[key] = value
        elif not _OTHERS.fullmatch(what):
            raise UserError(f"{place}, message {number}: state is {what!r}; known: {', '.join(_CHANGES)}, screen_on, …")
        ready = all(state.values())
        if ready and since is None:
            since = moment
        elif not ready and since is not None:
            spans.append((since, moment))
            since = None
    if since is not None:
        spans.append((since, moment))
    return FoundTrace(name=user, availability=availability_trace(spans, moment, place))


def _messages(text: str, place: str) -> Iterator[tuple[int, datetime, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        when, tab, what = line.strip().partition("\t")
        if not when:
            continue
        try:
            moment = datetime.strptime(when.strip(), "%Y-%m-%d %H:%M:%S")
        except ValueError:
            tab = ""
        if not tab:
            raise UserError(f"{place}, message {number}: is {line!r:.60}; it must be 'YYYY-mm-dd HH:MM:SS<tab>state'")
        yield number, moment, what.strip().lower()
