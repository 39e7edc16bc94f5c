"""Everybody whom the aggregator talks to: who is there, who may say what, and what each last said of itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Sequence

from aggregator.process.aggregator_config import AggregatorConfig
from testbed.history import trace
from testbed.host.kernel import is_computing
from testbed.wire.authentication import CUT_OFF, IMPOSTOR, Account
from testbed.wire.codec import BadMessage, Buffer, decode, encode, largest_frame
from testbed.wire.messages import (
    EVALUATOR,
    KILLED,
    STOPPED,
    Ask,
    Base,
    Grant,
    HeadReport,
    Heartbeat,
    Hello,
    JoinCluster,
    Message,
    Refused,
    Score,
    Train,
    Update,
)
from testbed.wire.sockets import Hub, Incoming, PeerUnreachable

_LONGEST_REASON = 300

Events = Sequence[trace.Event]


class Peers:
    """The devices, the canaries and the evaluator, at the other ends of the hub. ``size``: numbers in a model."""

    def __init__(self, config: AggregatorConfig, size: int) -> None:
        self.fleet = {device.name: device for device in config.devices}
        self.canaries = config.canaries
        self._dead = config.resume.dead if config.resume is not None else frozenset()
        self.hellos: dict[str, Hello] = {}
        self.beats: dict[str, Heartbeat] = {}
        self._size = size
        self._account: Account = Counter()
        self._cut_off: list[tuple[str, int]] = []
        """Peers whose connection has ended, and the process behind it."""
        self._hub = Hub(config.endpoint, max_bytes=largest_frame(size), allow=config.allow)
        self.endpoint = self._hub.endpoint

    def close(self) -> None:
        self._hub.close()

    # ---- who is there

    @property
    def names(self) -> set[str]:
        return {*self.fleet, *self.canaries, EVALUATOR}

    @property
    def missing(self) -> set[str]:
        """Those who have not said hello."""
        return self.names - self.hellos.keys() - self._dead

    def has_left(self, name: str) -> bool:
        """Whether it has said its last word, whoever wanted it so."""
        return name in self.beats and self.beats[name].state in (STOPPED, KILLED)

    def is_dead(self, name: str) -> bool:
        """Whether the script has killed it, by its last word or because its process is gone."""
        return self._was_killed(name) or name not in self.hellos or not is_computing(self.hellos[name].pid)

    def _was_killed(self, name: str) -> bool:
        if name not in self.hellos and name in self._dead:
            return True  # before the run was interrupted
        return name in self.beats and self.beats[name].state == KILLED

    def wake_the_frozen(self) -> None:
        """A device that is suspended by SIGSTOP cannot hear that the run is over."""
        for name, device in self.fleet.items():
            if device.suspend_by == "signal" and name in self.hellos:
                with contextlib.suppress(OSError):  # it has ended, or is not ours
                    os.kill(self.hellos[name].pid, signal.SIGCONT)

    # ---- messages in

    def receive(self, timeout: float) -> Incoming | None:
        """The next message as it came, and from whom; None if none comes within ``timeout`` host seconds."""
        return self._hub.receive(timeout)

    def read(self, peer: str, frames: list[Buffer]) -> tuple[Message, Events]:
        """What was said, and the events that it tells of. Raises BadMessage or TraceError if it may not be said."""
        if peer.startswith(IMPOSTOR):
            raise BadMessage("the key of another device")
        message = decode(frames, self._size)
        events: Events = ()
        if peer in self.fleet:
            events = _read_device(peer, message)
        elif peer in self.canaries:
            events = _read_canary(message)
        elif peer != EVALUATOR:
            raise BadMessage("unknown device")
        elif not isinstance(message, (Hello, Heartbeat, Score)):
            raise BadMessage(f"a {type(message).__name__} that an evaluator may not send")
        if isinstance(message, Hello):
            self._greet(peer, message)
            self.beats.pop(peer, None)  # of an earlier life
        elif peer not in self.hellos:
            raise BadMessage("it has not said hello")
        elif isinstance(message, Heartbeat):
            self.beats[peer] = message
        return message, events

    def _greet(self, peer: str, hello: Hello) -> None:
        known = self.hellos.get(peer)
        if known is not None and known.pid != hello.pid and self._lives(peer, known.pid):
            raise BadMessage(f"a Hello of another process, and process {known.pid} is alive")
        self._note_connections()  # before it is forgotten whose they were
        self.hellos[peer] = hello

    def rejected_connections(self) -> Account:
        """Of connections that came to nothing, since the last time. That of a process which has ended is none.

        A connection ends a moment before its process does: what ended just now is told the next time.
        """
        rejected_connections: Account = Counter(
            (peer, CUT_OFF) for peer, pid in self._cut_off if self._lives(peer, pid)
        )
        self._cut_off.clear()
        self._note_connections()
        rejected_connections.update(self._account)
        self._account.clear()
        return rejected_connections

    def _note_connections(self) -> None:
        for (peer, reason), count in self._hub.rejected_connections().items():
            if reason != CUT_OFF:
                self._account[peer, reason] += count
            elif peer in self.hellos:
                self._cut_off += [(peer, self.hellos[peer].pid)] * count

    def _lives(self, peer: str, pid: int) -> bool:
        return is_computing(pid) and not self.has_left(peer)

    def refuse(self, peer: str, reason: str) -> None:
        """Tell a peer that its message was not taken."""
        self.send(peer, Refused(reason=reason[:_LONGEST_REASON]))

    # ---- messages out

    def send(self, peer: str, message: Message) -> bool:
        """Whether the transport took it."""
        try:
            self._hub.send(peer, encode(message))
        except PeerUnreachable:
            return False
        return True

    def send_to(self, device: str, message: Train | Base | Grant | JoinCluster) -> None:
        """As the engine wants it: raises ConnectionError if the device cannot be reached.

        What is sent to a device that the script has killed is lost on the way: nobody would tell at once on a network.
        """
        if not self.send(device, message) and not self._was_killed(device):
            raise ConnectionError(device)


def _read_device(peer: str, message: Message) -> Events:
    if not isinstance(message, (Hello, Update, Ask, Heartbeat, HeadReport)) or message.device != peer:
        raise BadMessage(f"a {type(message).__name__} that this device may not send")
    if isinstance(message, Hello):
        if not message.samples or not message.cores:
            raise BadMessage("a Hello without samples or cores")
        return ()
    if isinstance(message, HeadReport):
        return ()  # of tickets of others: see aggregator.engine.head_ledgers
    events = [trace.device_event(table) for table in message.events]
    if any(event.device != peer for event in events):
        raise BadMessage("it reports events of another device")
    return events


def _read_canary(message: Message) -> Events:
    if not isinstance(message, (Hello, Heartbeat)):
        raise BadMessage(f"a {type(message).__name__} that a canary may not send")
    return [trace.canary_event(table) for table in message.events] if isinstance(message, Heartbeat) else ()
