"""What an aggregation rule sees and may answer.

A strategy is deterministic and knows no socket and no clock: same events in, same decisions out. Two sentences
carry the semantics: **a device absent from** ``Decision.train`` **keeps doing what it does** (an idle one stays
held), and **a busy device named in it is restarted**.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import msgspec
import numpy as np

from testbed.wire.messages import Job, Update, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What the aggregator knows of a device that is present."""

    name: str
    samples: int
    keeps_base: bool = False
    """Whether it goes on with the model that it had, where a download is lost."""


class Outlook(Protocol):
    """What is known of the radio cell, and of jobs that have not begun yet."""

    @property
    def bandwidth(self) -> float:
        """Hertz that the devices share."""

    def snr(self, device: str, version: int) -> float:
        """p·h/σ² of a device in the round that follows this version."""

    def seconds(self, device: str, job: Job) -> float:
        """What download and computing of a job will take, if nothing goes wrong."""

    def heard(self, update: Update) -> None:
        """For the engine: an update has come, and tells what its computing took."""


class Server(Protocol):
    """A strategy's read-only view of the run."""

    @property
    def now(self) -> float:
        """Emulated seconds since the run began."""

    @property
    def version(self) -> int:
        """Global updates applied so far."""

    @property
    def model(self) -> Vector:
        """The current model. Read-only: return a new one."""

    @property
    def devices(self) -> Mapping[str, DeviceInfo]:
        """The devices that are present."""

    @property
    def known(self) -> Mapping[str, DeviceInfo]:
        """Every device that has ever been present, gone or not."""

    @property
    def busy(self) -> Mapping[str, int]:
        """Device → version that it is training on, for those whose update can still come."""

    @property
    def job(self) -> Job:
        """Local training as the profile asks for it."""

    @property
    def random(self) -> np.random.Generator:
        """The only source of chance a strategy may use."""

    def model_at(self, version: int) -> Vector:
        """A past model. Kept as long as a device trains on it, or an update based on it awaits a decision."""

    def staleness(self, update: Update) -> int:
        """τ: versions made since the update's device downloaded its model. 0 is fresh."""

    @property
    def outlook(self) -> Outlook:
        """For rules that grant rates."""

    def remaining(self, device: str, *, by_beats: bool = False) -> float:
        """T^rem: seconds that a busy device will compute yet; 0 if it has asked for a grant, and else above it.

        ``by_beats``: reckoned from the progress in its last heartbeat, which comes when the host pleases.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who uploads in the round that begins, with which part of the band. The fields are those of ``trace.Planned``."""

    devices: tuple[str, ...]
    rates: tuple[float, ...]
    """Bits per second."""
    shares: tuple[float, ...]
    remaining: tuple[float, ...]
    seconds: float
    queue: float
    spent: float
    budget: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A cluster as it is to be from now on. With another head it begins anew: what the old one held is lost."""

    cluster: int
    head: str
    members: tuple[str, ...]
    """The head among them."""
    quorum: int
    damped: bool = True


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done. The default is: nothing."""

    model: Vector | None = None
    """A new version, if not None (the same model again is an iteration that changed nothing)."""
    train: Mapping[str, Job] = msgspec.field(default_factory=dict)
    """Dispatch the current model (after ``model``) to these devices."""
    applied: Mapping[int, float] = msgspec.field(default_factory=dict)
    """Ticket → weight of each update that goes into ``model`` for the first time, and of those that are used again."""
    rejected: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Ticket → reason, for each update that will never be used."""
    wake_at: float | None = None
    """Call ``on_wake`` at this moment (now: again at once); None leaves an earlier wish standing."""
    plan: Plan | None = None
    """Grant rates to these devices, which are busy after ``train`` and have been granted none."""
    dissolve: bool = False
    """There are no clusters any more: what their members do is superseded."""
    clusters: Sequence[Sequence[str]] | None = None
    """Clusters that were found. For the trace."""
    groups: Sequence[Grouping] = ()
    """Clusters that have changed. Their devices are told before anything is dispatched."""
    leads: Collection[str] = ()
    """Of the devices in ``train``, those that are sent the model for their cluster."""
    up: Vector | None = None
    """Of a cluster head's rule: what ``applied`` adds up to, for the aggregator; there is no new version here."""
    round: Sequence[tuple[str, float]] | None = None
    """A round, as the paper counts them, has ended: its devices, and the seconds that each computed. For the trace."""


class Reject(Exception):
    """Raised by a rule for an update that it will not use; the text is the reason."""


class Strategy(abc.ABC):
    """Base of all rules. Parameters are dataclass fields made with ``testbed.common.parameters.param``."""

    hands_out_final_model: ClassVar[bool] = False
    """Whether the run ends only when every device has the final model."""
    grants: ClassVar[bool] = False
    """Whether devices upload only when, and as fast as, the rule says (``Decision.plan``): it needs a radio cell."""
    unrepeatable: ClassVar[str] = ""
    """Why a strict replay, which repeats the order of updates at the aggregator, would not do; empty: it would."""
    keeps_old_base: ClassVar[bool] = True
    """Whether its devices may go on with the model that they have, where a download is lost."""

    @property
    def resumable(self) -> bool:
        """Whether a run can go on from a checkpoint, which has nothing of what is on the devices."""
        return True

    @classmethod
    def preload(cls) -> None:  # noqa: B027  most strategies need only numpy
        """Import what takes seconds to import. Called once, in the process that all others are forked from."""

    def check(self, devices: int) -> None:  # noqa: B027  most rules fit every fleet
        """Raise ``testbed.common.parameters.ParameterError`` for what does not fit a fleet of so many devices."""

    @abc.abstractmethod
    def on_start(self, server: Server) -> Decision:
        """The run begins with the devices that are present."""

    @abc.abstractmethod
    def on_join(self, device: str, server: Server) -> Decision:
        """A device came, or came back."""

    @abc.abstractmethod
    def on_leave(self, device: str, server: Server) -> Decision:
        """A device is gone; what it was doing is lost."""

    @abc.abstractmethod
    def on_update(self, update: Update, server: Server) -> Decision:
        """An update with a valid ticket arrived; its device is idle now."""

    @abc.abstractmethod
    def on_ready(self, device: str, server: Server) -> Decision:
        """A device is idle without having delivered: its update was given up, or was not fit to be used."""

    def on_ask(self, device: str, server: Server) -> Decision:
        """A device has computed and waits for a grant."""
        return Decision()

    def taken(self, device: str) -> int | None:
        """The last ticket of a device that went into the model (0: none), where it uploads differences to that."""
        return None

    def on_wake(self, server: Server) -> Decision:
        """The moment asked for by ``wake_at`` has come."""
        return Decision()

    def job(self, device: str, server: Server) -> Job:
        """Local work for the next dispatch to ``device``. Override for adaptive local work."""
        return server.job
