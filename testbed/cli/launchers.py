"""The program of a launcher template: it imports what the command ``run`` needs, and forks the launcher of each run."""

from __future__ import annotations

from testbed.cli import run_command  # noqa: F401  so that the launchers need not import it
from testbed.cli.main import main
from testbed.sweeps import launcher_template

if __name__ == "__main__":
    launcher_template.serve(main)
