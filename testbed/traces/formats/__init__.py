"""Readers for published traces: one file for each format.

A reader yields the entries of a file (``found_trace.py``); ``testbed.trace_tools.importing`` makes profiles of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.traces.formats import (
    fedscale_behaviour,
    fedscale_capacity,
    flash_speed,
    flash_state,
    mahimahi,
    norway3g,
    own,
    pensieve,
    plato,
    ucc5g,
)
from testbed.traces.formats.found_trace import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """A format: its reader, a description, its origin, and the options that it uses."""

    read: Reader
    means: str
    source: str
    options: tuple[str, ...] = ()


KINDS = {
    "csv": TraceFormat(
        read=own.read,
        options=("up",),
        means="CSV of this project: t_s,mbps (a rate) or t_s,available",
        source="CSV of this project",
    ),
    "mahimahi": TraceFormat(
        read=mahimahi.read,
        options=("up", "bin"),
        means="ms per 1500-byte opportunity; X.down --up X.up",
        source="Mahimahi link trace",
    ),
    "fedscale-capacity": TraceFormat(
        read=fedscale_capacity.read,
        means="speed and rate of clients, pickle or JSON",
        source="FedScale client_device_capacity (Lai et al., ICML 2022)",
    ),
    "fedscale-behaviour": TraceFormat(
        read=fedscale_behaviour.read,
        means="availability of clients, pickle or JSON",
        source="FedScale client_behave_trace (Lai et al., ICML 2022)",
    ),
    "flash-speed": TraceFormat(
        read=flash_speed.read,
        options=("unit",),
        means="link speeds of phones, JSON; needs --unit",
        source="FLASH speed_distri (Yang et al., WWW 2021)",
    ),
    "flash-state": TraceFormat(
        read=flash_state.read,
        means="states of phones, JSON: available while locked, on Wi-Fi and charging",
        source="FLASH state_traces (Yang et al., WWW 2021)",
    ),
    "ucc5g": TraceFormat(
        read=ucc5g.read,
        options=("trim",),
        means="G-NetTrack CSV, 1 Hz; or many in one table",
        source="UCC 5G dataset (Raca et al., MMSys 2020)",
    ),
    "norway3g": TraceFormat(
        read=norway3g.read,
        means="HSDPA logs: t_ms, bytes, ms; or trace,t_s,mbps",
        source="HSDPA logs (Riiser et al., MMSys 2013)",
    ),
    "pensieve": TraceFormat(
        read=pensieve.read, options=("up",), means="time_s throughput_mbps", source="Pensieve trace"
    ),
    "plato": TraceFormat(
        read=plato.read,
        options=("slot",),
        means="availability of clients, JSON: spans in seconds, or 1/0 per round",
        source="availability list",
    ),
}
"""Name → format, for all formats that can be imported."""
