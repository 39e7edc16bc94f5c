"""Lost devices: finds the devices to be dropped, because their process has ended or because they are silent (ADR 17).

The kernel reports at once when a process has ended. A device that the script has killed is the exception: on a network
only its silence would show, so the aggregator waits for the timeout there too (ADR 12). A silent device may be in the
middle of a local step that takes longer than the timeout. So a silent process is probed before its device is dropped:
one that computes stays.

And a device is not silent as long as what it sent has not been read (ADR 25). On a full host the aggregator, and
ZeroMQ's thread, wait for a core for seconds: messages are then in the queue of the aggregator, or still in its sockets.
So silent devices are judged only while ZeroMQ's thread sleeps and, looked at after that, the queue is empty. A strategy
that waits for a device has nothing to read, so this holds up no run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from aggregator.connections.peers import Peers
from aggregator.connections.presence import PROBE_SECONDS, LivenessProbe, PresenceTracker
from aggregator.connections.scripted_deaths import ScriptedDeaths
from testbed.common.clock import RunClock
from testbed.history.events.run_events import PROCESS_ENDED
from testbed.host.kernel import ExitWatch, is_another_thread_runnable, is_computing

_SILENT = "it was silent for too long"


class WatchedProcesses(Protocol):
    """The processes of the devices, as the kernel shows them."""

    def watch(self, device: str) -> None:
        """Watch the process that has said hello for this device."""
        ...

    def ended(self) -> Iterable[str]:
        """Return the devices whose processes have ended since the last call."""
        ...

    def has_read_everything(self) -> bool:
        """Whether all that devices have sent is read."""
        ...

    def is_computing(self, device: str, host_now: float) -> bool | None:
        """Whether the process of a silent device is computing; None: look once more in ``PROBE_SECONDS``."""
        ...

    def forget(self, device: str) -> None:
        """Drop what is known of a device: it has sent something."""
        ...


class KernelProcesses:
    """The processes of a run on this host."""

    def __init__(self, peers: Peers) -> None:
        self._peers, self._probe, self._exits = peers, LivenessProbe(), ExitWatch()

    def watch(self, device: str) -> None:
        self._exits.watch(device, self._peers.hellos[device].pid)

    def ended(self) -> Iterable[str]:
        return self._exits.ended()

    def has_read_everything(self) -> bool:
        return not is_another_thread_runnable() and not self._peers.has_unread()

    def is_computing(self, device: str, host_now: float) -> bool | None:
        hello = self._peers.hellos.get(device)
        if hello is None or self._peers.has_left(device) or not is_computing(hello.pid):
            return False
        return self._probe.computes(device, hello.pid, host_now)

    def forget(self, device: str) -> None:
        self._probe.forget(device)


class LostDevices:
    """Watches the devices of a run. The caller reports hellos and messages, and asks which devices are lost."""

    def __init__(self, processes: WatchedProcesses, presence: PresenceTracker, deaths: ScriptedDeaths) -> None:
        self._processes, self._presence, self._deaths = processes, presence, deaths
        self._ended: set[str] = set()
        """Devices whose process is known to have ended."""

    def watch(self, device: str, now: float) -> None:
        """Watch the process that has said hello for this device."""
        self.note_message(device, now)
        self._ended.discard(device)
        self._processes.watch(device)

    def note_message(self, device: str, now: float) -> None:
        """Note that a device has sent something, or give it the whole timeout from now on."""
        self._presence.note_message(device, now)
        self._processes.forget(device)

    def has_ended(self, device: str) -> bool:
        """Whether the process of a device has ended. Messages that it had sent may still arrive."""
        return device in self._ended

    def find(self, now: float, clock: RunClock) -> Iterator[tuple[str, str]]:
        """Yield each device that is lost, and the reason."""
        for device in self._processes.ended():
            if not self._deaths.has_killed(device, now):
                self._ended.add(device)
                yield device, PROCESS_ENDED
        if not self._presence.is_any_silent(now) or not self._processes.has_read_everything():
            return
        for device in self._presence.silent(now):
            if not self._is_computing(device, now, clock):
                yield device, _SILENT

    def _is_computing(self, device: str, now: float, clock: RunClock) -> bool:
        """Whether a silent device is computing, or must be probed again before that is known."""
        computes = self._processes.is_computing(device, clock.host_seconds(clock.now()))
        if computes is None:
            self._presence.recheck_in(device, now, PROBE_SECONDS / clock.dilation)
        elif computes:
            self._presence.note_message(device, now)
        return computes is not False
