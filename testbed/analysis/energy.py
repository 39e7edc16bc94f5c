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

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from testbed.analysis import timeline
from testbed.analysis.timeline import ABANDONED, COMPUTING, DEAD, DOWNLOAD, SUSPENDED, UPLOAD, Span
from testbed.history.events.watts import Watts

MODEL = "proxy: watts by state × emulated seconds"
PHASES = ("idle", "suspended", "compute", "transmit", "receive")
APPLIED, DELIVERED = "applied", "delivered"
"""Fates of a ticket whose energy was not wasted."""
UNFINISHED = "unfinished"
"""Fate of a ticket that was in flight when the run ended."""
_MOST_AT_THE_END = 32
"""Spans of a device that are checked at the end of the run: only few can reach beyond it."""


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
    latest: deque[Span] = field(default_factory=lambda: deque(maxlen=_MOST_AT_THE_END))
    bounds: array[float] = field(default_factory=lambda: array("d"))
    """Start and end of each span, one after another."""

    def idle(self, ended: float) -> float:
        """Seconds without any span, in a run that ended at ``ended``; spans may overlap."""
        spans = np.clip(np.array(self.bounds).reshape(-1, 2), self.joined, max(self.joined, ended))
        spans = spans[np.argsort(spans[:, 0])]
        covered = np.maximum.accumulate(np.concatenate([[self.joined], spans[:, 1]]))
        occupied = np.maximum(0.0, spans[:, 1] - np.maximum(spans[:, 0], covered[:-1])).sum()
        return max(0.0, ended - self.joined - float(occupied))

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
        self.fates: dict[int, str] = {}
        """Ticket → how it ended."""
        self._moments, self._changes = array("d"), array("d")
        """Moments at which the power of the fleet changes, and the changes in watts."""

    def join(self, device: str, watts: Watts | None, moment: float) -> None:
        if device not in self.devices:
            self.devices[device] = DeviceEnergy(watts=watts, joined=moment)
            self._change(moment, watts.idle if watts is not None else 0.0)

    def spend(self, span: Span) -> None:
        device = self.devices[span.device]
        device.latest.append(span)
        device.bounds.append(span.start)
        device.bounds.append(span.end)
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
        self._change(span.start, sign * above_idle)
        self._change(span.end, -sign * above_idle)
        if span.state not in (SUSPENDED, DEAD):
            device.tickets[span.ticket] = device.tickets.get(span.ticket, 0.0) + watts * seconds
            device.lost_transfers_j += watts * seconds * span.lost

    def _change(self, moment: float, watts: float) -> None:
        self._moments.append(moment)
        self._changes.append(watts)

    # ---- results

    @property
    def complete(self) -> bool:
        """Whether every device has a power model; otherwise the fleet has no figures in joules."""
        return bool(self.devices) and all(device.watts is not None for device in self.devices.values())

    def wasted(self, device: str) -> dict[str, float]:
        """Fate → joules of a device's tickets that ended that way, for all fates that waste energy."""
        found: dict[str, float] = defaultdict(float)
        for ticket, joules in self.devices[device].tickets.items():
            fate = self.fates.get(ticket, UNFINISHED)
            if fate not in (APPLIED, DELIVERED):
                found[fate] += joules
        return found

    def joules_at(self, moments: Iterable[float]) -> list[float]:
        """Joules of the fleet up to each moment: E(t) = Σ ΔP_i·(t − t_i) over all changes before t."""
        order = np.argsort(self._moments)
        when, watts = np.array(self._moments)[order], np.array(self._changes)[order]
        total = np.concatenate([[0.0], np.cumsum(watts)])
        weighted = np.concatenate([[0.0], np.cumsum(watts * when)])
        asked = np.fromiter(moments, float)
        place = np.searchsorted(when, asked, side="right")
        return [float(joules) for joules in asked * total[place] - weighted[place]]


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
