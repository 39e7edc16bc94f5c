"""The command line with a leak: it writes down the badges of its peers, for a test that wants to steal them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

import run_testbed
from testbed.wire import credentials
from testbed.wire.credentials import AllowList, Credential, Pair, issue

FILE = "EDGEBED_TEST_BADGES"


def leak(names: Iterable[str], new_pair: Callable[[], Pair] | None = None) -> tuple[AllowList, dict[str, Credential]]:
    allow, given = issue(names, new_pair)
    Path(os.environ[FILE]).write_bytes(msgspec.json.encode(given))
    return allow, given


if __name__ == "__main__":
    credentials.issue = leak
    sys.exit(run_testbed.main())
