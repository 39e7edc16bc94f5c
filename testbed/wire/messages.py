"""The messages between processes: one type for each, used on the device, on the wire and in the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from testbed.common.fields import LARGEST_COUNT, Count, Moment, Number, PositiveInt, Rate, Samples, Seconds, Text
from testbed.history.events.device_events import DeviceEvent
from testbed.history.events.run_events import Canary
from testbed.history.events.ticket_events import HeadEvent
from testbed.wire.ticket_ranges import TicketRange
from testbed.wire.training_job import Job

DTYPE: Literal["<f4"] = "<f4"
"""Little-endian float32, as numpy writes it: the type of the numbers in all vectors."""


class VectorShape(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Stands for a vector in the header of a message; the vector itself is in a frame of its own."""

    dtype: Literal["<f4"]
    size: Count


class PayloadShape(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Stands for a compressed delta in the header of an Update; its bytes take the place of the vector's frame."""

    method: Text
    """As ``compress_updates`` in a profile."""
    nbytes: Count


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from testbed.wire.compression import Compressed

    Vector: TypeAlias = npt.NDArray[np.float32]
    """A model, a delta or a gradient: one flat float32 array."""
    Payload: TypeAlias = Compressed | PayloadShape
    """A compressed delta. Its receiver has only its method and size, for the vector takes its place."""
else:
    Vector = VectorShape  # what msgspec decodes; the codec puts the array in its place
    Payload = PayloadShape

MOST_EVENTS = 1000
"""Events of one message. Those beyond the limit go with the next message."""
DeviceEvents: TypeAlias = Annotated[tuple[DeviceEvent, ...], msgspec.Meta(max_length=MOST_EVENTS)]
HeadEvents: TypeAlias = Annotated[tuple[HeadEvent, ...], msgspec.Meta(max_length=MOST_EVENTS)]

EVALUATOR = "evaluator"
"""The name of the evaluator process. No device has this name: those end in a number."""

STOPPED = "stopped"
"""State in the last heartbeat of a process: its answer to Stop."""

KILLED = "killed"
"""State in the last heartbeat of a device that the script kills. It carries the last events and is no sign of life."""


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=True):
    """Base class of all messages. On the wire, ``kind`` is the name of the class."""


class Hello(Message, frozen=True, kw_only=True):
    """Device → aggregator, once: its name, pid, samples, and the cores that the kernel says it may use."""

    device: Text
    pid: PositiveInt
    cores: Annotated[tuple[Count, ...], msgspec.Meta(max_length=4096)]
    samples: Samples


class Welcome(Message, frozen=True, kw_only=True):
    """Aggregator → device: the run begins; ``origin`` is time zero on CLOCK_MONOTONIC."""

    origin: Moment


class Train(Message, frozen=True, kw_only=True):
    """Aggregator → device: train this model. The new ticket replaces the one that the device works on, if any."""

    ticket: Count
    number: Count = 0
    """How many jobs the device was sent before, including those before a restart. It selects the entry of the fault
    timetable, which therefore does not depend on which jobs a process has seen."""
    version: Count
    sent: Seconds
    """When the emulated download begins: so the time of the real transport is not added to it."""
    job: Job | None
    """None: this is the final model; keep it, and do not train it."""
    model: Vector
    grant: bool = False
    """Whether the device must wait for a granted rate before it uploads: see Ask and Grant."""
    baseline: Count | None = None
    """Upload the difference to the device's baseline, whose last ticket is this one (0: the baseline is empty). None:
    upload the update itself."""
    arrived: Count = 0
    """The last ticket of this device, from the same giver, whose update reached the strategy; 0: none. A device that
    compresses its updates needs it (``error_feedback``)."""
    for_cluster: bool = False
    """Whether the model is for the cluster whose head the device is. The head answers with its members' result."""
    kept: bool = False
    """Whether the device keeps its update after the upload: SendGradient and JoinCluster may ask for it again."""


class SendGradient(Message, frozen=True, kw_only=True):
    """Aggregator → device: upload the last update that you computed, for a clustering. Your job continues beside it.

    It counts as a Train, and the Update that answers it has its ticket. A device that has no update reports the ticket
    as finished.
    """

    ticket: Count
    number: Count
    """It selects the entry of the fault timetable, as in Train."""
    sent: Seconds
    """When the emulated upload begins, unless the device is suspended then."""


class TrainsSent(Message, frozen=True, kw_only=True):
    """Aggregator → device: how many Train messages were sent to it before this message, on the same connection.

    Messages do not overtake each other, so those that have not arrived before this one are lost. The device counts
    them as received, and its next heartbeat shows that it does not have the ticket.
    """

    trains: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT // 2)]
    """The device adds the Trains that follow, and its sum must fit into a message again."""


class Base(Message, frozen=True, kw_only=True):
    """Aggregator → restarted device: the model that it had, to continue with if a download is lost."""

    version: Count
    model: Vector


class Update(Message, frozen=True, kw_only=True):
    """Device → aggregator: the result of one job. ``delta`` = local model − model of ``version``.

    With compression, ``delta`` is what the receiver makes of ``payload``, on both sides. The update is sent a little
    before ``due``, the end of the emulated upload, and the aggregator keeps it until then.
    """

    device: Text
    ticket: Count
    version: Count
    delta: Vector
    samples: Samples
    steps: Count
    started: Seconds
    finished: Seconds
    due: Seconds
    loss: Number | None
    """Mean over the steps; None if it is not finite, as on a device that diverges."""
    since: Count = 0
    """If ``delta`` is a difference to a baseline: the last ticket of that baseline."""
    payload: Payload | None = None
    """How a compressed delta travels; None: as it is."""
    trains: Count = 0
    """As in Heartbeat."""
    merged: tuple[tuple[Count, Number, Count], ...] = ()
    """From a cluster head: ticket, weight and staleness of each aggregated update."""
    events: DeviceEvents = ()

    @property
    def nbytes(self) -> int:
        """Bytes that the emulated link transfers: of the delta, compressed if it is, without the header."""
        return self.delta.nbytes if self.payload is None else self.payload.nbytes


class Ask(Message, frozen=True, kw_only=True):
    """Device → aggregator: the computing of this ticket ends at ``due``, and its upload needs a grant.

    Like an update, it is sent a little earlier and counts from ``due`` on. A device that has a grant already does not
    ask.
    """

    device: Text
    ticket: Count
    due: Seconds
    trains: Count = 0
    """As in Heartbeat."""
    events: DeviceEvents = ()


class Grant(Message, frozen=True, kw_only=True):
    """Aggregator → device: upload this ticket at ``rate`` bits per second, from ``sent`` on or when it is computed."""

    ticket: Count
    rate: Rate
    sent: Seconds


class Heartbeat(Message, frozen=True, kw_only=True):
    """Device → aggregator, about once a second: the device is alive, and how far it is. Updates may replace some.

    ``trains`` counts the Train messages that the device has received, ``ticket`` is its present job (0: none), and
    ``finished`` is the last job whose training ended, or the ticket of the final model once that is received. With
    these three the engine distinguishes a lost download (resend) from an upload that the device gave up (lost) without
    guessing delays.
    """

    device: Text
    state: Text
    ticket: Count = 0
    finished: Count = 0
    trains: Count = 0
    progress: Number = 0.0
    drops: Count = 0
    events: DeviceEvents = ()


class JoinCluster(Message, frozen=True, kw_only=True):
    """Aggregator → device: belong to this cluster, until the aggregator sends a Train that is not for a head."""

    ticket_range: TicketRange
    """The range of the tickets that the head gives out; it also names the endpoint of the head."""
    head: Text
    quorum: Count = 1
    """How many updates the head waits for."""
    damped: bool = True
    """Whether stale updates have a smaller weight."""
    members: tuple[tuple[Text, PositiveInt, Count], ...] = ()
    """For the head only: name and samples of each member, and how many jobs it was sent before."""
    carried: tuple[tuple[Text, Count], ...] = ()
    """Device and ticket of each job that a former head gave out and that its device continues for this head. The head
    gets all of them, a member its own."""
    sent: Seconds = 0.0
    """From then on, updates that wait at a former head are uploaded to this one."""


ForDevice: TypeAlias = Train | SendGradient | TrainsSent | Base | Grant | JoinCluster
"""What an engine sends to a device."""


class HeadReport(Message, frozen=True, kw_only=True):
    """Cluster head → aggregator: what became of the tickets that the head gave out."""

    device: Text
    ticket_range: TicketRange
    events: HeadEvents


class CanaryReport(Message, frozen=True, kw_only=True):
    """Canary → aggregator: one measured step."""

    event: Canary


class Snapshot(Message, frozen=True, kw_only=True):
    """Aggregator → evaluator: score this version, which was made at the moment ``made``."""

    version: Count
    made: Seconds
    model: Vector


class Score(Message, frozen=True, kw_only=True):
    """Evaluator → aggregator: the metrics of the version on the test data."""

    version: Count
    made: Seconds
    metrics: dict[Text, Number]


class Refused(Message, frozen=True, kw_only=True):
    """Aggregator → any peer: the last message of the peer was refused, and why."""

    reason: Text


class Stop(Message, frozen=True, kw_only=True):
    """Aggregator → all processes: the run is over."""

    reason: Text
