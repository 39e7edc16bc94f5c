"""Drives one device: what it does between two waits, which messages it sends, and what each message means to it.

It has no socket and no clock, and computes no step: the process of a device (``main.py``) calls it by the wall clock,
and the twin of a run (``testbed.twin``) calls it for each device at the moments of a virtual clock (ADR 33).
"""

from __future__ import annotations

import math
from pathlib import Path

from devices.cluster.membership import Membership
from devices.cluster.message_ends import ClusterLinks, Sender
from devices.compute.trainer import Trainer
from devices.device import Device
from devices.device_config import DeviceConfig
from devices.jobs import Meter
from devices.process.outbox import Outbox
from devices.work import State
from testbed.emulation.faults import RecordedTimetable, Timetable, timetable
from testbed.emulation.recorded import read_jobs
from testbed.wire.messages import Base, Grant, JoinCluster, Message, SendGradient, Train, TrainsSent

_GOLDEN = 0.6180339887
"""Its multiples, modulo 1, are spread evenly, so that the heartbeats of a fleet do not all come at once."""
_MOST_REPLACED = 4
"""Heartbeats in a row that updates may replace: the status of a run is from heartbeats, and should not become old."""


class DeviceDriver:
    """One device with its cluster and its messages.

    ``lead``, ``ahead``, ``grain``, ``whole``: see Device. ``brief``: only heartbeats after which something follows are
    sent. The others show that the device lives and which messages have reached it, and somebody else knows that.
    """

    def __init__(
        self,
        config: DeviceConfig,
        samples: int,
        trainer: Trainer,
        meter: Meter,
        aggregator: Sender,
        links: ClusterLinks,
        *,
        lead: float = 0.0,
        ahead: float = 0.0,
        grain: float = 0.0,
        whole: bool = False,
        brief: bool = False,
    ) -> None:
        """``aggregator``: where messages to it go; ``links``: connections to a cluster."""
        self._config, spec = config, config.spec
        self.device = Device(
            spec,
            _timetable(config),
            samples,
            trainer,
            meter,
            lead=lead,
            ahead=ahead,
            grain=grain,
            whole=whole,
            begins=config.rejoining.at if config.rejoining is not None else config.begins,
            replays=config.recording is not None,
        )
        self.cluster = Membership(config, links, self.device, lead)
        self._outbox = Outbox(aggregator, self.device, self.cluster)
        lossless = not (spec.up.drop or spec.down.drop or spec.script or config.recording)
        self._replaces_heartbeats = spec.throttle == "none" and lossless
        self._replaced = 0
        """Heartbeats in a row that an update has replaced."""
        self._brief, self._reported = brief, 0
        self._interval = config.heartbeat_seconds
        self._heartbeats, self._next_heartbeat = 0, self._moment_of_heartbeat(0)
        self._frozen_until = -math.inf

    # ---- what is due

    def advance(self, now: float) -> None:
        """Do everything that is due, except computing a step and sending messages."""
        if self._brief and self._next_heartbeat < now:  # it was not sent, for there was nothing to report
            self._count_heartbeats(now)
        self.device.advance(now)
        if self.cluster.active:
            self.cluster.advance(now)

    def exchange(self, now: float) -> None:
        """Send what is due to the aggregator: updates, events and the heartbeat; to a head, the heartbeat."""
        # no heartbeat may overtake an update that waits: it would look as if the job had been given up
        delivered = self._outbox.deliver(now)
        if (delivered and now < self._next_heartbeat) or self.is_killed or self._is_quiet:
            return
        if delivered and not self._is_replaced(now):
            self._outbox.send_heartbeat(now)
            self._replaced, self._reported = 0, self.device.incidents
        self.cluster.send_heartbeat_to_head()
        self._heartbeats += 1
        self._next_heartbeat = self._moment_of_heartbeat(self._heartbeats)
        if self._next_heartbeat < now:
            self._count_heartbeats(now)

    def due(self) -> float:
        """Return when :meth:`advance`, :meth:`exchange` or a step is wanted next."""
        if self.cluster.active:
            return min(self.device.due(), self._next_heartbeat, self.cluster.due())
        due = self.device.due()
        return due if self._is_quiet else min(due, self._next_heartbeat)

    @property
    def last_heartbeat(self) -> float:
        """When the last heartbeat was due, sent or not; before 0 if none was."""
        return self._moment_of_heartbeat(self._heartbeats - 1)

    @property
    def _is_quiet(self) -> bool:
        """Whether the next heartbeat need not be sent."""
        return self._brief and self.device.incidents == self._reported and not self.cluster.active

    def _count_heartbeats(self, now: float) -> None:
        """Let the next heartbeat be the first one that is not before ``now``."""
        self._heartbeats += max(1, math.ceil((now - self._next_heartbeat) / self._interval))
        self._next_heartbeat = self._moment_of_heartbeat(self._heartbeats)

    def _moment_of_heartbeat(self, number: int) -> float:
        return ((self._config.spec.index * _GOLDEN % 1.0) + number) * self._interval

    @property
    def is_killed(self) -> bool:
        """Whether the script has killed the device."""
        return self.device.state is State.KILLED

    def freeze_until(self) -> float | None:
        """Return until when a device that suspends itself by a signal stops now; None if it does not.

        It stops once for each suspension: a SIGCONT that ends it early has a reason. A head continues in time for a
        result that was under way when it was stopped.
        """
        until = self.device.frozen_until
        if until is None or (until := min(until, self.cluster.due())) == self._frozen_until:
            return None
        self._frozen_until = until
        return until

    def _is_replaced(self, now: float) -> bool:
        """Return whether an update takes the place of the heartbeat that is due, and count it.

        Only of a device that is not throttled and loses nothing (ADR 3). An update is a sign of life, too. A heartbeat
        right behind it crosses the next Train and shows nothing; one before the only step of a job shows that the Train
        has arrived, and no progress that a strategy might use.
        """
        if not self._replaces_heartbeats or self.cluster.active or self._replaced == _MOST_REPLACED:
            return False
        since = now - self._outbox.last_update
        soon = since < self._interval and self.device.is_at_an_only_step(now)
        if since > 0 and not soon:
            return False
        self._replaced += 1
        return True

    # ---- messages of the aggregator

    def handle(self, message: Message | None, now: float) -> None:
        """Accept a message of the aggregator. None, or a message of another kind: nothing happens."""
        if isinstance(message, Train):
            self._outbox.trains += 1
            if message.for_cluster:
                self.cluster.receive_model(message, now)
            else:
                self.cluster.leave()
                self.device.receive(message, now)
        elif isinstance(message, SendGradient):
            self._outbox.trains += 1
            self.cluster.receive_signal(message, now)
        elif isinstance(message, TrainsSent):
            self._outbox.trains = max(self._outbox.trains, message.trains)
        elif isinstance(message, Base):
            self.device.receive_base(message)
        elif isinstance(message, Grant):
            self.device.receive_grant(message)
        elif isinstance(message, JoinCluster):
            self.cluster.enter(message, now)

    # ---- the end

    def send_heartbeat(self, now: float) -> None:
        """Send a heartbeat now: the last sign of a device that the script has killed."""
        self._outbox.send_heartbeat(now)

    def send_last_heartbeat(self, state: str) -> None:
        """Send everything that is left; the last message is a heartbeat with ``state``."""
        self._outbox.send_last_heartbeat(state)


def _timetable(config: DeviceConfig) -> Timetable:
    seeded = timetable(config.spec, config.seed)
    if config.recording is None:
        return seeded
    return RecordedTimetable(jobs=read_jobs(Path(config.recording)), end=config.recording_end, otherwise=seeded)
