"""Lines for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.benchmarks.records import history
from tests.benchmarks.records.figure import Figure, at_least
from tests.benchmarks.records.history import Line, Occasion
from tests.benchmarks.records.provenance import Provenance

HERE = Provenance(commit="abc1234", dirty=False, code="c0de", processor="EPYC", cores=2, torch="2.13.0")
OCCASION = Occasion(
    benchmark="race", command="python -m tests.benchmarks race", quick=False, checkout=False, provenance=HERE
)
FIGURE = Figure(
    row="10 devices", column="ours", value=176.0, unit="updates/s", aim=at_least(150.0), values=(170.0, 181.0)
)


def example(**changes: Any) -> Line:
    """The line of a figure that reached its aim, with other fields if they are given."""
    made = history.line(FIGURE, OCCASION, "2026-11-18T02:00:00Z", (0.031, 0.5))
    return msgspec.structs.replace(made, **changes)
