"""The command line. Exit codes: 0 done, 1 the run failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import testbed
from testbed import cores, doctor, forking, launcher, live, plugins, profile, room
from testbed.errors import UserError
from testbed.messages import Job
from testbed.parameters import as_table, build, describe
from testbed.profile import (
    DeviceProfile,
    Direction,
    Evaluation,
    Experiment,
    Group,
    LinkProfile,
    Power,
    Presence,
    StopWhen,
    Transport,
)
from testbed.runfolder import RunFolder
from testbed.trace import TraceError

_SLOWED = 1.10
"""Above this ratio of computing obtained to asked, a user is warned."""
_EXAMPLES = """\
examples:
  run_testbed.py run profiles/experiments/quickstart.toml
  run_testbed.py quickstart.toml --strategy fedavg --seconds 20 --seed 3
  run_testbed.py run quickstart.toml --set strategy.lam=0.5 --set devices[0].count=4
  run_testbed.py list strategies -v
  run_testbed.py doctor

exit codes: 0 done, 1 the run failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].endswith(".toml"):
        words.insert(0, "run")
    options = _parser().parse_args(words)
    try:
        code: int = options.command(options)
    except UserError as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)  # one line, whatever it quotes
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nothing more can be said
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run_testbed.py",
        description="Edgebed: emulate a fleet of edge devices that train together, in real processes and real time.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"Edgebed {testbed.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="run an experiment (the word may be left out before a .toml)")
    run.set_defaults(command=_run)
    run.add_argument("profile", type=Path, metavar="PROFILE.toml", help="the experiment, or a shipped one's name")
    run.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="folder for run folders (default: runs)"
    )
    run.add_argument("--seed", type=int, metavar="N", help="overrides the profile's seed")
    run.add_argument("--seconds", type=float, metavar="S", help="overrides stop.seconds")
    run.add_argument("--strategy", metavar="NAME", help="another rule, with its default parameters")
    run.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="override any key of the profile, e.g. training.lr=0.1; may be repeated",
    )  # fmt: skip
    _output_options(run)

    listing = commands.add_parser("list", help="what can be named in a profile")
    listing.set_defaults(command=_list)
    listing.add_argument("what", choices=("strategies", "devices", "links", "tasks", "keys"), help="keys: of a profile")
    listing.add_argument("-v", "--verbose", action="store_true", help="with parameters, or with sources")
    listing.add_argument("--format", choices=("text", "json"), default="text", help="output format")

    examine = commands.add_parser("doctor", help="what this host can and cannot do for a run")
    examine.set_defaults(command=_doctor)
    examine.add_argument("--format", choices=("text", "json"), default="text", help="output format")
    return parser


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no live view; errors only, and the run folder at the end")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text",
        help="json: print summary.json to standard output, everything else to standard error",
    )  # fmt: skip


# ---- run


def _run(options: argparse.Namespace) -> int:
    experiment = _experiment(options)
    devices = profile.fleet(experiment)
    plan = cores.plan(cores.available_cores(), len(devices))
    room.check_room(len(devices))
    console = Console(stderr=options.format == "json")
    folder = RunFolder(options.out, experiment.name, datetime.now())
    if not options.quiet:
        console.print(
            f"{experiment.name}: {experiment.strategy_name} over {len(devices)} devices",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        _say(console, f"core plan: {plan}")
    try:
        code = _carry_out(experiment, plan, folder, console, quiet=options.quiet)
    except UserError:
        folder.remove()  # the run did not begin
        raise
    try:
        summary = folder.write_results()
    except TraceError as error:
        print(f"error: the trace cannot be read, so there are no results: {error}", file=sys.stderr)
        return 1
    if options.format == "json":
        print(json.dumps(summary | {"run_folder": str(folder.path)}, indent=2))
    elif options.quiet:
        print(folder.path)
    else:
        _print_summary(console, summary, folder.path)
    return code


def _carry_out(
    experiment: Experiment, plan: cores.CorePlan, folder: RunFolder, console: Console, *, quiet: bool
) -> int:
    folder.write_profile(experiment)
    view = live.view(console, Console(stderr=True), quiet=quiet)
    with forking.private_folder() as private:
        run = launcher.Launcher(
            experiment, plan, folder.path, private, view, lambda pids: folder.write_meta(experiment, plan, pids)
        )
        try:
            run.run()
        except launcher.RunFailed as failure:
            view.close()
            print(f"error: {failure}; what was recorded is kept", file=sys.stderr)
            return 1
        finally:
            view.close()
    return 128 + run.interrupted_by if run.interrupted_by is not None else 0


def _experiment(options: argparse.Namespace) -> Experiment:
    path: Path = options.profile
    if path.parent == Path() and path.stem in profile.catalogue("experiments") and not path.exists():
        path = profile.CATALOGUE / "experiments" / f"{path.stem}.toml"
    replaced = {"seed": options.seed, "stop.seconds": options.seconds, "strategy": options.strategy}
    given = {key: value for key, value in replaced.items() if value is not None}
    plugins.make_importable(Path.cwd(), path.parent)
    experiment = profile.load(path, options.overrides, given)
    # with the defaults written out, a stored profile means the same when a default has changed
    strategy = _with_defaults("strategy", "aggregator.strategies", experiment.strategy, path)
    task = _with_defaults("task", "testbed.tasks", experiment.task, path)
    return replace(experiment, strategy=strategy, task=task)


def _with_defaults(kind: str, module: str, value: str | dict[str, Any], path: Path) -> dict[str, Any]:
    """The table of a rule or task, checked, with every parameter."""
    name, parameters = profile.name_and_parameters(value)
    chosen = build(plugins.find(name, module, str(path), kind), parameters, str(path), kind)
    return {"name": name, **as_table(chosen)}


def _print_summary(console: Console, summary: dict[str, Any], path: Path) -> None:
    accuracy = summary["final_accuracy"]
    shown = "not measured" if accuracy is None else f"{accuracy:.3f} (best {summary['best_accuracy']:.3f})"
    account = " + ".join(f"{summary[key]} {key}" for key in ("applied", "rejected", "lost", "superseded", "in_flight"))
    _say(console, f"stopped: {summary['stopped']}")
    _say(console, f"accuracy {shown} after {summary['versions']} versions in {summary['seconds']} s")
    _say(console, f"{summary['dispatched']} dispatched = {account}")
    for reason, count in summary["reasons"].items():
        _say(console, f"  {count} {reason}")
    computing = summary["computing"]
    if computing is not None:
        ratio = computing["obtained_s"] / computing["asked_s"]
        _say(console, f"computing: asked {computing['asked_s']} s, obtained {computing['obtained_s']} s ({ratio:.3f}×)")
        if computing["slowest_ratio"] > _SLOWED:
            console.print(
                f"warning: this host is too small for this fleet: {computing['slowest']} computed"
                f" {computing['slowest_ratio']:.2f}× as long as asked; use fewer or slower devices",
                style="yellow", highlight=False, markup=False,
            )  # fmt: skip
    _say(console, f"results in {path}")


def _say(console: Console, text: str) -> None:
    """A plain line: what a user named may look like markup."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


# ---- list


def _list(options: argparse.Namespace) -> int:
    kinds = {"strategies": _classes, "tasks": _classes, "devices": _profiles, "links": _profiles, "keys": _keys}
    rows = kinds[options.what](options)
    if options.format == "json":
        print(json.dumps(rows, indent=2))
        return 0
    console = Console()
    for row in rows:
        console.print(Text(row["name"], style="bold"), row["title"], highlight=False, markup=False, soft_wrap=True)
        if options.verbose or options.what == "keys":
            table = Table(box=None, padding=(0, 2), show_header=bool(row["parameters"]))
            for column in ("", "parameter", "default", "allowed", "meaning"):
                table.add_column(column)
            for name, default, allowed, meaning in row["parameters"]:
                table.add_row("", name, default, allowed, meaning)
            for line in row["details"]:
                table.add_row("", line)
            console.print(table)
    return 0


def _classes(options: argparse.Namespace) -> list[dict[str, Any]]:
    module = {"strategies": "aggregator.strategies", "tasks": "testbed.tasks"}[options.what]
    return [
        {"name": name, "title": (cls.__doc__ or "").strip(), "parameters": list(describe(cls)), "details": []}
        for name, cls in plugins.catalogue(module).items()
    ]


def _keys(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every key of a profile, table by table. A device's profile and link may be names, paths or such tables."""
    tables: dict[str, type[Any]] = {
        "(top level)": Experiment, "[[devices]]": Group, "[devices.profile]": DeviceProfile,
        "[devices.profile.power]": Power, "[devices.link.up], [devices.link.down]": Direction, "[training]": Job,
        "[stop]": StopWhen, "[transport]": Transport, "[evaluation]": Evaluation, "[presence]": Presence,
    }  # fmt: skip
    return [
        {"name": name, "title": (cls.__doc__ or "").splitlines()[0], "parameters": list(describe(cls)), "details": []}
        for name, cls in tables.items()
    ]


def _profiles(options: argparse.Namespace) -> list[dict[str, Any]]:
    cls = {"devices": DeviceProfile, "links": LinkProfile}[options.what]
    rows = []
    for name in profile.catalogue(options.what):
        found: Any = profile.named(cls, options.what, name, name, options.what, Path())
        rows.append({"name": name, "title": found.title, "parameters": [], "details": _details(found)})
    return rows


def _details(found: DeviceProfile | LinkProfile) -> list[str]:
    if isinstance(found, LinkProfile):
        lines = [
            f"{way}: {'no limit' if d.mbit is None else f'{d.mbit:g} Mbit/s'}, {d.delay * 1e3:g} ms"
            f" + |N(0, {d.jitter * 1e3:g} ms)|, drop {d.drop:g}"
            for way, d in (("down", found.down), ("up", found.up))
        ]
    else:
        lines = [f"{task}: {seconds * 1e3:g} ms per sample" for task, seconds in found.seconds_per_sample.items()]
        if found.power is not None:
            lines.append(f"power: {found.power.idle:g} W idle, {found.power.compute:g} W computing")
    return [*lines, f"source: {found.source}"]


# ---- doctor


def _doctor(options: argparse.Namespace) -> int:
    findings = list(doctor.examine())
    if options.format == "json":
        rows = [{"what": f.what, "ok": f.ok, "found": f.found, "means": f.means} for f in findings]
        print(json.dumps(rows, indent=2))
    else:
        table = Table(box=None)
        for column in ("", "what", "found", "what that means"):
            table.add_column(column)
        for finding in findings:
            mark = {True: "[green]ok[/green]", False: "[red]no[/red]", None: "[dim]—[/dim]"}[finding.ok]
            table.add_row(mark, finding.what, finding.found, finding.means)
        Console().print(table)
    return 0 if all(finding.ok is not False for finding in findings) else 1
