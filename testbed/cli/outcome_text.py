"""What ``run`` and ``resume`` share: they carry out a run and print how it ended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from testbed.cli.options import ExecutionOptions, use_survey
from testbed.common.console import TerminalConsole, say
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.execution.execution import Execution, execute
from testbed.execution.outcome import Outcome
from testbed.runs import summary_text


def carry_out(run: Execution, given: ExecutionOptions) -> int:
    """Carry out a run with the options of the command and print how it ended. Returns the exit code."""
    use_survey(given.survey)
    output = given.output
    console = TerminalConsole(stderr=output.as_json)
    outcome = execute(
        replace(
            run,
            console=console,
            quiet=output.quiet,
            no_admission=given.no_admission,
            report=not given.no_report,
            tell_failure=tell_failure,
        )
    )
    return show(outcome, console, quiet=output.quiet, as_json=output.as_json)


def show(outcome: Outcome, console: Console, *, quiet: bool, as_json: bool) -> int:
    """Print the results of a run and what went wrong. Returns the exit code."""
    if outcome.unreadable is not None:
        plain_text.show_error(outcome.unreadable)
    if outcome.unwritten:
        plain_text.show_error(unwritten_text(outcome.folder, outcome.unwritten))
    for warning in outcome.warnings:
        plain_text.show_warning(warning)
    _show_summary(outcome, console, quiet=quiet, as_json=as_json)
    if not quiet and outcome.resumable:
        say(console, f"to continue: run_testbed.py resume {outcome.folder}")
    if not quiet and outcome.report is not None:
        say(console, f"report: {outcome.report}")
    if outcome.departure is not None and outcome.summary is not None and outcome.is_complete:
        plain_text.show_error(f"the replay {outcome.departure} ({outcome.summary.stopped})")
    return outcome.exit_code


def tell_failure(problem: str) -> None:
    """Print why a run has failed, as soon as that is known."""
    plain_text.show_error(f"{problem}; what was recorded is kept")


def _show_summary(outcome: Outcome, console: Console, *, quiet: bool, as_json: bool) -> None:
    if outcome.summary is None:
        return
    if as_json:
        table = json.loads(json_text(outcome.summary)) | {"run_folder": str(outcome.folder)}
        text = json.dumps(table, indent=2, ensure_ascii=False)
        # msgspec refuses names that are not UTF-8
        plain_text.show_json(text.encode(errors="backslashreplace").decode())
    elif quiet:
        plain_text.show_line(str(outcome.folder))
    else:
        summary_text.show(console, outcome.summary, outcome.folder)


def unwritten_text(folder: Path, unwritten: dict[str, str]) -> str:
    """Return which files of the results are missing, and why."""
    why = " and ".join(sorted(set(unwritten.values())))
    remedy = f"free disk space; the trace is kept, and run_testbed.py report {folder} writes a page from it"
    return f"{folder}: {', '.join(unwritten)} cannot be written: {why}; {remedy}"
