"""One pass over events: which checker gets which event, in which order."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from testbed.history import trace
from testbed.history.event_pass import Handlers, pass_events
from testbed.history.trace import Event
from tests.testbed.analysis.histories import joined, sent, stopped
from tests.testbed.examples import EVENTS


class Noting:
    """Notes the events of some types, with its own name."""

    def __init__(self, name: str, seen: list[tuple[str, Event]], *kinds: type[Event]) -> None:
        self._name, self._seen, self._kinds = name, seen, kinds

    def handlers(self) -> Handlers:
        return dict.fromkeys(self._kinds, lambda event: self._seen.append((self._name, event)))


def test_a_checker_gets_the_types_that_it_asks_for_and_no_others() -> None:
    seen: list[tuple[str, Event]] = []
    events = [joined(), sent(1), joined("b"), stopped(8.0)]
    pass_events(events, Noting("x", seen, trace.Joined, trace.Stopped), Noting("y", seen, trace.Dispatched))
    assert seen == [("x", events[0]), ("y", events[1]), ("x", events[2]), ("x", events[3])]


def test_each_event_passes_the_checkers_in_their_order_before_the_next_event() -> None:
    seen: list[tuple[str, Event]] = []
    first, second = joined(), joined("b")
    pass_events([first, second], *(Noting(name, seen, trace.Joined) for name in "cab"))
    assert seen == [(name, event) for event in (first, second) for name in "cab"]


def test_events_that_no_checker_asks_for_pass_and_every_kind_may_be_asked_for() -> None:
    pass_events(EVENTS)
    seen: list[tuple[str, Event]] = []
    pass_events(EVENTS, Noting("x", seen, *trace.KINDS.values()))
    assert [event for _, event in seen] == list(EVENTS)


def test_what_a_handler_returns_does_not_matter() -> None:
    class Answering:
        def handlers(self) -> Handlers:
            return {trace.Joined: lambda event: False}

    seen: list[tuple[str, Event]] = []
    pass_events([joined()], Answering(), Noting("x", seen, trace.Joined))
    assert len(seen) == 1


# ---- garbage collection


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the collector is enabled before a pass."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


class Looking:
    """Notes whether the collector is enabled during the pass, and may fail."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.enabled: list[bool] = []
        self._error = error

    def handlers(self) -> Handlers:
        return {trace.Joined: self._look}

    def _look(self, event: trace.Joined) -> None:
        self.enabled.append(gc.isenabled())
        if self._error is not None:
            raise self._error


def test_collection_pauses_during_the_pass_and_is_as_before_after_it(collecting: bool) -> None:
    looking = Looking()
    pass_events([joined(), joined("b")], looking)
    assert (looking.enabled, gc.isenabled()) == ([False, False], collecting)


@pytest.mark.parametrize("error", [KeyError("b"), KeyboardInterrupt()], ids=["error", "interrupted"])
def test_collection_is_as_before_after_a_checker_failed(collecting: bool, error: BaseException) -> None:
    with pytest.raises(type(error)):
        pass_events([joined()], Looking(error))
    assert gc.isenabled() == collecting


def test_collection_is_as_before_after_the_events_could_not_be_read(collecting: bool) -> None:
    def events() -> Iterator[Event]:
        yield joined()
        raise trace.TraceError("line 2")

    with pytest.raises(trace.TraceError):
        pass_events(events(), Looking())
    assert gc.isenabled() == collecting
