"""Whether this host lets a run limit the CPU time of a device by a control group."""

from __future__ import annotations

import os

import pytest

from testbed.common.errors import UserError
from testbed.host.quotas import cgroups


def need_quotas() -> None:
    """Skip the test if this user may not make control groups here, or the kernel has none."""
    try:
        with cgroups.find().make_parent(os.getpid()):
            pass
    except UserError as why:  # QuotasUnavailable is one
        pytest.skip(str(why))
