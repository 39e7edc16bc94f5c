"""One pass over a trace: every checker takes the events that it asks for.

A checker names a function for each type of event that it needs. The pass looks the functions up by type, so that an
event costs nothing in the checkers that do not need it, and a trace of a million events is decoded once for all of
them: totals, certificate, rounds and the data of the report.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from testbed.history.trace import KINDS, Event

Handlers: TypeAlias = Mapping[type[Event], Callable[[Any], object]]
"""Type of event → the function that takes such events; what it returns does not matter."""


class Checker(Protocol):
    """Takes the events of a trace in their order."""

    def handlers(self) -> Handlers: ...


def pass_events(events: Iterable[Event], *checkers: Checker) -> None:
    """Pass each event to all checkers that have a handler for its type, in the order of the checkers."""
    table: dict[type[Event], list[Callable[[Any], object]]] = {kind: [] for kind in KINDS.values()}
    for checker in checkers:
        for kind, handle in checker.handlers().items():
            table[kind].append(handle)
    with no_collection():
        for event in events:
            for handle in table[type(event)]:
                handle(event)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Pause the search for reference cycles: events and results have none, and it would visit each of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
