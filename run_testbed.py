#!/usr/bin/env python3
"""Edgebed's command line: ``run_testbed.py run PROFILE.toml``."""

import io
import os
import sys
from typing import NoReturn


def main() -> int:
    from testbed.processes.templates import early  # imports next to nothing

    try:
        early.begin_for(sys.argv[1:])  # torch is imported beside the command line's own work
        from testbed.cli.main import main

        return main()
    except KeyboardInterrupt:  # outside of a run, which has its own handler
        return 130
    finally:
        early.end()


def script() -> NoReturn:
    """Carry out the command line of this process and end it at once.

    All files are written and all processes ended by then; taking the interpreter apart would last 0.15 s.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")  # names of folders need not be UTF-8: print their bytes
    code = main()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed from the beginning
        try:
            stream.flush()
        except (OSError, ValueError):  # its reader has gone
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    script()
