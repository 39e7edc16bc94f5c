"""The command line with a leak: it writes the credentials of all peers to a file, for a test that steals them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

import run_testbed
from testbed.wire import credentials
from testbed.wire.credentials import AllowList, Credential, KeyPair, issue

FILE = "EDGEBED_TEST_CREDENTIALS"


def leak(
    names: Iterable[str], new_pair: Callable[[], KeyPair] | None = None, *, passwords: bool = False
) -> tuple[AllowList, dict[str, Credential]]:
    allow, issued = issue(names, new_pair, passwords=passwords)
    Path(os.environ[FILE]).write_bytes(msgspec.json.encode(issued))
    return allow, issued


if __name__ == "__main__":
    credentials.issue = leak
    sys.exit(run_testbed.main())
