"""Rounds as Forootani and Iervolino 2025 (AFL, section VI) measure them: delays, wall-clock time and energy.

Symbols
    τ_c     execution time of device c, from having the model to having the result
    P_c     watts of device c while it computes, from its profile

Measures of round t, over its devices C_t
    delay           max τ_c − min τ_c
    wall-clock      T_cum(k) = Σ_{t≤k} (max τ_c − min τ_c)
    energy proxy    E_proxy(k) = Σ_{t≤k} Σ_{c∈C_t} P_c τ_c

The program that drew the paper's figures sums max τ_c instead and multiplies it by one power, so that they differ from
the paper's definitions. This module follows the definitions. Other files have the seconds that really passed and the
joules of the whole fleet: T_cum leaves out the time in which all devices compute; E_proxy leaves out idle devices,
links and abandoned work.
"""

from __future__ import annotations

from testbed.common.files.spool import RowSpool
from testbed.history import trace
from testbed.history.event_pass import Handlers
from testbed.runs.results.summary import RoundSums
from testbed.runs.results.table_rows import RoundRow


class RoundCounter:
    """A checker that makes the rows of rounds.csv; none if the strategy has no rounds.

    Without the watts of each device there are no joules.
    """

    def __init__(self) -> None:
        self.rows = RowSpool(RoundRow)
        self._watts: dict[str, float | None] = {}
        self._delay, self._joules, self._known = 0.0, 0.0, True

    def handlers(self) -> Handlers:
        return {trace.Joined: self._joined, trace.Round: self._ended}

    def _joined(self, event: trace.Joined) -> None:
        self._watts[event.device] = event.watts.compute if event.watts is not None else None

    def _ended(self, event: trace.Round) -> None:
        if not event.seconds:
            return
        fastest, slowest = min(event.seconds), max(event.seconds)
        self._delay += slowest - fastest
        for device, seconds in zip(event.devices, event.seconds, strict=True):
            power = self._watts[device]
            self._known = self._known and power is not None
            self._joules += (power or 0.0) * seconds
        self.rows.add(
            RoundRow(
                round=event.number,
                time_s=round(event.t, 4),
                devices=len(event.devices),
                fastest_s=round(fastest, 4),
                slowest_s=round(slowest, 4),
                delay_s=round(slowest - fastest, 4),
                cumulative_delay_s=round(self._delay, 4),
                energy_proxy_j=round(self._joules, 3) if self._known else None,
            )
        )


def sums(rows: RowSpool[RoundRow] | None) -> RoundSums | None:
    """The sums in the last row, for summary.json; None if there are no rounds."""
    last = None if rows is None else rows.last
    if rows is None or last is None:
        return None
    return RoundSums(count=len(rows), cumulative_delay_s=last.cumulative_delay_s, energy_proxy_j=last.energy_proxy_j)
