"""The run and its host: what it was, who was there, what was scored, how it ended."""

from __future__ import annotations

from typing import Any

from testbed.history.events.event import Event
from testbed.profile.power import Watts
from testbed.wire.messages import Number, Positive

UNITS = "seconds, bytes, versions"


class Header(Event, frozen=True, kw_only=True):
    """First line: what the numbers below mean."""

    schema: int
    name: str
    strategy: str
    parameters: dict[str, Any] = {}  # noqa: RUF012  msgspec gives each event its own
    """Of the rule, as far as the profile gives them."""
    seed: int
    data_seed: int | None = None
    model_seed: int | None = None
    """None: the same as ``seed``."""
    dilation: Number
    """Host seconds per emulated second."""
    demand: Number
    """Share asked for of the core that is asked for most, when the run was admitted."""
    pressure: Number | None
    """Share of the time in which somebody waited for a core (PSI), just before the run."""
    started: str
    host: str
    replay: str = ""
    """The mode, if this run met the delays of a recorded one."""
    units: str = UNITS


class Joined(Event, frozen=True, kw_only=True):
    """A device is there; pid and cores as it read them back itself. ``watts`` is null where its profile has none."""

    device: str
    pid: int
    cores: list[int]
    samples: int
    watts: Watts | None = None


PROCESS_ENDED, UNREACHABLE = "its process has ended", "it cannot be reached"


class Left(Event, frozen=True, kw_only=True):
    device: str
    reason: str
    """:data:`PROCESS_ENDED` where that was known and nobody had wanted it so; :data:`UNREACHABLE` if something was to
    be sent to it just before that was seen.
    """


class Refusal(Event, frozen=True, kw_only=True):
    """A message that was not one, or too many, or that came from nobody we know; or a connection that came to nothing.

    ``stranger/`` stands before what a peer calls itself that is none of ours; ``count`` is of the same in a second.
    """

    peer: str
    reason: str
    count: int = 1


class Load(Event, frozen=True, kw_only=True):
    """A stretch of ``span`` host seconds in the aggregator: how long it worked and, of that, on ``served`` updates."""

    span: Number
    busy: Number
    served: int
    service: Number
    longest: Number
    """Host seconds for all the updates together, and for the one that took longest."""
    waited: Number | None
    """Host seconds for which it wanted its core and had to wait."""
    pressure: Number | None
    """Share of the stretch in which somebody on this host waited for a core (PSI)."""


class Canary(Event, frozen=True, kw_only=True):
    """Steps that belong to nobody, on a device core: host seconds ``asked``, obtained ``alone`` (before the run, mean)
    and now.
    """

    core: int
    asked: Number
    alone: Positive
    obtained: Number


class Scored(Event, frozen=True, kw_only=True):
    """``made`` is the moment at which the version came to be, ``t`` when its score was known."""

    version: int
    made: Number
    metrics: dict[str, Number]


class Resumed(Event, frozen=True, kw_only=True):
    """The run was interrupted, and goes on from here: ``t`` is when its checkpoint was made. What had been done since
    is not in this trace any more (``undone``: how many events); devices begin anew with what they were doing.
    """

    version: int
    undone: int
    dilation: Number
    started: str
    """When it went on, by the host's calendar."""


class Stopped(Event, frozen=True, kw_only=True):
    reason: str
    version: int
    in_flight: int
    wakes: int = 0
    """How often the rule was woken."""
    model: str = ""
    """SHA-256 of the final model's bytes."""
    silent: list[str] = []  # noqa: RUF012
    """Devices that were there and did not say goodbye: what they had not told yet is missing above."""
