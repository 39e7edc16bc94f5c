"""The command line. Exit codes: 0 done, 1 the run failed or departs, 2 wrong input, 130 Ctrl-C, 143 SIGTERM.

A command has two files. ``parsers/NAME_parser.py`` declares its options and imports next to nothing, so that
``--help`` and ``--version`` answer at once. ``NAME_command.py`` has its options as a dataclass and does the work; it is
imported when the command was chosen, and not before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.cli.parsers import (
    compare_parser,
    data_parser,
    doctor_parser,
    list_parser,
    plan_parser,
    report_parser,
    resume_parser,
    run_parser,
    shared_options,
    sweep_parser,
    theory_parser,
    trace_parser,
    verify_parser,
)
from testbed.common.errors import UserError
from testbed.common.terminal import output_stream, plain_text
from testbed.common.version import __version__

if TYPE_CHECKING:
    from testbed.cli.options import Command

_PARSERS = {
    "run": run_parser,
    "resume": resume_parser,
    "plan": plan_parser,
    "sweep": sweep_parser,
    "list": list_parser,
    "data": data_parser,
    "doctor": doctor_parser,
    "report": report_parser,
    "compare": compare_parser,
    "trace": trace_parser,
    "theory": theory_parser,
    "verify": verify_parser,
}
"""In the order of --help."""
_WITHOUT_READER = ("run", "resume", "sweep")
"""Commands that do their work although nobody reads what they print."""
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
  run_testbed.py verify runs/RUN
  run_testbed.py theory runs/AUDG-RUN runs/PSURDG-RUN --L 1 --mu 0.1 --R 5 --G 2 --phi 0.5

exit codes: 0 done, 1 the run failed, or a strict replay or verify found a difference, 2 wrong input, 130 Ctrl-C,
143 SIGTERM
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line (default: that of this process) and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].endswith(".toml"):
        words.insert(0, "run")
    output_stream.need_output(_chosen(words) not in _WITHOUT_READER)
    namespace = parser(words).parse_args(words)
    try:
        return _command(_chosen(words), namespace)(namespace)
    except UserError as error:
        plain_text.show_error(str(error))
        return 2


def _chosen(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of a command line: all commands by name, and the options of the one that it names."""
    found = argparse.ArgumentParser(
        prog="run_testbed.py",
        description="Edgebed: emulate a fleet of edge devices that train together, in real processes and real time.",
        epilog=_EXAMPLES,
        formatter_class=shared_options.AS_WRITTEN,
    )
    found.add_argument("--version", action="version", version=f"Edgebed {__version__}")
    commands = found.add_subparsers(required=True, metavar="command")
    for name, declared in _PARSERS.items():
        own = declared.add_parser(commands)
        if name == _chosen(words):
            declared.add_arguments(own)
    return found


def _command(name: str, given: argparse.Namespace) -> Command:
    """Import the module of a command, and of no other."""
    match name:
        case "run":
            from testbed.cli.run_command import COMMAND
        case "resume":
            from testbed.cli.resume_command import COMMAND
        case "plan":
            from testbed.cli.plan_command import COMMAND
        case "sweep":
            from testbed.cli.sweep_command import COMMAND
        case "list":
            from testbed.cli.list_command import COMMAND
        case "data":
            from testbed.cli.data_command import COMMAND
        case "doctor":
            from testbed.cli.doctor_command import COMMAND
        case "report":
            from testbed.cli.report_command import COMMAND
        case "compare":
            from testbed.cli.compare_command import COMMAND
        case "trace":
            from testbed.cli.trace_command import COMMANDS

            return COMMANDS[given.subcommand]
        case "verify":
            from testbed.cli.verify_command import COMMAND
        case _:
            from testbed.cli.theory_command import COMMAND
    return COMMAND
