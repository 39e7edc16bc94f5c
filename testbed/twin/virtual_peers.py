"""The peers of the aggregator on a virtual clock: messages to them are handed over in memory, and no process exists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from testbed.profile.fleet import DeviceSpec
from testbed.wire.messages import KILLED, ForDevice, Heartbeat, Hello, Message


class VirtualPeers:
    """``deliver`` hands a message over to a device."""

    def __init__(self, devices: Iterable[DeviceSpec], deliver: Callable[[str, Message], None]) -> None:
        self.fleet: Mapping[str, DeviceSpec] = {device.name: device for device in devices}
        self.hellos: dict[str, Hello] = {}
        self._deliver = deliver
        self._killed: set[str] = set()

    def note(self, peer: str, message: Message) -> None:
        """Take note of what a message of a device says about it."""
        if isinstance(message, Hello):
            self.hellos[peer] = message
            self._killed.discard(peer)
        elif isinstance(message, Heartbeat) and message.state == KILLED:
            self._killed.add(peer)

    def is_dead(self, name: str) -> bool:
        """Whether the script has killed a device, and it has not rejoined."""
        return name in self._killed

    def send(self, peer: str, message: Message) -> bool:
        self._deliver(peer, message)
        return True

    def send_to(self, device: str, message: ForDevice) -> None:
        """Send a message of the engine. One to a device that the script has killed is lost (ADR 12)."""
        self._deliver(device, message)


class NoProcesses:
    """Takes the place of the processes of a run: none ends by itself, and a device that lives is never lost.

    ``lives`` says whether a device is neither dead nor frozen.
    """

    def __init__(self, lives: Callable[[str], bool]) -> None:
        self._lives = lives

    def watch(self, device: str) -> None:
        """There is nothing to watch."""

    def ended(self) -> Iterable[str]:
        return ()

    def has_read_everything(self) -> bool:
        return True

    def is_computing(self, device: str, host_now: float) -> bool | None:
        return self._lives(device)

    def forget(self, device: str) -> None:
        """There is nothing to forget."""
