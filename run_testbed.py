#!/usr/bin/env python3
"""Edgebed's command line: ``run_testbed.py run PROFILE.toml``."""


def main() -> int:
    # imported here and not above: every forked process imports this file once more
    try:
        from testbed.cli.main import main

        return main()
    except KeyboardInterrupt:  # outside of a run, which takes it in its own way
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
