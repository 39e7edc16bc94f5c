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

from collections.abc import Iterable
from typing import Any

from testbed.history import trace
from testbed.history.trace import Event

COLUMNS = ("round", "time_s", "devices", "fastest_s", "slowest_s", "delay_s", "cumulative_delay_s", "energy_proxy_j")


def rows(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Rows of rounds.csv; none if the strategy has no rounds. Without the watts of each device there are no joules."""
    watts: dict[str, float | None] = {}
    found: list[dict[str, Any]] = []
    cumulative, energy = 0.0, 0.0
    known = True
    for event in events:
        if isinstance(event, trace.Joined):
            watts[event.device] = event.watts.compute if event.watts is not None else None
        elif isinstance(event, trace.Round) and event.seconds:
            delay = max(event.seconds) - min(event.seconds)
            cumulative += delay
            for device, seconds in zip(event.devices, event.seconds, strict=True):
                power = watts[device]
                known = known and power is not None
                energy += (power or 0.0) * seconds
            found.append(
                {
                    "round": event.number,
                    "time_s": round(event.t, 4),
                    "devices": len(event.devices),
                    "fastest_s": round(min(event.seconds), 4),
                    "slowest_s": round(max(event.seconds), 4),
                    "delay_s": round(delay, 4),
                    "cumulative_delay_s": round(cumulative, 4),
                    "energy_proxy_j": round(energy, 3) if known else None,
                }
            )
    return found


def summary(found: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The sums of the last row, for summary.json; None if there are no rounds."""
    if not found:
        return None
    last = found[-1]
    return {"count": len(found)} | {column: last[column] for column in ("cumulative_delay_s", "energy_proxy_j")}
