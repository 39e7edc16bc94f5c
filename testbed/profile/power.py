"""Watts: what a device and its radio draw, as the profile says it and as the trace records it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from testbed.common.parameters import param
from testbed.wire.messages import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Radio:
    """Watts of a link, on top of what the device draws."""

    transmit: float = param(meaning="watts on top while it sends", at_least=0)
    receive: float = param(meaning="watts on top while it receives", at_least=0)
    source: str = param("", "where the figures come from")


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Watts by what the device does."""

    idle: float = param(meaning="watts when idle", at_least=0)
    compute: float = param(meaning="watts when computing", at_least=0)
    suspended: float | None = param(None, "watts when it hangs or is away; default: idle", at_least=0)
    transmit: float | None = param(None, "watts on top while it sends; default: the link's", at_least=0)
    receive: float | None = param(None, "watts on top while it receives; default: the link's", at_least=0)
    source: str = param("", "where the figures come from")


class Watts(msgspec.Struct, frozen=True, kw_only=True):
    """What a device draws, by its profile."""

    idle: Number
    compute: Number
    suspended: Number | None = None
    """None, as in older traces: what it draws when idle."""
    transmit: Number = 0.0
    receive: Number = 0.0
    """On top of the rest, while it sends and receives."""
    source: str = ""

    @property
    def away(self) -> float:
        """While it hangs, or is away."""
        return self.idle if self.suspended is None else self.suspended


def watts_of(power: Power | None, radio: Radio | None) -> Watts | None:
    """The device's own figures; what it does not say about its radio is the link's."""
    if power is None:
        return None
    radio = radio or Radio(transmit=0.0, receive=0.0, source="no figures, taken as 0 W")
    own = power.transmit is not None and power.receive is not None
    return Watts(
        idle=power.idle,
        compute=power.compute,
        suspended=power.idle if power.suspended is None else power.suspended,
        transmit=radio.transmit if power.transmit is None else power.transmit,
        receive=radio.receive if power.receive is None else power.receive,
        source=power.source if own else "; ".join(filter(None, (power.source, f"radio: {radio.source}"))),
    )
