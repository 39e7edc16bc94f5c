"""Signals, clean-up and pinning of the launcher. Tests of what it starts and ends are in tests/live."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.common.errors import RunFailed, UserError
from testbed.common.signals import STOP_SIGNALS
from testbed.host.core_plan import CoreRoles
from testbed.host.private_folder import PrivateFolder
from testbed.loading.profile_loader import load
from testbed.processes import launcher
from testbed.processes.launcher import Launcher
from testbed.processes.preparation import Preparation, TemplateFailed
from tests.testbed.examples import MINIMAL, write_profile


@contextlib.contextmanager
def unanswered(*_: object) -> Iterator[Preparation]:
    """A connection whose other end never answers."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Preparation(ours)


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """A launcher that starts no template."""
    monkeypatch.setattr(launcher, "prepared_template", unanswered)
    roles = CoreRoles(aggregator=0, evaluator=0, device_cores=(0,), shareable=(0,))
    view: Any = None  # nothing is shown before processes start
    return Launcher(load(write_profile(tmp_path, MINIMAL)), roles, tmp_path, PrivateFolder(tmp_path, None), view)


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in STOP_SIGNALS]


def test_a_signal_during_the_survey_is_noted_and_the_handlers_are_restored_at_the_end(fleet: Launcher) -> None:
    before = handlers()
    with fleet:
        assert handlers() != before
        signal.raise_signal(signal.SIGTERM)
        assert fleet.survey() is None
    assert handlers() == before
    assert (fleet.interrupted_by, fleet.host_energy) == (signal.SIGTERM, None)


@pytest.mark.parametrize("failure", [UserError("too small"), RunFailed("died"), KeyError("a bug")])
def test_a_failure_ends_all_processes_and_restores_the_handlers(
    fleet: Launcher, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, ended = handlers(), []
    monkeypatch.setattr(fleet._processes, "end_all", ended.append)
    with pytest.raises(type(failure)), fleet:
        raise failure
    assert len(ended) == 1
    assert handlers() == before


def test_the_handlers_are_restored_if_the_template_cannot_be_started(
    fleet: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(launcher, "prepared_template", fail)
    before = handlers()
    with pytest.raises(OSError, match="no memory"), fleet:
        pytest.fail("the block is not entered")
    assert handlers() == before


def test_a_template_that_failed_fails_the_run_and_its_traceback_is_in_the_log(
    fleet: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TemplateFailed("KeyError: 'x'", "Traceback …")

    monkeypatch.setattr(Preparation, "survey", fail)
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "template.log"
    with fleet, pytest.raises(RunFailed) as caught:
        fleet.survey()
    assert str(caught.value) == f"KeyError: 'x' (see {log})"
    assert log.read_text(encoding="utf-8") == "Traceback …"


@pytest.mark.parametrize("allowed", [True, False])
def test_the_launcher_lowers_its_priority_only_if_it_may_raise_it_again(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    policies: list[int] = []
    monkeypatch.setattr("os.sched_setscheduler", lambda pid, policy, parameter: policies.append(policy))
    monkeypatch.setattr(launcher, "can_leave_idle", lambda: allowed)
    before = os.sched_getaffinity(0)
    with launcher._pinned(min(before)):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
    assert policies == ([os.SCHED_IDLE, os.SCHED_OTHER] if allowed else [])
