"""What all tests share: threads, property profiles, clean-up of live tests, and the judgement of timing.

A test marked ``timing`` needs a quiet host. It is skipped, with the figure, if other programs keep the host busy before
it; and if it fails although it began on a quiet host, but others kept the cores busy meanwhile. It is never repeated.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from testbed.processes.templates import early
from tests import host_load, properties
from tests.host_load import Reading
from tests.live.leftovers import nothing_left_over
from tests.threads import ONE_THREAD

# Before NumPy and torch are imported. With more threads, the workers of pytest wait for each other's threads at every
# barrier: on two busy cores, K-Means on ten points took 46 ms instead of 3.
os.environ.update(ONE_THREAD)
properties.register()
# Under nohup, runs would inherit that hangups are ignored, and go on after the hangup that a test sends.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

TOO_BUSY = 75
"""Exit code of a session that refuses to judge timing (EX_TEMPFAIL): neither passed nor failed."""
_LOOK_SECONDS = 0.5
_FIRST_LOOK_SECONDS = 3.0
_BEGAN = pytest.StashKey[Reading]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refuse-busy",
        action="store_true",
        help=f"end with exit code {TOO_BUSY} before the first test if other programs keep this host busy",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("--refuse-busy"):
        problem = host_load.watch(_FIRST_LOOK_SECONDS).problem(own_processes=False)
        if problem:
            pytest.exit(f"timing was not judged: {problem}; repeat it on a quiet host", returncode=TOO_BUSY)


@pytest.fixture(autouse=True)
def live_tests_clean_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that starts real processes fails if it leaves a process or a file in its temporary folder behind."""
    if request.node.get_closest_marker("live") is None:
        yield
        return
    with nothing_left_over():
        yield
        early.end()  # a run of the Python API keeps it for the next run of the same process


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute tests one by one, but keep a module whose tests share a run in one worker: ``--dist loadgroup``."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.distribution import ByModuleFixture

    return ByModuleFixture(config, log)


# ---- timing


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("timing") is None:
        return
    problem = host_load.watch(_LOOK_SECONDS).problem(own_processes=False)
    if problem:
        pytest.skip(f"{item.name}: timing was not judged: {problem} before the test")
    now = host_load.read()
    item.stash[_BEGAN] = now
    _module(item).stash.setdefault(_BEGAN, now)  # its first test makes what the others look at, too


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is None or call.when == "teardown" or _BEGAN not in item.stash:
        return report
    if call.excinfo.errisinstance(AssertionError):
        began, now = (item.stash[_BEGAN], _module(item).stash[_BEGAN]), host_load.read()
        problems = (host_load.between(moment, now).problem(own_processes=True) for moment in began)
        problem = next(filter(None, problems), "")
        if problem:
            path, line, _ = item.location
            report.outcome, said = "skipped", str(call.excinfo.value).partition("\n")[0]
            report.longrepr = (
                path,
                line or 0,
                f"timing was not judged: {problem} during the test; it found: {said}",
            )
    return report


def _module(item: pytest.Item) -> pytest.Module:
    module = item.getparent(pytest.Module)
    assert module is not None
    return module
