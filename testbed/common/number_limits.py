"""Limits of the numbers in a profile: what is beyond them is a slip of the pen, or a unit that was mistaken.

They are far outside of any experiment, and far inside of what clocks, system calls and floating point can represent: a
wait of 10³⁰⁰ seconds is no wait but an error of the process that tries it.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 1e9
"""Seconds: 30 years."""
SHORTEST: Final = 1e-3
"""Seconds between things that repeat: the resolution of our timing."""
SHORTEST_PERIOD: Final = 1e-6
LONGEST_PERIOD: Final = 1e12
"""Seconds of a recorded trace: it may contain an outage of years, of which a run sees only a part."""
LEAST_DILATION: Final = 1e-6
MOST_DILATION: Final = 1e6
LEAST_MULTIPLE: Final = 1e-6
MOST_MULTIPLE: Final = 1e6
"""The range of a factor of a speed or of a rate."""
LEAST_MBIT: Final = 1e-6
MOST_MBIT: Final = 1e6
"""From one bit to one terabit per second."""
MOST_WATTS: Final = 1e6
MOST_FACTOR: Final = 1e30
"""The largest float where its meaning sets no limit: vectors have single precision, up to 3·10³⁸."""
MOST_COUNT: Final = 1 << 53
"""The largest whole number where its meaning sets no limit: exact in every reader of JSON, and in messages."""
