"""Events of the run and its host: header, devices that join and leave, scores, load, and the end."""

from __future__ import annotations

from typing import Any

from testbed.common.fields import Count, Number, PositiveSeconds, Seconds
from testbed.history.events.event import Event
from testbed.history.events.watts import Watts

UNITS = "seconds, bytes, versions"


class Header(Event, frozen=True, kw_only=True):
    """The first event: what was run, and the units of all numbers."""

    schema: int
    name: str
    strategy: str
    parameters: dict[str, Any] = {}  # noqa: RUF012  msgspec gives each event its own
    """Parameters of the strategy that the profile sets."""
    seed: int
    data_seed: int | None = None
    model_seed: int | None = None
    """None means: the same as ``seed``."""
    dilation: Seconds
    """Host seconds per emulated second."""
    demand: Seconds
    """Demand on the busiest core, as a share of it, at admission."""
    pressure: Seconds | None
    """Share of the time in which a process waited for a core (PSI), just before the run."""
    survey_age: Seconds | None = None
    """Seconds from the survey that the demand is based on to the run; 0 if it was made for it. None: not known."""
    started: str
    host: str
    replay: str = ""
    """The mode if this run is a replay."""
    clip: Number | None = None
    on_clip: str = ""
    """The keys of ``aggregator`` in the profile; empty if updates have no bound."""
    clock: str = "wall"
    """As in the profile. On a virtual clock nothing was measured: all moments are computed."""
    compute: str = "train"
    """As in the profile. With none, updates and scores have no meaning."""
    units: str = UNITS


class Joined(Event, frozen=True, kw_only=True):
    """A device joined; it reads pid and cores itself. ``watts`` is null if its profile has no power model."""

    device: str
    pid: Count
    cores: list[Count]
    samples: Count
    watts: Watts | None = None
    compress_updates: str = "none"
    """How it compresses its updates, as in a profile. The residual of a process with another pid begins with 0."""


PROCESS_ENDED, UNREACHABLE = "its process has ended", "it cannot be reached"


class Left(Event, frozen=True, kw_only=True):
    device: str
    reason: str
    """:data:`PROCESS_ENDED` after an unplanned death; :data:`UNREACHABLE` if sending failed before that was noticed."""


class Refusal(Event, frozen=True, kw_only=True):
    """A message was refused (malformed, one too many, unknown sender), or a connection was rejected.

    The name of a peer without our credential begins with ``stranger/``; ``count`` counts equal refusals in a second.
    """

    peer: str
    reason: str
    count: Count = 1


class Load(Event, frozen=True, kw_only=True):
    """Load of the aggregator in a stretch of ``span`` host seconds: busy seconds, and ``served`` updates."""

    span: Seconds
    busy: Seconds
    served: Count
    service: Seconds
    longest: Seconds
    """Host seconds for all updates together, and for the slowest one."""
    waited: Seconds | None
    """Host seconds in which it waited for its core."""
    pressure: Seconds | None
    """Share of the stretch in which a process on this host waited for a core (PSI)."""


class Canary(Event, frozen=True, kw_only=True):
    """A canary's step on a device core, in host seconds: ``asked``, ``alone`` (mean before the run) and obtained."""

    core: Count
    asked: Seconds
    alone: PositiveSeconds
    obtained: Seconds


class OutOfRange(Event, frozen=True, kw_only=True):
    """The norm of the model has grown to a thousand times that of the first one, and with each further event again.

    The version may be later than the first one that is out of range. ``norm`` is null if it is not finite: the run ends
    then, and the version is not made.
    """

    version: int
    norm: Number | None
    start: Number
    """The norm of the first model, or 1 if that is larger."""
    device: str
    largest: Number
    """The device with the largest update since the last check, and the norm of that; empty if there was none."""


class Scored(Event, frozen=True, kw_only=True):
    """A version was scored; ``made`` is when the version was made, ``t`` when its score was known."""

    version: Count
    made: Seconds
    metrics: dict[str, Number]


class Resumed(Event, frozen=True, kw_only=True):
    """An interrupted run continues here; ``t`` is the moment of its checkpoint. The ``undone`` events after it are no
    longer in this trace, and devices start their jobs in flight again.
    """

    version: Count
    undone: Count
    dilation: Seconds
    started: str
    """Date and time at which it was resumed."""


class Stopped(Event, frozen=True, kw_only=True):
    reason: str
    version: Count
    in_flight: Count
    wakes: Count = 0
    """How often the strategy was woken."""
    model: str = ""
    """SHA-256 of the final model's bytes."""
    silent: list[str] = []  # noqa: RUF012
    """Present devices that sent no last message: their last events are missing."""
