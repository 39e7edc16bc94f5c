from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.processes import early
from tests.live.leftovers import nothing_left_over


@pytest.fixture(autouse=True)
def live_tests_clean_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that starts real processes fails if it leaves a process, a socket folder or shared memory behind."""
    if request.node.get_closest_marker("live") is None:
        yield
        return
    with nothing_left_over():
        yield
        early.end()  # a run of the Python API keeps it for the next run of the same process
