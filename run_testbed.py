#!/usr/bin/env python3
"""Edgebed's command line: ``run_testbed.py run PROFILE.toml``."""

import sys


def main() -> int:
    from testbed.processes import early  # imports next to nothing

    try:
        early.begin_for(sys.argv[1:])  # torch is imported beside the command line's own work
        from testbed.cli.main import main

        return main()
    except KeyboardInterrupt:  # outside of a run, which has its own handler
        return 130
    finally:
        early.end()


if __name__ == "__main__":
    raise SystemExit(main())
