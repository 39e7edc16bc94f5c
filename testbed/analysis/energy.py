"""Joules of the emulated devices: a proxy, not a measurement.

Model
    E = P_idle·t_idle + P_suspended·t_suspended + P_compute·t_computing + P_tx·t_upload + P_rx·t_download

over emulated seconds, with the watts of each device's profile and link. A device is idle if it neither computes nor is
suspended or dead; waiting for a grant to upload is idle, too. P_tx and P_rx are the additional power of the radio, so
that a transfer costs the same during computing and during idle time. A dead device uses no power. Not modelled: tail
energy of the radio, heat, the battery. ``testbed.host.rapl`` measures the energy of the host, which is something else.

A ticket is charged with its downloads, its computing and its uploads, including lost attempts. Its energy is wasted if
its update never becomes part of a version.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from testbed.analysis import timeline
from testbed.analysis.occupied import Occupied
from testbed.analysis.timeline import ABANDONED, COMPUTING, DEAD, DOWNLOAD, SUSPENDED, UPLOAD, Span
from testbed.common.files.spool import Block, Spool
from testbed.history.events.watts import Watts
from testbed.history.numbered_column import NumberedColumn

MODEL = "proxy: watts by state × emulated seconds"
PHASES = ("idle", "suspended", "compute", "transmit", "receive")
APPLIED, DELIVERED = "applied", "delivered"
"""Fates of a ticket whose energy was not wasted."""
UNFINISHED = "unfinished"
"""Fate of a ticket that was in flight when the run ended."""
FATES = (UNFINISHED, APPLIED, DELIVERED, "rejected", "lost", "superseded")
_PLACES = {fate: place for place, fate in enumerate(FATES)}
_MOST_AT_THE_END = 32
"""Spans of a device that are checked at the end of the run: only few can reach beyond it."""
_MOST_TICKETS = 64


@dataclass(slots=True, kw_only=True)
class DeviceEnergy:
    """One device: the seconds in each state, and the joules of each ticket."""

    watts: Watts | None
    joined: float
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """State → seconds."""
    lost_transfers_j: float = 0.0
    """Joules of lost transfers."""
    tickets: dict[int, float] = field(default_factory=dict)
    """Joules of its latest tickets; of earlier ones, the account has them."""
    latest: deque[Span] = field(default_factory=lambda: deque(maxlen=_MOST_AT_THE_END))
    occupied: Occupied = field(init=False)

    def __post_init__(self) -> None:
        self.occupied = Occupied(self.joined)

    def idle(self, ended: float) -> float:
        """Seconds without any span, in a run that ended at ``ended``."""
        return max(0.0, ended - self.joined - self.occupied.until(ended))

    def phases(self, ended: float) -> dict[str, float] | None:
        """Phase → joules, in a run that ended at ``ended``; None without a power model."""
        watts, seconds = self.watts, self.seconds
        if watts is None:
            return None
        computing = seconds[COMPUTING] + seconds[ABANDONED]
        idle = ended - self.joined - computing - seconds[SUSPENDED] - seconds[DEAD]
        return {
            "idle": watts.idle * max(0.0, idle),
            "suspended": watts.away * seconds[SUSPENDED],
            "compute": watts.compute * computing,
            "transmit": watts.transmit * seconds[UPLOAD],
            "receive": watts.receive * seconds[DOWNLOAD],
        }

    def joules(self, ended: float) -> float | None:
        phases = self.phases(ended)
        return None if phases is None else sum(phases.values())


class EnergyAccount:
    """The energy of all devices: by state, by ticket and over time."""

    def __init__(self) -> None:
        self.devices: dict[str, DeviceEnergy] = {}
        self._number: dict[str, int] = {}
        """Device → its number in the column ``_who``."""
        self._who, self._joules = NumberedColumn("l", -1), NumberedColumn("d", math.nan)
        """Ticket → its device, and what it has used; NaN if it has used nothing."""
        self._fates = NumberedColumn("b", 0)
        """Ticket → the place of its fate in FATES."""
        self._changes = Spool(2)
        """Moments at which the power of the fleet changes, and the changes in watts."""

    def join(self, device: str, watts: Watts | None, moment: float) -> None:
        if device not in self.devices:
            self.devices[device] = DeviceEnergy(watts=watts, joined=moment)
            self._number[device] = len(self._number)
            self._changes.add(moment, watts.idle if watts is not None else 0.0)

    def spend(self, span: Span) -> None:
        device = self.devices[span.device]
        device.latest.append(span)
        device.occupied.add(span.start, span.end)
        self._charge(device, span, 1.0)

    def end(self, moment: float) -> None:
        """End the run at ``moment``: what devices did later, before they were notified, does not count."""
        for device in self.devices.values():
            for span in device.latest:
                if span.end > moment:
                    self._charge(device, span._replace(start=max(span.start, moment)), -1.0)

    def _charge(self, device: DeviceEnergy, span: Span, sign: float) -> None:
        seconds = sign * span.seconds
        device.seconds[span.state] += seconds
        if device.watts is None:
            return
        watts, above_idle = _watts(device.watts, span.state)
        change = sign * above_idle
        self._changes.add(span.start, change, span.end, -change)
        if span.state not in (SUSPENDED, DEAD):
            tickets = device.tickets
            tickets[span.ticket] = tickets.get(span.ticket, 0.0) + watts * seconds
            if len(tickets) > _MOST_TICKETS:
                self._store(span.device)
            device.lost_transfers_j += watts * seconds * span.lost

    def _store(self, device: str) -> None:
        """Move the joules of a device's tickets into the columns."""
        tickets, number = self.devices[device].tickets, self._number[device]
        for ticket, joules in tickets.items():
            before = self._joules[ticket]
            self._joules[ticket] = joules + (0.0 if math.isnan(before) else before)
            self._who[ticket] = number
        tickets.clear()

    def settle(self, ticket: int, fate: str) -> None:
        """Note how a ticket ended."""
        self._fates[ticket] = _PLACES[fate]

    def has_ended(self, ticket: int) -> bool:
        return self._fates[ticket] != 0

    # ---- results

    @property
    def complete(self) -> bool:
        """Whether every device has a power model; otherwise the fleet has no figures in joules."""
        return bool(self.devices) and all(device.watts is not None for device in self.devices.values())

    def wasted(self, device: str) -> dict[str, float]:
        """Fate → joules of a device's tickets that ended that way, for all fates that waste energy."""
        return self.all_wasted().get(device, {})

    def all_wasted(self) -> dict[str, dict[str, float]]:
        """Device → fate → joules, as ``wasted``, for all devices with such tickets: one pass over all tickets."""
        for device in self.devices:
            self._store(device)
        sums = np.zeros((len(self._number), len(FATES)))
        counts = np.zeros_like(sums)
        for first, joules in self._joules.pages():
            charged = np.flatnonzero(~np.isnan(joules))
            who, fates = (
                np.array([column[first + int(place)] for place in charged], dtype=int)
                for column in (self._who, self._fates)
            )
            np.add.at(sums, (who, fates), joules[charged])
            np.add.at(counts, (who, fates), 1)
        return {
            device: {
                fate: float(sums[number, place])
                for place, fate in enumerate(FATES)
                if fate not in (APPLIED, DELIVERED) and counts[number, place]
            }
            for device, number in self._number.items()
        }

    def joules_at(self, moments: Iterable[float]) -> list[float]:
        """Joules of the fleet up to each moment: E(t) = Σ ΔP_i·(t − t_i) over all changes before t."""
        asked = np.fromiter(moments, float)
        total = sums_until(asked, self._changes, lambda block: block[:, 1])
        weighted = sums_until(asked, self._changes, lambda block: block[:, 1] * block[:, 0])
        return [float(joules) for joules in asked * total - weighted]


def sums_until(moments: Block, rows: Spool, value: Callable[[Block], Block]) -> Block:
    """For each moment, the sum of a value over all rows up to it; the first column of the rows is their moment."""
    order = np.argsort(moments)
    sums = np.zeros(len(moments) + 1)
    for block in rows.blocks():
        place = np.searchsorted(moments[order], block[:, 0], side="left")  # the first moment that it counts for
        sums += np.bincount(place, weights=value(block), minlength=len(sums))
    found = np.empty(len(moments))
    found[order] = np.cumsum(sums[:-1])
    return found


def _watts(watts: Watts, state: str) -> tuple[float, float]:
    """Power of a state: as charged to its ticket, and in addition to that of an idle device."""
    match state:
        case timeline.COMPUTING | timeline.ABANDONED:
            return watts.compute, watts.compute - watts.idle
        case timeline.DOWNLOAD:
            return watts.receive, watts.receive
        case timeline.UPLOAD:
            return watts.transmit, watts.transmit
        case timeline.WAITING:
            return 0.0, 0.0
        case timeline.SUSPENDED:
            return watts.away, watts.away - watts.idle
        case _:
            return 0.0, -watts.idle
