"""The command line. Exit codes: 0 done, 1 the run failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from testbed.cli import (
    compare_command,
    data_command,
    doctor_command,
    list_command,
    plan_command,
    report_command,
    resume_command,
    run_command,
    sweep_command,
    theory_command,
    trace_command,
)
from testbed.cli.options import AS_WRITTEN
from testbed.common.errors import UserError
from testbed.common.version import __version__

_COMMANDS = (
    run_command,
    resume_command,
    plan_command,
    sweep_command,
    list_command,
    data_command,
    doctor_command,
    report_command,
    compare_command,
    trace_command,
    theory_command,
)
"""In the order of --help."""
_EXAMPLES = """\
examples:
  run_testbed.py run profiles/experiments/quickstart.toml
  run_testbed.py quickstart.toml --strategy fedavg --seconds 20 --seed 3
  run_testbed.py run quickstart.toml --set strategy.lam=0.5 --set devices[0].count=4
  run_testbed.py plan quickstart.toml --set devices[0].count=40
  run_testbed.py run quickstart.toml --dilation auto
  run_testbed.py data mnist.toml --set task.split.alpha=0.1 --png labels.png
  run_testbed.py list strategies -v
  run_testbed.py doctor
  run_testbed.py trace import mahimahi LTE.down --up LTE.up --out mine
  run_testbed.py trace show runs/RUN --png delays.png
  run_testbed.py trace compare runs/RECORDED runs/REPLAYED
  run_testbed.py resume runs/RUN
  run_testbed.py report runs/RUN --figures paper/figures
  run_testbed.py compare runs/*
  run_testbed.py sweep quickstart.toml --strategy fedavg,fedasync --seeds 5 --out runs/my-sweep
  run_testbed.py theory runs/AUDG-RUN runs/PSURDG-RUN --L 1 --mu 0.1 --R 5 --G 2 --phi 0.5

exit codes: 0 done, 1 the run failed or a strict replay differs, 2 wrong input, 130 Ctrl-C, 143 SIGTERM
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line (default: that of this process) and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].endswith(".toml"):
        words.insert(0, "run")
    namespace = parser().parse_args(words)
    try:
        code: int = namespace.command(namespace)
    except UserError as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)  # one line, whatever it quotes
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone: nothing more can be printed
        return 1
    return code


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="run_testbed.py",
        description="Edgebed: emulate a fleet of edge devices that train together, in real processes and real time.",
        epilog=_EXAMPLES,
        formatter_class=AS_WRITTEN,
    )
    found.add_argument("--version", action="version", version=f"Edgebed {__version__}")
    commands = found.add_subparsers(required=True, metavar="command")
    for command in _COMMANDS:
        command.add_parser(commands)
    return found
