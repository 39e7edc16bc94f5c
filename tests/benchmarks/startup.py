"""Start-up: how long a user waits for commands, first jobs and large fleets, and the memory of their devices.

Commands and sweeps take 1.5 minutes; the fleets of 100, 300, 500 and 1000 devices 2.5 minutes together
(``--devices 100`` measures only this one, ``--devices 8`` only the commands and sweeps, which use quickstart).
``--quick``: one repetition, and shorter runs of the fleets.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks import commands, large_fleets
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure

TURNS = commands.TURNS
_QUICKSTART = 8


def measure(options: Options) -> Iterator[Figure]:
    if options.chosen((_QUICKSTART,)):
        yield from commands.measure(options)
    yield from large_fleets.measure(options)
