"""The history of a run: typed events, an append-only writer, a reader.

``trace.jsonl`` holds one event a line, as JSON: ``kind`` (the class name below in lower case), ``t`` (emulated
seconds since the run began) and the fields of that class. A :class:`Header` comes before anything that happens in the
run. Metrics and summaries are functions of these events and of nothing else. *asked* is what the profile wanted,
*obtained* what the clock said.
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, Union, get_args

import msgspec

from testbed.messages import Number

SCHEMA = 4
UNITS = "seconds, bytes, versions"
_EVENTS_IN_MEMORY = 4096


class Miss(msgspec.Struct, frozen=True, array_like=True):
    """Check number ``check`` (from 1): the steps since the one before should have taken ``asked`` seconds, and the
    last of them was computed so ``late``.
    """

    check: int
    asked: Number
    late: Number


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """Host seconds that a process ran, waited for a core, and waited in steps that missed their deadline."""

    cpu: Number
    waited: Number
    stolen: Number


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    t: Number


class TicketEvent(Event, frozen=True, kw_only=True):
    """Base of what happens to one ticket of a device."""

    device: str
    ticket: int


class TransferEvent(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Base of one attempt to move a vector over a link, for the device's job number ``job`` (from 0).

    ``sent`` is when its way began; ``obtained`` counts until it was due, or until the device's process took it from
    the transport if that was later. ``t`` is when the device noticed.
    """

    job: int
    attempt: int
    sent: Number
    asked: Number
    obtained: Number
    bytes: int
    dropped: bool
    held: Number | None = None
    """Of the seconds asked for, those for which the device was away. Left out where it was there all the time."""


class ComputeEvent(TicketEvent, frozen=True, kw_only=True):
    """Base of what is known about the computing of one job when it ends, one way or the other."""

    steps: int
    checks: int
    """Deadlines that were checked; those of short steps are checked together."""
    misses: list[Miss]
    use: Use | None = None
    """None where the kernel does not say."""


class Header(Event, frozen=True, kw_only=True):
    """First line: what the numbers below mean."""

    schema: int
    name: str
    strategy: str
    parameters: dict[str, Any] = {}
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


class Watts(msgspec.Struct, frozen=True, kw_only=True):
    """What a device draws, by its profile."""

    idle: Number
    compute: Number
    suspended: Number | None = None
    """None, as in older traces: what it draws when idle."""
    transmit: Number = 0.0
    receive: Number = 0.0
    """On top of the rest, while it sends and receives."""
    source: str = ""

    @property
    def away(self) -> float:
        """While it hangs, or is away."""
        return self.idle if self.suspended is None else self.suspended


class Joined(Event, frozen=True, kw_only=True):
    """A device is there; pid and cores as it read them back itself. ``watts`` is null where its profile has none."""

    device: str
    pid: int
    cores: list[int]
    samples: int
    watts: Watts | None = None


class Left(Event, frozen=True, kw_only=True):
    device: str
    reason: str


class Dispatched(TicketEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A new ticket; ``steps`` is the local work it asks for, 0 with the final model.

    ``lead``: the model is for a whole cluster, and the device its head. Tickets of the head's own follow.
    """

    version: int
    steps: int
    lead: bool = False


class Resent(TicketEvent, frozen=True, kw_only=True):
    """The same ticket again: its download was lost."""


class Downloaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to bring a model to the device."""


class Suspended(TicketEvent, frozen=True, kw_only=True):
    """The device hung, or was away, and has come back; ``t`` is when it came back, ``steps`` how many it had done.

    Where it was ``away`` by its availability trace, or hung by the script, ``ticket`` is the job whose computing stood
    still. It is 0 where none did: the device was idle, or in a transfer, whose own seconds tell of it (``held``).
    """

    steps: int = 0
    asked: Number
    obtained: Number
    away: bool = False

    @property
    def since(self) -> float:
        """When it began."""
        return self.t - self.obtained

    @property
    def back(self) -> float:
        """When it should have come back: ``t`` is when its process looked."""
        return self.since + self.asked


class Scripted(Event, frozen=True, kw_only=True):
    """An event of the profile took effect; a kill: the device was silent from ``t`` on, and then its process died."""

    device: str
    do: str
    seconds: Number | None = None
    value: Number | None = None


class Trained(ComputeEvent, frozen=True, kw_only=True):
    """A job's computation ended; suspensions are not counted. ``asked`` is 0 where the device is not throttled."""

    asked: Number
    obtained: Number


class Uploaded(TransferEvent, frozen=True, kw_only=True):
    """One attempt to bring an update to the aggregator."""

    waited: Number | None = None
    """Of the first attempt: seconds before ``sent`` for which it was computed, and not granted a rate."""


class Asked(TicketEvent, frozen=True, kw_only=True):
    """A device has computed, at ``due``, and waits to be granted a rate. The rest is as in Arrived."""

    due: Number
    received: Number
    taken: Number


class Granted(TicketEvent, frozen=True, kw_only=True):
    """The rule gave a device a part of the band: it uploads so many bits per second."""

    rate: Number
    share: Number


class Planned(Event, frozen=True, kw_only=True):
    """A round begins in which these devices upload, in the order in which they are done."""

    version: int
    """t: versions that there are."""
    devices: list[str]
    """S_t; K_t is how many they are."""
    shares: list[Number]
    remaining: list[Number]
    """Seconds that each was thought to compute yet."""
    seconds: Number
    """That the round is to take."""
    queue: Number
    """q_t."""
    spent: Number
    budget: Number
    """Seconds of all rounds before it; that all rounds may take."""


class Abandoned(ComputeEvent, frozen=True, kw_only=True):
    """Work thrown away because a newer ticket came, with the steps done and the seconds spent on them."""

    seconds: Number


class Arrived(TicketEvent, frozen=True, kw_only=True):
    """An update with a valid ticket reached the rule. A loss that was not finite is null.

    It counts from ``t``: when the emulated uplink should have delivered it (``due``), unless it was ``received`` later,
    or later things have happened before. ``taken`` is when the aggregator's process took it up.
    """

    due: Number
    received: Number
    taken: Number
    bytes: int
    version: int
    staleness: int
    loss: Number | None
    started: Number | None = None
    finished: Number | None = None
    """Of its computing, as the device told: a rule may reckon with it."""


class Ignored(TicketEvent, frozen=True, kw_only=True):
    """An update, or a request for a grant, whose ticket had been settled before."""


class Aggregated(Event, frozen=True, kw_only=True):
    """A version came to be, out of these tickets with these weights (null: not finite) and stalenesses."""

    version: int
    tickets: list[int]
    weights: list[Number | None]
    staleness: list[int]


class Clustered(Event, frozen=True, kw_only=True):
    """Devices were put into clusters, by what they had learned from this version.

    ``purity``: share of them that have the same labels as most of their cluster; null where the data has no labels.
    """

    version: int
    clusters: list[list[str]]
    purity: Number | None


class Grouped(Event, frozen=True, kw_only=True):
    """A cluster has this head and these members from now on; ``book`` is another one whenever the head is."""

    cluster: int
    book: int
    head: str
    members: list[str]
    quorum: int


class Merged(TicketEvent, frozen=True, kw_only=True):
    """These tickets of a head's book went into the version that was just made, through the head's own ``ticket``.

    With these weights (null: not finite) in what the head made of them, and stalenesses.
    """

    tickets: list[int]
    weights: list[Number | None]
    staleness: list[int]


class Round(Event, frozen=True, kw_only=True):
    """A round, as the rule's paper counts them, has ended: who was in it, and how long each computed, in seconds."""

    number: int
    devices: list[str]
    seconds: list[Number]


class Rejected(TicketEvent, frozen=True, kw_only=True):
    reason: str


class Superseded(TicketEvent, frozen=True, kw_only=True):
    """The rule restarted a busy device, or the final model was sent to it."""


class Delivered(TicketEvent, frozen=True, kw_only=True):
    """The final model has reached the device: this ticket asked for nothing else."""


class Lost(TicketEvent, frozen=True, kw_only=True):
    reason: str


class Refusal(Event, frozen=True, kw_only=True):
    """A message that was not one, or that came from nobody we know."""

    peer: str
    reason: str


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
    alone: Number
    obtained: Number


class Scored(Event, frozen=True, kw_only=True):
    """``made`` is the moment at which the version came to be, ``t`` when its score was known."""

    version: int
    made: Number
    metrics: dict[str, Number]


class Stopped(Event, frozen=True, kw_only=True):
    reason: str
    version: int
    in_flight: int
    wakes: int = 0
    """How often the rule was woken."""
    model: str = ""
    """SHA-256 of the final model's bytes."""
    silent: list[str] = []
    """Devices that were there and did not say goodbye: what they had not told yet is missing above."""


DeviceEvent: TypeAlias = Downloaded | Suspended | Scripted | Trained | Uploaded | Abandoned
"""What devices report, with their messages."""

HeadEvent: TypeAlias = Dispatched | Resent | Arrived | Ignored | Rejected | Lost | Superseded
"""What cluster heads report of the tickets that they give out."""


def _leaves(cls: type[Event]) -> list[type[Event]]:
    below = cls.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [cls]


KINDS: dict[str, type[Event]] = {cls.__name__.lower(): cls for cls in _leaves(Event)}
_REPORTED = {cls.__name__.lower(): cls for cls in get_args(DeviceEvent)}
_KEPT = {cls.__name__.lower(): cls for cls in get_args(HeadEvent)}

_ANY: Any = Union[tuple(KINDS.values())]  # noqa: UP007  made of a table, not written out
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_ANY)


class TraceError(ValueError):
    """A line or a table that is not an event of this schema."""


def as_table(event: Event) -> dict[str, Any]:
    """The event as plain values, to travel in a message."""
    table: dict[str, Any] = msgspec.to_builtins(event)
    return table


def device_event(table: Mapping[str, Any]) -> DeviceEvent:
    """The event in what a device sent; anything that does not fit raises TraceError."""
    try:
        # one type, not the union: msgspec remembers the one and would analyse the other anew each time
        event: DeviceEvent = msgspec.convert(table, type=_REPORTED[table["kind"]])
    except KeyError:
        raise TraceError("a kind of event that a device does not report") from None
    except (msgspec.ValidationError, TypeError) as error:
        raise TraceError(str(error)) from None
    return event


def head_event(table: Mapping[str, Any]) -> HeadEvent:
    """The event in the ledger of a cluster head; anything that does not fit raises TraceError."""
    try:
        event: HeadEvent = msgspec.convert(table, type=_KEPT[table["kind"]])
    except KeyError:
        raise TraceError("a kind of event that a cluster head does not report") from None
    except (msgspec.ValidationError, TypeError) as error:
        raise TraceError(str(error)) from None
    return event


def canary_event(table: Mapping[str, Any]) -> Canary:
    """What a canary sang; anything else raises TraceError."""
    try:
        return msgspec.convert(table, type=Canary)
    except msgspec.ValidationError as error:
        raise TraceError(str(error)) from None


class TraceWriter:
    """Appends events. Lines are complete or absent, so a trace is readable after a crash."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._events: list[Event] = []

    def write(self, event: Event) -> None:
        """Remember the event; many are encoded at once, with a warm cache, when they are flushed."""
        self._events.append(event)
        if len(self._events) >= _EVENTS_IN_MEMORY:
            self.flush()

    def flush(self) -> None:
        if self._events:
            self._file.write(b"\n".join(map(_encoder.encode, self._events)) + b"\n")
            self._file.flush()
            self._events.clear()

    def close(self) -> None:
        self.flush()
        self._file.close()


def read(path: Path, torn: Callable[[int], None] = lambda line: None) -> Iterator[Event]:
    """Events of a trace file, which may be packed (``.gz``). A torn last line, as a crash leaves it, is passed over and
    its number told to ``torn``; any other that is no event is an error.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    torn(number)
                    return
                try:
                    event: Event = _decoder.decode(line)
                except (msgspec.MsgspecError, RecursionError) as error:
                    _check_foreign(line, f"{path}, line {number}")
                    raise TraceError(f"{path}, line {number}: {error}") from None
                if type(event) is Header:
                    _check(event.schema, event.units, f"{path}, line {number}")
                yield event
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}, after line {number}: cannot be unpacked: {error}") from None


def _check(schema: object, units: object, place: str) -> None:
    if schema != SCHEMA:
        raise TraceError(f"{place}: schema {schema}; this version reads {SCHEMA}")
    if units != UNITS:
        raise TraceError(f"{place}: units {units!r}; this version reads {UNITS!r}")


def _check_foreign(line: bytes, place: str) -> None:
    """The header of another version may have other fields; what matters is that it is of another version."""
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        table = msgspec.json.decode(line, type=dict[str, Any])
        if table.get("kind") == "header":
            _check(table.get("schema"), table.get("units", UNITS), place)
