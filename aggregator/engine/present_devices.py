"""The present devices of an engine, and which of them are busy.

Theory of operation
    An event must not cost more if the fleet is larger. So the views that strategies read are not built at each access:
    they are read-only mappings of what is kept here, and their lengths are known. A view that a strategy holds changes
    with the engine; decisions are carried out after the handler has returned, so no loop of a strategy sees a change.
    Views iterate in the order in which devices joined, whatever happened to them since.
    A device becomes busy by ``assign`` and idle by ``release``, and in no other way. ``engine_invariants`` compares
    what is kept here with the tickets of the devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from aggregator.engine.tickets import PresentDevice, Ticket
from aggregator.strategy import DeviceInfo

_FEW = 10
"""If less than one device in so many is busy, to sort the busy ones takes less time than to look at all devices."""


class PresentDevices(Mapping[str, PresentDevice]):
    """Name → present device, in the order in which they joined."""

    def __init__(self, devices: Iterable[PresentDevice] = ()) -> None:
        self._devices: dict[str, PresentDevice] = {}
        self._infos: dict[str, DeviceInfo] = {}
        self._order: dict[str, int] = {}
        """Device → the number of its join. The devices are in this order, too."""
        self._joins = 0
        self._tickets: dict[str, Ticket] = {}
        self._without_grant: set[str] = set()
        self.infos: Mapping[str, DeviceInfo] = MappingProxyType(self._infos)
        self.busy: Mapping[str, int] = _BusyDevices(self._tickets, self._order)
        """Device → version that its update is based on."""
        for device in devices:
            self.add(device)

    def __getitem__(self, name: str) -> PresentDevice:
        return self._devices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._devices)

    def __len__(self) -> int:
        return len(self._devices)

    def __contains__(self, name: object) -> bool:
        return name in self._devices

    @property
    def at_work(self) -> int:
        """How many devices can send a result without a further decision."""
        return len(self._tickets) - len(self._without_grant)

    def add(self, device: PresentDevice) -> None:
        """Add a device that has joined. It may have a ticket, if it is from a checkpoint."""
        name = device.info.name
        self._devices[name], self._infos[name] = device, device.info
        self._order[name] = self._joins = self._joins + 1
        if device.ticket is not None:
            self.assign(device, device.ticket)

    def remove(self, name: str) -> PresentDevice:
        """Remove a device that has left, and return it with the ticket that it had."""
        device = self._devices.pop(name)
        del self._infos[name], self._order[name]
        self._tickets.pop(name, None)
        self._without_grant.discard(name)
        return device

    def assign(self, device: PresentDevice, ticket: Ticket) -> None:
        """Let a device work on a ticket."""
        device.ticket = self._tickets[device.info.name] = ticket
        self.note_grant(device)

    def release(self, device: PresentDevice) -> None:
        """Note that a device is idle."""
        device.ticket = None
        self._tickets.pop(device.info.name, None)
        self._without_grant.discard(device.info.name)

    def note_grant(self, device: PresentDevice) -> None:
        """Take note of whether a device waits for a grant. Call it when it has asked for one, or has got one."""
        if device.ticket is not None and device.ticket.waits_for_grant:
            self._without_grant.add(device.info.name)
        else:
            self._without_grant.discard(device.info.name)

    def problems(self) -> Iterator[str]:
        """Compare what is kept with the devices themselves. Yield what differs."""
        tickets = {name: device.ticket for name, device in self.items() if device.ticket is not None}
        if self._infos != {name: device.info for name, device in self.items()} or list(self._infos) != list(self):
            yield f"the devices are {list(self)}, but strategies see {list(self._infos)}"
        if self._tickets.keys() != tickets.keys() or any(self._tickets[name] is not tickets[name] for name in tickets):
            yield f"{sorted(tickets)} are busy, but strategies see {sorted(self._tickets)}, or other tickets of them"
        waiting = {name for name, ticket in tickets.items() if ticket.waits_for_grant}
        if self._without_grant != waiting:
            yield f"{sorted(waiting)} wait for a grant, but {sorted(self._without_grant)} are counted"
        if list(self._order) != list(self) or list(self._order.values()) != sorted(self._order.values()):
            yield "the order in which devices joined was not kept"


class _BusyDevices(Mapping[str, int]):
    """Busy device → version that its update is based on, in the order in which the devices joined."""

    def __init__(self, tickets: Mapping[str, Ticket], order: Mapping[str, int]) -> None:
        self._tickets, self._order = tickets, order

    def __getitem__(self, name: str) -> int:
        return self._tickets[name].base

    def __iter__(self) -> Iterator[str]:
        if len(self._order) < _FEW * len(self._tickets):
            return iter([name for name in self._order if name in self._tickets])
        return iter(sorted(self._tickets, key=self._order.__getitem__))

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, name: object) -> bool:
        return name in self._tickets

    def __repr__(self) -> str:
        return repr(dict(self))
