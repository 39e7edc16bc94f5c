"""The canary: a process on the core of the devices that computes steps as short as those of the fastest device.

It measures how long they take, alone before the fleet starts and then repeatedly during the run. So a host that is too
small is noticed even if no device reports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from devices.compute.trial_steps import trial_steps
from devices.device_config import CanaryConfig
from testbed.common.clock import WallClock
from testbed.history.trace import Canary
from testbed.host.cores import settle
from testbed.learning.training.task import Task
from testbed.wire.codec import decode_or_log, encode, largest_frame
from testbed.wire.messages import STOPPED, CanaryReport, Heartbeat, Hello, Stop, Welcome
from testbed.wire.sockets import Peer, PeerUnreachable, closing_peer

_CONNECT_SECONDS = 60.0
_ALONE_SECONDS = 0.3
_ALONE_LEAST, _ALONE_MOST = 3, 20


def main(config: CanaryConfig, task: Task, ready: Callable[[str], None]) -> None:
    """Measure the step alone, call ``ready``, then measure it among the devices until the run is over."""
    cores = settle((config.core,), config.priority)
    probe = _Probe(task, config)
    count = min(_ALONE_MOST, max(_ALONE_LEAST, round(_ALONE_SECONDS / probe.seconds)))
    alone = sum(probe.timed() for _ in range(count)) / count
    ready(config.name)
    limit = largest_frame(task.size)
    with closing_peer(config.endpoint, config.name, max_bytes=limit, credential=config.credential) as peer:
        hello = Hello(device=config.name, pid=os.getpid(), cores=cores, samples=0)
        peer.send(encode(hello), timeout=_CONNECT_SECONDS)
        _measure(config, peer, task.size, probe, alone)
        peer.send(encode(Heartbeat(device=config.name, state=STOPPED)), timeout=1.0)


def _measure(config: CanaryConfig, peer: Peer, size: int, probe: _Probe, alone: float) -> None:
    """Measure and send a sample every ``config.every`` host seconds, until Stop."""
    host = WallClock(0.0)
    clock: WallClock | None = None
    due = 0.0
    while True:
        # until the run begins, only a message changes anything
        left = _CONNECT_SECONDS if clock is None else max(0.0, due - host.now())
        message = decode_or_log(peer.receive(left), size)
        if isinstance(message, Stop):
            return
        if isinstance(message, Welcome):
            clock, due = WallClock(message.origin, config.dilation), host.now() + config.every
        if clock is None or host.now() < due:
            continue
        obtained = probe.timed()
        due += config.every * max(1, -(-(host.now() - due) // config.every))
        event = Canary(t=clock.now(), core=config.core, asked=probe.seconds, alone=alone, obtained=obtained)
        try:
            peer.send(encode(CanaryReport(event=event)))
        except PeerUnreachable:
            continue  # the aggregator is overloaded; skip this sample


class _Probe:
    """Some paced local steps: they end at their deadline, or when they were computed if that is later."""

    def __init__(self, task: Task, config: CanaryConfig) -> None:
        self._steps, self._count = trial_steps(task, config.job, config.batch), config.steps
        self.seconds = config.seconds
        next(self._steps)  # the first one after a fork causes page faults

    def timed(self) -> float:
        """Compute the steps, and return the host seconds that they took."""
        clock = WallClock.starting_now()
        for _ in range(self._count):
            next(self._steps)
        return max(self.seconds, clock.now())
