"""The papers' experiments at a small scale, and docs/papers.md: what the papers print beside what was measured.

Finished runs are not repeated: after an interruption, the same command continues.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from testbed.common.console import TerminalConsole, say
from testbed.common.errors import UserError
from testbed.common.terminal import plain_text
from testbed.papers import document
from testbed.papers.all_papers import PAPERS
from testbed.papers.programme import Programme
from testbed.sweeps.runner import Runner
from testbed.sweeps.sweep_progress import duration


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.papers", description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"{', '.join(PAPERS)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), metavar="DIR", help="folder for the runs")
    parser.add_argument(
        "--document", type=Path, default=Path("docs/papers.md"), metavar="FILE", help="the document to write"
    )
    parser.add_argument("--dry-run", action="store_true", help="only list the runs that are still to be done")
    parser.add_argument("--write-only", action="store_true", help="run nothing: write the document from finished runs")
    options = parser.parse_args(words)
    unknown = [name for name in options.papers if name not in PAPERS]
    if unknown:
        parser.error(f"{unknown[0]!r} is not a paper; choose from {', '.join(PAPERS)}")
    try:
        return _carry_out(options, TerminalConsole())
    except UserError as error:
        plain_text.show_error(str(error))
        return 2


def _carry_out(options: argparse.Namespace, console: Console) -> int:
    with Runner() as runner:
        programmes = [
            Programme(PAPERS[name], options.out.resolve() / name, console, runner) for name in options.papers or PAPERS
        ]
        for programme in programmes:
            if options.dry_run:
                _list(programme, console)
            elif options.write_only:
                programme.read()
            else:
                say(console, f"{programme.paper.name}: {programme.paper.title}")
                programme.carry_out()
            if runner.interrupted_by is not None:
                say(console, "interrupted; the same command continues from here")
                return 128 + runner.interrupted_by
    if options.dry_run:
        return 0
    document.write(options.document, programmes)
    say(console, f"written: {options.document}")
    for programme in programmes:
        if programme.omitted:
            say(console, f"{programme.paper.name}: {len(programme.omitted)} runs were omitted, see above")
        for name, reason in programme.failed.items():
            plain_text.show_error(f"{name} failed, {reason}; the same command repeats it")
    return 1 if any(programme.failed for programme in programmes) else 0


def _list(programme: Programme, console: Console) -> None:
    waiting = programme.waiting()
    for paper_run in waiting:
        replayed = f" --replay={paper_run.replays}" if paper_run.replays else ""
        say(console, f"{programme.paper.name}/{paper_run.name}: {' '.join(paper_run.words())}{replayed}")
    known = [paper_run.experiment().stop.seconds for paper_run in waiting]
    most = sum(seconds for seconds in known if seconds is not None)
    length = f"at most {duration(most)} of emulated time" if None not in known else "as long as their profiles say"
    say(console, f"{programme.paper.name}: {len(waiting)} runs to do, {length}, and a few seconds to start each")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
