"""The data that a trace adds up to; ``testbed.analysis.totals`` fills it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

from testbed.analysis.device_totals import DeviceTotals
from testbed.analysis.energy import EnergyAccount
from testbed.analysis.version_table import VersionTable
from testbed.common.files.spool import Spool
from testbed.history import trace


@dataclass(slots=True, kw_only=True)
class Totals:
    """A whole run."""

    header: trace.Header | None = None
    stopped: trace.Stopped | None = None
    seconds: float = 0.0
    dilations: list[tuple[float, float]] = field(default_factory=list)
    """Where the run was resumed: the moment, and the dilation from then on."""
    resumed: int = 0

    devices: dict[str, DeviceTotals] = field(default_factory=dict)
    energy: EnergyAccount = field(default_factory=EnergyAccount)
    transfers: Spool = field(default_factory=lambda: Spool(2))
    """When each transfer ended, lost or not, and its bytes."""
    losses: Spool = field(default_factory=lambda: Spool(2))
    """When each update arrived, and the mean loss of its local steps: the local model on local data."""
    scripted: int = 0
    """Scripted events that took effect, counted for each device."""
    restarts: int = 0
    """Processes that were forked again after an unplanned death."""
    rejoining: set[str] = field(default_factory=set)
    """Devices that come back by the script or because the run was resumed: their new process is no restart."""

    made: VersionTable = field(default_factory=VersionTable)
    plan: trace.Planned | None = None
    """The last plan of a round."""
    scores: list[trace.Scored] = field(default_factory=list)
    versions: int = 0

    dispatched: int = 0
    arrived: int = 0
    applied: int = 0
    rejected: int = 0
    lost: int = 0
    superseded: int = 0
    delivered: int = 0
    resent: int = 0
    ignored: int = 0
    refused: int = 0
    clipped: int = 0
    """Updates whose norm was scaled down."""
    out_of_range: list[trace.OutOfRange] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why updates were rejected or lost."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Why messages and connections were refused."""
    head_ranges: set[int] = field(default_factory=set)
    """Ticket ranges of cluster heads."""
    final_tickets: set[int] = field(default_factory=set)
    final_sent: dict[str, float] = field(default_factory=dict)
    """Device → when the final model was sent to it, if the strategy broadcasts it."""
    final_received: dict[str, float] = field(default_factory=dict)
    """Device → when it had received the final model; its next heartbeat reports that to the aggregator."""

    @property
    def in_flight(self) -> int:
        return self.dispatched - self.applied - self.rejected - self.lost - self.superseded - self.delivered

    @property
    def dilation(self) -> float:
        """The last one: a resumed run may continue at another dilation."""
        return self.dilations[-1][1] if self.dilations else self._first_dilation

    @property
    def _first_dilation(self) -> float:
        return self.header.dilation if self.header is not None else 1.0

    def host_seconds(self, moment: float) -> float:
        """Host seconds that the run had taken at ``moment``."""
        changes = [(0.0, self._first_dilation), *self.dilations, (math.inf, 1.0)]
        return sum(
            (min(moment, until) - since) * dilation
            for (since, dilation), (until, _) in itertools.pairwise(changes)
            if since < moment
        )
