"""The peers of the aggregator: which are connected, what each may send, and its last heartbeat."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterable

from testbed.host.kernel import is_computing
from testbed.profile.fleet import DeviceSpec
from testbed.wire.codec import BadMessage, Buffer, decode, encode, largest_frame
from testbed.wire.connection_monitor import CUT_OFF, IMPOSTOR, RejectionCounts
from testbed.wire.credentials import AllowList
from testbed.wire.io_thread import IoPolicy
from testbed.wire.messages import (
    EVALUATOR,
    KILLED,
    STOPPED,
    Ask,
    CanaryReport,
    ForDevice,
    HeadReport,
    Heartbeat,
    Hello,
    Message,
    Refused,
    Score,
    Update,
)
from testbed.wire.sockets import Hub, Incoming, PeerUnreachable

_LONGEST_REASON = 300


class Peers:
    """The devices, the canaries and the evaluator, as peers of the hub. ``size``: numbers in a model."""

    def __init__(
        self,
        devices: Iterable[DeviceSpec],
        canaries: tuple[str, ...],
        endpoint: str,
        size: int,
        *,
        allow: AllowList | None = None,
        dead: frozenset[str] = frozenset(),
        io: IoPolicy | None = None,
    ) -> None:
        """``dead``: devices that the script had killed before the checkpoint that the run continues from.

        ``io``: how ZeroMQ's threads are scheduled; None: as this one.
        """
        self.fleet = {device.name: device for device in devices}
        self.canaries, self._dead = canaries, dead
        self.hellos: dict[str, Hello] = {}
        self.heartbeats: dict[str, Heartbeat] = {}
        """The last heartbeat of each peer."""
        self._size = size
        self._rejected: RejectionCounts = Counter()
        self._cut_off: list[tuple[str, int]] = []
        """Peers whose connection has ended, and the process that had it."""
        self._hub = Hub(endpoint, max_bytes=largest_frame(size), allow=allow, io=io)
        self.endpoint = self._hub.endpoint

    def close(self) -> None:
        self._hub.close()

    # ---- which peers are there

    @property
    def names(self) -> set[str]:
        return {*self.fleet, *self.canaries, EVALUATOR}

    @property
    def missing(self) -> set[str]:
        """Peers that have not said hello."""
        return self.names - self.hellos.keys() - self._dead

    def has_left(self, name: str) -> bool:
        """Whether a peer has sent its last heartbeat, by the end of the run or by the script."""
        return name in self.heartbeats and self.heartbeats[name].state in (STOPPED, KILLED)

    def is_dead(self, name: str) -> bool:
        """Whether a device is dead: it has reported its kill, or its process has ended or is frozen."""
        return self._was_killed(name) or name not in self.hellos or not is_computing(self.hellos[name].pid)

    def _was_killed(self, name: str) -> bool:
        if name not in self.hellos and name in self._dead:
            return True  # before the checkpoint that the run continues from
        return name in self.heartbeats and self.heartbeats[name].state == KILLED

    def continue_suspended(self) -> None:
        """Continue devices that are suspended by SIGSTOP, so that they can receive Stop."""
        for name, device in self.fleet.items():
            if device.suspend_by == "signal" and name in self.hellos:
                with contextlib.suppress(OSError):  # it has ended, or is not our process
                    os.kill(self.hellos[name].pid, signal.SIGCONT)

    # ---- messages in

    def receive(self, timeout: float) -> Incoming | None:
        """Return the next message and its peer, or None if none comes within ``timeout`` host seconds."""
        return self._hub.receive(timeout)

    def has_unread(self) -> bool:
        """Whether a message waits to be received."""
        return self._hub.has_unread()

    def read(self, peer: str, frames: list[Buffer]) -> Message:
        """Return a message. Raises BadMessage if this peer may not send it."""
        if peer.startswith(IMPOSTOR):
            raise BadMessage("the key of another device")
        message = decode(frames, self._size)
        if peer in self.fleet:
            _check_device(peer, message)
        elif peer in self.canaries:
            _check_canary(message)
        elif peer != EVALUATOR:
            raise BadMessage("unknown device")
        elif not isinstance(message, (Hello, Heartbeat, Score)):
            raise BadMessage(f"{type(message).__name__}, which an evaluator may not send")
        if isinstance(message, Hello):
            self._greet(peer, message)
            self.heartbeats.pop(peer, None)  # of an earlier process
        elif peer not in self.hellos:
            raise BadMessage("it has not said hello")
        elif isinstance(message, Heartbeat):
            self.heartbeats[peer] = message
        return message

    def _greet(self, peer: str, hello: Hello) -> None:
        known = self.hellos.get(peer)
        if known is not None and known.pid != hello.pid and self._lives(peer, known.pid):
            raise BadMessage(f"a Hello of another process, while process {known.pid} is alive")
        self._note_connections()  # while the process of each connection is known
        self.hellos[peer] = hello

    def rejected_connections(self) -> RejectionCounts:
        """Return the connections that were rejected or cut off since the last call.

        A connection that ended with its process is not one of them. A connection ends a moment before its process
        does, so those that have ended since the last call are judged in the next one.
        """
        found: RejectionCounts = Counter((peer, CUT_OFF) for peer, pid in self._cut_off if self._lives(peer, pid))
        self._cut_off.clear()
        self._note_connections()
        found.update(self._rejected)
        self._rejected.clear()
        return found

    def _note_connections(self) -> None:
        for (peer, reason), count in self._hub.rejected_connections().items():
            if reason != CUT_OFF:
                self._rejected[peer, reason] += count
            elif peer in self.hellos:
                self._cut_off += [(peer, self.hellos[peer].pid)] * count

    def _lives(self, peer: str, pid: int) -> bool:
        return is_computing(pid) and not self.has_left(peer)

    def refuse(self, peer: str, reason: str) -> None:
        """Answer a peer that its message was refused."""
        self.send(peer, Refused(reason=reason[:_LONGEST_REASON]))

    # ---- messages out

    def send(self, peer: str, message: Message) -> bool:
        """Send a message. Return False if the peer cannot be reached."""
        try:
            self._hub.send(peer, encode(message))
        except PeerUnreachable:
            return False
        return True

    def send_to(self, device: str, message: ForDevice) -> None:
        """Send a message of the engine. Raises ConnectionError if the device cannot be reached.

        A message to a device that the script has killed is lost without an error, as on a real network (ADR 12).
        """
        if not self.send(device, message) and not self._was_killed(device):
            raise ConnectionError(device)


def _check_device(peer: str, message: Message) -> None:
    """Raise BadMessage if this device may not send the message. ``engine.head_ledgers`` checks a HeadReport."""
    if not isinstance(message, (Hello, Update, Ask, Heartbeat, HeadReport)) or message.device != peer:
        raise BadMessage(f"{type(message).__name__}, which this device may not send")
    if isinstance(message, Hello):
        if not message.samples or not message.cores:
            raise BadMessage("a Hello without samples or cores")
    elif (
        message.events and not isinstance(message, HeadReport) and any(event.device != peer for event in message.events)
    ):
        raise BadMessage("it reports events of another device")


def _check_canary(message: Message) -> None:
    """Raise BadMessage if a canary may not send the message."""
    if not isinstance(message, (Hello, Heartbeat, CanaryReport)):
        raise BadMessage(f"{type(message).__name__}, which a canary may not send")
    if isinstance(message, Heartbeat) and message.events:
        raise BadMessage("it reports events of a device")
