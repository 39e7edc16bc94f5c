"""Power of a device in watts, as recorded in the trace."""

from __future__ import annotations

import msgspec

from testbed.common.fields import Measure


class Watts(msgspec.Struct, frozen=True, kw_only=True):
    """Power of a device in each of its states."""

    idle: Measure
    compute: Measure
    suspended: Measure | None = None
    """None, as in older traces: the same as idle."""
    transmit: Measure = 0.0
    """In addition to the rest, while sending."""
    receive: Measure = 0.0
    """In addition to the rest, while receiving."""
    source: str = ""

    @property
    def away(self) -> float:
        """Watts while the device is suspended or away."""
        return self.idle if self.suspended is None else self.suspended
