#!/usr/bin/env python3
"""Edgebed's command line: ``run_testbed.py run PROFILE.toml``."""

if __name__ == "__main__":
    # imported here and not above: every forked process imports this file once more
    try:
        from testbed.cli import main

        raise SystemExit(main())
    except KeyboardInterrupt:  # before the run could take it: nothing has been started yet
        raise SystemExit(130) from None
