"""The program of a launcher template: it imports what the command ``run`` needs, and forks the launcher of each run."""

from __future__ import annotations

import sys

from testbed.common.finders import own_packages

if __name__ == "__main__":
    own_packages.confine(stays=sys.argv[2] == "stays")
    from testbed.cli import run_command  # noqa: F401  so that the launchers need not import it
    from testbed.cli.main import main
    from testbed.sweeps import launcher_template

    launcher_template.serve(main)
