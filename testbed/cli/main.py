"""The command line. Exit codes: 0 done, 1 the run failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from rich.console import Console

import testbed
from aggregator.process import checkpoint
from testbed.cli import (
    compare_command,
    data_command,
    list_command,
    report_command,
    run_command,
    sweep_command,
    terminal,
    theory_command,
    trace_command,
)
from testbed.common import plugins
from testbed.common.errors import UserError
from testbed.doctor import benchmark, checks
from testbed.host import cores
from testbed.learning import setup
from testbed.learning.data import folders, progress_bar
from testbed.loading import profile_files, profile_loader
from testbed.partition.partition import Partition
from testbed.planning import planner
from testbed.processes import preparation
from testbed.profile import fleet
from testbed.profile.schema import Experiment, name_and_parameters
from testbed.runs import resuming
from testbed.runs.run_folder import RunFolder

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

exit codes: 0 done, 1 the run failed or a strict replay is another run, 2 wrong input, 130 Ctrl-C, 143 SIGTERM
"""


_RESUME = (
    "A run saves its state every checkpoint.seconds, and when it is interrupted. It goes on in its own folder and"
    " emulated time: what was done after the checkpoint is undone, and devices begin anew with what they were doing."
)


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].endswith(".toml"):
        words.insert(0, "run")
    options = _parser().parse_args(words)
    try:
        if getattr(options, "data_dir", None) is not None:
            os.environ[folders.FOLDER] = str(folders.given(options.data_dir))  # for all that this process starts
        code: int = options.command(options)
    except UserError as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)  # one line, whatever it quotes
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nothing more can be said
        return 1
    return code


_AS_IT_IS = argparse.RawDescriptionHelpFormatter
_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run_testbed.py",
        description="Edgebed: emulate a fleet of edge devices that train together, in real processes and real time.",
        epilog=_EXAMPLES,
        formatter_class=_AS_IT_IS,
    )
    parser.add_argument("--version", action="version", version=f"Edgebed {testbed.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    _running(commands)
    _asking(commands)
    _looking(commands)
    return parser


def _running(commands: _Commands) -> None:
    """Commands that run an experiment, or tell whether it would run."""
    run = commands.add_parser("run", help="run an experiment (the word may be left out before a .toml)")
    run.set_defaults(command=_run)
    _experiment_options(run)
    run.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="folder for run folders (default: runs)"
    )
    run.add_argument(
        "--compress", action="store_true", default=None, help="pack the trace (trace.jsonl.gz) when the run is over"
    )
    run.add_argument(
        "--tensorboard",
        action="store_true",
        help="write event files for TensorBoard, below the run folder, when the run is over",
    )
    _carrying_out(run)

    resumed = commands.add_parser(
        "resume", help="go on with a run that was interrupted, from its last checkpoint", description=_RESUME
    )
    resumed.set_defaults(command=_resume, tensorboard=False)
    resumed.add_argument("run", type=Path, metavar="RUN", help="its folder, such as runs/NAME-YYYYmmdd-HHMMSS")
    resumed.add_argument(
        "--seconds", type=float, metavar="S", help="let it last longer: stop.seconds, counted from its beginning"
    )
    resumed.add_argument(
        "--dilation", metavar="K|auto", help="host seconds per emulated second from here on (default: as before)"
    )
    resumed.add_argument("--data-dir", type=Path, metavar="DIR", help=folders.HELP)
    _carrying_out(resumed)

    plan = commands.add_parser("plan", help="whether this host is large enough for an experiment, and what would fit")
    plan.set_defaults(command=_plan, compress=None)
    _experiment_options(plan)
    plan.add_argument("--format", choices=("text", "json"), default="text", help="output format")

    swept = commands.add_parser(
        "sweep",
        help="run rules, settings and seeds one after another, and compare them",
        description=sweep_command.DESCRIPTION,
        formatter_class=_AS_IT_IS,
    )
    swept.set_defaults(command=sweep_command.sweep)
    sweep_command.add_options(swept)


def _carrying_out(parser: argparse.ArgumentParser) -> None:
    """Of commands that run an experiment."""
    parser.add_argument(
        "--no-admission",
        action="store_true",
        help="run even if this host is too small; the certificate will say what became of the timing",
    )
    parser.add_argument(
        "--no-report", action="store_true", help="leave out report.html; the command report can make it"
    )
    _output_options(parser)


def _asking(commands: _Commands) -> None:
    """Commands about what there is: names for a profile, and this host."""
    listed = commands.add_parser("list", help="what can be named in a profile")
    listed.set_defaults(command=list_command.show)
    kinds = ("strategies", "devices", "links", "tasks", "splits", "keys")
    listed.add_argument("what", choices=kinds, help="splits: of data; keys: of a profile")
    listed.add_argument("-v", "--verbose", action="store_true", help="with parameters, or with sources")
    listed.add_argument("--format", choices=("text", "json"), default="text", help="output format")

    partition = commands.add_parser(
        "data",
        help="who has how many samples of which label",
        description=data_command.DESCRIPTION,
        formatter_class=_AS_IT_IS,
    )
    partition.set_defaults(command=_data, compress=None)
    _experiment_options(partition)
    data_command.add_options(partition)

    examine = commands.add_parser("doctor", help="what this host can and cannot do for a run")
    examine.set_defaults(command=_doctor)
    examine.add_argument(
        "--calibrate",
        action="store_true",
        help="measure sleep error, step time, loopback and fork cost (about 10 s), and store them for plans",
    )
    examine.add_argument("--format", choices=("text", "json"), default="text", help="output format")


def _looking(commands: _Commands) -> None:
    """Commands about what runs have left."""
    on_one_page = commands.add_parser(
        "report", help="a run on one page, as report.html", description=report_command.DESCRIPTION
    )
    on_one_page.set_defaults(command=report_command.show)
    report_command.add_options(on_one_page)

    side_by_side = commands.add_parser(
        "compare",
        help="rules over seeds: means, intervals, paired tests, figures",
        description=compare_command.DESCRIPTION,
        formatter_class=_AS_IT_IS,
    )
    side_by_side.set_defaults(command=compare_command.compare)
    compare_command.add_options(side_by_side)

    traces = commands.add_parser(
        "trace",
        help="import, show, compare and export traces",
        description=trace_command.DESCRIPTION,
        epilog=trace_command.EXAMPLES,
        formatter_class=_AS_IT_IS,
    )
    trace_command.add_commands(traces)

    foretell = commands.add_parser(
        "theory",
        help="which of audg and psurdg the delays of a run favour, by the bounds of Hao et al., 2025",
        description=theory_command.DESCRIPTION,
    )
    foretell.set_defaults(command=theory_command.show)
    theory_command.add_options(foretell)


def _experiment_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", type=Path, metavar="PROFILE.toml", help="the experiment, or a shipped one's name")
    parser.add_argument("--seed", type=int, metavar="N", help="overrides the profile's seed")
    parser.add_argument("--seconds", type=float, metavar="S", help="overrides stop.seconds")
    parser.add_argument("--strategy", metavar="NAME", help="another rule, with its default parameters")
    parser.add_argument(
        "--dilation",
        metavar="K|auto",
        help="host seconds per emulated second: 4 gives a small host time, 0.1 saves yours; auto: 1, or what this"
        " host keeps up with",
    )
    parser.add_argument(
        "--replay", metavar="RUN", help="meet the delays, drops and suspensions of a recorded run again"
    )
    parser.add_argument(
        "--replay-mode",
        choices=("schedule", "strict"),
        help="schedule: any rule; strict: the recorded rule, in the recorded order of arrivals",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="override any key of the profile, e.g. training.lr=0.1; may be repeated",
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help=folders.HELP)


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no live view; errors only, and the run folder at the end")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="json: print summary.json to standard output, everything else to standard error",
    )


# ---- run


def _run(options: argparse.Namespace) -> int:
    return run_command.run(_experiment(options), options)


def _resume(options: argparse.Namespace) -> int:
    resuming.check_folder(options.run)
    folder = RunFolder(options.run)
    saved = checkpoint.saved(options.run)
    changed = {"stop.seconds": options.seconds, "dilation": _number_or_word(options.dilation)}
    given = {key: value for key, value in changed.items() if value is not None}
    plugins.make_importable(Path.cwd(), resuming.source(options.run).parent)
    experiment = profile_loader.load(options.run / "profile.toml", [], given)
    resuming.check(options.run, experiment, saved)
    return run_command.resume(experiment, options, folder, saved)


def _experiment(options: argparse.Namespace) -> Experiment:
    path = profile_files.located(options.profile)
    replaced = {"seed": options.seed, "stop.seconds": options.seconds, "strategy": options.strategy}
    replaced["dilation"], replaced["compress"] = _number_or_word(options.dilation), options.compress
    replaced |= {"replay.trace": options.replay, "replay.mode": options.replay_mode}
    given = {key: value for key, value in replaced.items() if value is not None}
    plugins.make_importable(Path.cwd(), path.parent)
    return profile_loader.load(path, options.overrides, given)


def _number_or_word(text: str | None) -> float | str | None:
    """Of an option that takes either; the profile's checks say which words."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


# ---- plan


def _plan(options: argparse.Namespace) -> int:
    experiment = _experiment(options)
    devices = len(fleet.names(experiment))
    core_plan = cores.plan(cores.available_cores(), devices)
    console = Console()
    with progress_bar.ProgressBar() as progress:
        setup.check(experiment, progress)
    try:
        with Console(stderr=True).status("loading the task, timing one step …"):
            survey = preparation.survey(experiment, core_plan)
    except preparation.TemplateFailed as failure:
        print(failure.details, f"error: {failure}", sep="", file=sys.stderr)
        return 1
    plan = planner.settled(experiment, survey, core_plan)
    if options.format == "json":
        print(json.dumps(terminal.plan_table(plan), indent=2))
    else:
        terminal.show_plan(console, experiment, plan, benchmark.stored())
    return 0 if plan.fits else 1


# ---- data


def _data(options: argparse.Namespace) -> int:
    data_command.check(options)
    experiment = _experiment(options)
    try:
        with progress_bar.ProgressBar() as progress:
            data, shards, test = setup.partition(experiment, progress)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001  a user's own task may fail in any way
        traceback.print_exc()
        print(f"error: task {experiment.task_name}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    split, _ = name_and_parameters(experiment.task_parameters["split"])
    title = f"{experiment.name}: {experiment.task_name}, split {split}"
    partition = Partition(title=title, data=data, shards=shards, names=fleet.names(experiment), test=test)
    return data_command.show(partition, options, Console())


# ---- doctor


def _doctor(options: argparse.Namespace) -> int:
    if options.calibrate:
        # no spinner: it would be a thread beside what is forked and measured
        print("measuring this host, about 10 seconds …", file=sys.stderr)
        benchmark.measure()
    findings = list(checks.examine())
    calibrated = benchmark.stored()
    if options.format == "json":
        rows = [{"what": f.what, "ok": f.ok, "found": f.found, "means": f.means} for f in findings]
        print(json.dumps({"findings": rows, "calibration": msgspec.to_builtins(calibrated)}, indent=2))
    else:
        terminal.show_findings(Console(), findings, calibrated)
    return 0 if all(finding.ok is not False for finding in findings) else 1
