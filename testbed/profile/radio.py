"""A radio cell: devices around an edge server, the gain of their channels, and the signal-to-noise ratio.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, section V and
Table II.

Symbols
    d_n         metres from device n to the server, which is in the middle of a disc
    h_0         path loss constant: the gain at one metre
    ρ_n         fading, Exp(1), independent for each device and round
    h_n         h_0·ρ_n·d_n^−2, the gain
    p, σ²       power and noise in watts

Readings
    Table II prints h_0 in dBm. It is a ratio of powers: −30 dB, that is 10^−3.
    σ² is a power, 10^−12 W, for the band as a whole, and not a density per hertz.

Departures
    No device is nearer than one metre, where the gain is h_0: at d = 0 it would be infinite. Positions are uniform over
    the rest of the disc.
    A fade is never deeper than 120 dB below the mean: with ρ = 0, an upload would never end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from testbed.common.parameters import ParameterError, param

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NEAREST: Final = 1.0
"""Metres."""
_DEEPEST_FADE = 1e-12


def from_db(decibels: float) -> float:
    """Return the ratio of powers."""
    return float(10.0 ** (decibels / 10))


def from_dbm(dbm: float) -> float:
    """Return watts; 0 dBm is a milliwatt."""
    return from_db(dbm) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell whose band all its devices share. The defaults are those of Table II."""

    radius: float = param(500.0, "metres from the server to the edge of the cell", above=NEAREST, at_most=1e6)
    bandwidth: float = param(10e6, "B: bandwidth in Hz that the devices share", above=0, at_most=1e15)
    power: float = param(10.0, "p: transmit power of a device in dBm", at_least=-200, at_most=200)
    noise: float = param(1e-12, "σ²: noise power in watts over the whole band", at_least=1e-30, at_most=1e6)
    gain: float = param(-30.0, "h_0: gain at one metre in dB", at_least=-300, at_most=100)

    def __post_init__(self) -> None:
        for key, least in (("radius", NEAREST), ("bandwidth", 0.0), ("noise", 0.0)):
            if not least < getattr(self, key) < math.inf:
                raise ParameterError(key, f"is {getattr(self, key):g}; it must be above {least:g}, and finite")

    def place(self, part: float) -> float:
        """Return the distance to the server such that ``part`` (0 to 1) of the cell's area is nearer to it."""
        # the area within d grows with d², so d is a square root of a uniform number
        return min(math.sqrt(NEAREST**2 + part * (self.radius**2 - NEAREST**2)), self.radius)

    def snr(self, metres: float, fading: float) -> float:
        """Return p·h/σ² of a device at this distance in a round with this ρ. Raises ParameterError."""
        self.check_place(metres)
        h = from_db(self.gain) * fading * metres**-2  # h_n
        return from_dbm(self.power) * h / self.noise

    def check_place(self, metres: float) -> None:
        """Raise ParameterError if a device at this distance is not in the cell."""
        if not NEAREST <= metres <= self.radius:
            allowed = f"at least {NEAREST:g} and at most {self.radius:g}, the radius of the cell"
            raise ParameterError(
                "distance", f"is {metres:g}; it must be {allowed}: move the device, or increase the radius"
            )


def fading(devices: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return ρ of all devices in one round."""
    import numpy as np  # the keys of a profile are listed and checked without it

    return np.maximum(random.exponential(1.0, devices), _DEEPEST_FADE)
