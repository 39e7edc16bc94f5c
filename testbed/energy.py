"""Joules from seconds and watts."""

from __future__ import annotations

from testbed.trace import Watts


def joules(watts: Watts | None, seconds: float, computing: float) -> float | None:
    """Of a device over a run of so many emulated seconds, so many of them computing; None without a power model."""
    if watts is None:
        return None
    return watts.compute * computing + watts.idle * max(0.0, seconds - computing)
