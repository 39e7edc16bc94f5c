"""What processes say to each other. One type per message, used on the device, on the wire and in the engine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

from testbed.common.parameters import param

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vector: TypeAlias = npt.NDArray[np.float32]
    """A model, a delta or a gradient: one flat float32 array."""
else:
    Vector = Any  # vectors travel beside the header, and are checked where they are taken from their frame

_TICKET_BITS = 24
_MANY = 1 << 53

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MANY)]
"""No more than every reader of JSON tells apart: so what is counted on, and added up, has room in a message again."""
PositiveInt: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
"""Steps of a job, samples of a device, the number of a process: 0 would be none, or (of processes) all of ours."""
Samples: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
"""Of somebody who may have none: an evaluator."""
Epochs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 22)]
"""So many times all samples of a device are no more than a Count."""
TicketRange: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=_MANY >> _TICKET_BITS)]
Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""A finite float: the bounds keep NaN and the infinities out."""
Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e300)]
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=1e-9, le=1e300)]
Factor: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
"""Of vectors in single precision."""
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""On the host's clock: a wait until then is one that the system calls can be asked for."""
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]
MOST_EVENTS = 1000
Events: TypeAlias = Annotated[tuple[dict[Text, Any], ...], msgspec.Meta(max_length=MOST_EVENTS)]
"""As tables: see testbed.history.trace. What does not fit into one message goes with the next."""

EVALUATOR = "evaluator"
"""The name under which the evaluator process connects. No device has it: theirs end in a number."""

STOPPED = "stopped"
"""State in the last heartbeat of a process, its answer to Stop."""

KILLED = "killed"
"""State in the last word of a device that the script kills. No sign of life: it only brings what was not told yet."""


CLUSTER_JOBS = 1 << 30
"""Numbers from here on are those of models that go through a cluster head: so they meet no fate of its own jobs."""


def first_ticket(ticket_range: int) -> int:
    """Whoever gives tickets out has a book of them: those of a newer book are larger, whoever keeps it."""
    return ticket_range << _TICKET_BITS


def range_of(ticket: int) -> int:
    return ticket >> _TICKET_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Local training as a device is told to do it. Travels with each dispatch, so a rule may change it."""

    steps: PositiveInt = param(10, "local SGD steps per job (ignored if epochs is set)", at_least=1, below=1 << 31)
    epochs: Epochs = param(0, "local epochs per job; 0 means: use steps", at_least=0, below=1 << 22)
    batch: Count = param(32, "samples per step; 0 means: all that the device has", at_least=0)
    lr: Factor = param(0.05, "local learning rate", above=0, at_most=1e30)
    lr_schedule: str = param(
        "constant",
        "how the rate falls within a job: not at all, or lr/√(e + 1) in local epoch e (from 0)",
        choices=("constant", "inverse-sqrt"),
    )
    lr_decay: Share = param(
        1.0, "how the rate falls from job to job: lr·lr_decay^n in the device's job n (from 0)", above=0, at_most=1
    )
    """AsyncFedED has a "decay rate" of 0.995 and does not say per what. Here it is per job, as elsewhere by round.
    Rules whose equations have the local rate η take ``lr`` for it: with a decay, gradients −Δ/η fade as Δ does."""
    momentum: Share = param(0.0, "local momentum", at_least=0, below=1)
    proximal: Factor = param(0.0, "μ of the proximal term (μ/2)·‖x − x_base‖²", at_least=0, at_most=1e30)

    def steps_over(self, samples: int) -> int:
        """Steps this job takes on a device that has ``samples`` samples."""
        if self.epochs == 0:
            return self.steps
        return self.epochs * self._steps_per_epoch(samples)

    def samples_per_step(self, samples: int) -> int:
        """Samples of a step on a device that has ``samples`` samples; the last step of an epoch may have fewer."""
        return max(1, min(self.batch or samples, samples))

    def largest_step(self, fleet: Iterable[int]) -> int:
        """Samples of the largest step in a fleet whose devices have so many samples each."""
        return max(self.samples_per_step(samples) for samples in fleet)

    def lr_at(self, step: int, samples: int, number: int = 0) -> float:
        """Learning rate of a step (from 0) on a device that has ``samples`` samples, in its job ``number`` (from 0)."""
        lr = self.lr * self.lr_decay**number
        if self.lr_schedule == "constant":
            return lr
        epoch = step // self._steps_per_epoch(samples)
        return lr / math.sqrt(epoch + 1)

    def samples_after(self, steps: int, samples: int) -> int:
        """Samples seen in ``steps`` steps; the last batch of each epoch may be short."""
        epochs, rest = divmod(steps, self._steps_per_epoch(samples))
        return epochs * samples + min(rest * self.samples_per_step(samples), samples)

    def _steps_per_epoch(self, samples: int) -> int:
        return -(-samples // self.samples_per_step(samples))


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that is said."""


class Hello(Message, frozen=True, kw_only=True):
    """Device → aggregator, once: who I am, and what I read back of my own limits."""

    device: Text
    pid: PositiveInt
    cores: Annotated[tuple[Count, ...], msgspec.Meta(max_length=4096)]
    samples: Samples


class Welcome(Message, frozen=True, kw_only=True):
    """Aggregator → device: the run begins; ``origin`` is time zero on CLOCK_MONOTONIC."""

    origin: Moment


class Train(Message, frozen=True, kw_only=True):
    """Aggregator → device: train this model like that. A new ticket replaces whatever you do.

    Without a job, it is the final model: keep it, there is nothing left to train.
    ``sent`` is when it set out: the way over the emulated link is counted from there, so that the time which the
    transport needs is not added to it. ``number`` is how many jobs the device was sent before, in all its lives: what
    befalls a job goes by it, so that it must not hang on which of them a process came to see.
    ``for_cluster``: for the whole cluster whose head the device is. The answer is what its members have made of it.
    """

    ticket: Count
    number: Count = 0
    version: Count
    sent: Number
    job: Job | None
    model: Vector
    grant: bool = False
    """Do not upload before you are granted a rate: see Ask and Grant."""
    baseline: Count | None = None
    """Upload the difference to what the server has of you, of which this ticket was the last (0: it has nothing). None:
    upload the update itself."""
    for_cluster: bool = False


class Base(Message, frozen=True, kw_only=True):
    """Aggregator → device that was started again: the model that you had, to go on with where a download is lost."""

    version: Count
    model: Vector


class Update(Message, frozen=True, kw_only=True):
    """Device → aggregator: the result of one job. ``delta`` = local model − model of ``version``.

    It is sent a little before ``due``, when the emulated uplink delivers it, and the aggregator keeps it until then.
    """

    device: Text
    ticket: Count
    version: Count
    delta: Vector
    samples: Samples
    steps: Count
    started: Number
    finished: Number
    due: Number
    loss: Number | None
    """Mean over the steps; None if it is not finite, which a diverging device may well report."""
    since: Count = 0
    """Of a difference: the ticket of the update that it is counted from."""
    trains: Count = 0
    """As in a heartbeat."""
    merged: tuple[tuple[Count, Number, Count], ...] = ()
    """Of a cluster head: ticket, weight and staleness of each update that went into it."""
    events: Events = ()


class Ask(Message, frozen=True, kw_only=True):
    """Device → aggregator: the computing of this ticket ends at ``due``, and I wait for a grant to upload it.

    It is sent a little before that, as an update is, and counts from then. Who was granted a rate before does not ask.
    """

    device: Text
    ticket: Count
    due: Number
    trains: Count = 0
    """As in a heartbeat."""
    events: Events = ()


class Grant(Message, frozen=True, kw_only=True):
    """Aggregator → device: upload this ticket at so many bits per second, from ``sent`` on or when it is computed."""

    ticket: Count
    rate: Rate
    sent: Number


class Heartbeat(Message, frozen=True, kw_only=True):
    """Device → aggregator, about once a second: alive, and how far.

    ``trains`` counts the Train messages that reached the device, ``ticket`` is the job it holds (0: none) and
    ``finished`` the last job whose training ended, or the final model once it is here. From these three the engine
    tells a lost download (send again) from an upload that was given up (count as lost) without guessing at delays.
    """

    device: Text
    state: Text
    ticket: Count = 0
    finished: Count = 0
    trains: Count = 0
    progress: Number = 0.0
    drops: Count = 0
    events: Events = ()


class JoinCluster(Message, frozen=True, kw_only=True):
    """Aggregator → device: you belong to this cluster, until a Train comes from me that is not for a head.

    ``book`` is that of the tickets which its head gives out, and names the endpoint at which it is reached. Only the
    head is told its ``members``: name, samples, and how many jobs each was sent before.
    """

    ticket_range: TicketRange
    head: Text
    quorum: Count = 1
    """Updates that the head waits for."""
    damped: bool = True
    """Whether stale updates weigh less."""
    members: tuple[tuple[Text, PositiveInt, Count], ...] = ()


class HeadReport(Message, frozen=True, kw_only=True):
    """Cluster head → aggregator: what became of the tickets of its book."""

    device: Text
    ticket_range: TicketRange
    events: Events


class Snapshot(Message, frozen=True, kw_only=True):
    """Aggregator → evaluator: score this version, which came to be at ``made``."""

    version: Count
    made: Number
    model: Vector


class Score(Message, frozen=True, kw_only=True):
    """Evaluator → aggregator: what the version is worth on the test data."""

    version: Count
    made: Number
    metrics: dict[Text, Number]


class Refused(Message, frozen=True, kw_only=True):
    """Aggregator → any peer: your last message was not taken, and why."""

    reason: Text


class Stop(Message, frozen=True, kw_only=True):
    """Aggregator → everyone: the run is over."""

    reason: Text
