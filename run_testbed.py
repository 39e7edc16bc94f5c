#!/usr/bin/env python3
"""Edgebed's command line: ``run_testbed.py run PROFILE.toml``."""


def main() -> int:
    # imported here: every forked process imports this file again, and needs none of it
    try:
        from testbed.cli.main import main

        return main()
    except KeyboardInterrupt:  # outside of a run, which has its own handler
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
