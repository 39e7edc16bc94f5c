"""The limit on open files, in a separate process: a limit that was lowered cannot be raised again by everybody."""

from __future__ import annotations

import subprocess
import sys

from tests.live.runs import with_this_code

LOWERED = """
import resource
from testbed.host import open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
print(open_files.raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))
print(open_files.raise_limit())
"""


def test_the_soft_limit_is_raised_to_the_hard_one_and_read_back() -> None:
    found = subprocess.run(
        [sys.executable, "-c", LOWERED], capture_output=True, text=True, check=True, env=with_this_code()
    )
    assert found.stdout == "300 (300, 300)\n300\n"
