"""Throttling by signals, on a clock and an account that are moved by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import cast

import pytest

from devices.compute.quota import SignalQuota
from devices.compute.worker import Worker
from testbed.host.kernel import Usage


@dataclass
class Account:
    """Stands where the worker stands: computes with all of the core while it is not held back."""

    cpu: float = 3.0
    is_computing: bool = True
    held: bool = False
    words: list[bool] = field(default_factory=list)

    def usage(self) -> Usage:
        return Usage(self.cpu, 0.0)

    def hold_back(self, held: bool) -> None:
        self.held = held
        self.words.append(held)


def quota(account: Account, share: float) -> SignalQuota:
    return SignalQuota(cast(Worker, account), share)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.02])
def test_in_the_long_run_the_worker_has_its_share(share: float) -> None:
    account = Account()
    held, now = quota(account, share), 100.0
    while now < 110.0:
        held.act(now)
        if not account.held:
            account.cpu += held.due - now
        now = held.due
    assert (account.cpu - 3.0) / (now - 100.0) == pytest.approx(share, rel=0.01)


def test_a_worker_that_had_to_wait_for_its_core_may_catch_up() -> None:
    account = Account()
    held = quota(account, 0.25)
    held.act(10.0)
    account.cpu += 0.1
    held.act(11.0)  # 0.25 s were its due
    assert not account.held
    account.cpu += 0.2
    held.act(11.1)
    assert account.held
    assert held.due == pytest.approx(10.0 + 0.3 / 0.25)


def test_what_a_worker_did_not_use_before_its_job_is_not_saved_up() -> None:
    account = Account()
    held = quota(account, 0.5)
    held.act(0.0)
    account.is_computing = False
    held.act(5.0)
    assert held.due == math.inf
    account.is_computing = True
    held.act(100.0)
    account.cpu += 0.1
    held.act(100.1)
    assert account.held
    assert held.due == pytest.approx(100.2)
