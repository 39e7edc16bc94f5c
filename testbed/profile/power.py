"""Power in watts of a device and of its radio, in profiles."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.common.parameters import MOST_WATTS, param
from testbed.history.events.watts import Watts


@dataclass(frozen=True, slots=True, kw_only=True)
class Radio:
    """Power of a radio, in addition to that of the device."""

    transmit: float = param(meaning="additional watts while sending", at_least=0, at_most=MOST_WATTS)
    receive: float = param(meaning="additional watts while receiving", at_least=0, at_most=MOST_WATTS)
    source: str = param("", "origin of the figures")


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Power of a device in each of its states."""

    idle: float = param(meaning="watts when idle", at_least=0, at_most=MOST_WATTS)
    compute: float = param(meaning="watts when computing", at_least=0, at_most=MOST_WATTS)
    suspended: float | None = param(None, "watts when suspended or away; default: idle", at_least=0, at_most=MOST_WATTS)
    transmit: float | None = param(
        None, "additional watts while sending; default: those of the link", at_least=0, at_most=MOST_WATTS
    )
    receive: float | None = param(
        None, "additional watts while receiving; default: those of the link", at_least=0, at_most=MOST_WATTS
    )
    source: str = param("", "origin of the figures")


def watts_of(power: Power | None, radio: Radio | None) -> Watts | None:
    """Return the figures of the device, completed by those of its link. None without a power model."""
    if power is None:
        return None
    radio = radio or Radio(transmit=0.0, receive=0.0, source="no figures, assumed 0 W")
    own = power.transmit is not None and power.receive is not None
    return Watts(
        idle=power.idle,
        compute=power.compute,
        suspended=power.idle if power.suspended is None else power.suspended,
        transmit=radio.transmit if power.transmit is None else power.transmit,
        receive=radio.receive if power.receive is None else power.receive,
        source=power.source if own else "; ".join(filter(None, (power.source, f"radio: {radio.source}"))),
    )
