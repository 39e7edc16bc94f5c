"""``run_testbed.py plan``: whether this host can run an experiment, without running it."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.cli import options
from testbed.cli.options import ExperimentOptions
from testbed.common.console import TerminalConsole
from testbed.common.errors import RunFailed
from testbed.common.json_text import json_text
from testbed.common.terminal import plain_text
from testbed.doctor import benchmark
from testbed.execution import admission, live_progress
from testbed.planning import plan_summary, plan_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    experiment: ExperimentOptions
    survey: str | None
    format: str


def show_plan(given: PlanOptions) -> int:
    """Return 0 if the experiment fits on this host, else 1."""
    options.use_survey(given.survey)
    experiment = options.experiment(given.experiment)
    try:
        plan = admission.plan(
            experiment, live_progress.status(TerminalConsole(stderr=True), "loading the task, timing one step …")
        )
    except RunFailed as failure:
        if failure.details:
            plain_text.show_traceback(failure.details)
        plain_text.show_error(str(failure))
        return 1
    if given.format == "json":
        plain_text.show_json(json_text(plan_summary.summary(plan)))
    else:
        calibrated = benchmark.stored()
        fork_seconds = None if calibrated is None else calibrated.fork
        plan_text.show(TerminalConsole(), experiment, plan, fork_seconds=fork_seconds)
    return 0 if plan.fits else 1


COMMAND = options.command(PlanOptions, show_plan)
