"""The command line with at most 1024 open files, as under ``ulimit -n 1024``, which also lowers the hard limit."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import run_testbed

FILES = 1024

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    sys.exit(run_testbed.main())
