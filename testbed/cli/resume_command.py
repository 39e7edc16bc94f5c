"""``run_testbed.py resume``: continue an interrupted run from its last checkpoint, in its own folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.cli import options, outcome_text
from testbed.cli.options import ExecutionOptions
from testbed.common.finders import user_modules
from testbed.execution.execution import Execution
from testbed.loading import profile_loader
from testbed.runs import resuming
from testbed.runs.run_folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    execution: ExecutionOptions
    run: Path
    seconds: float | None
    dilation: float | str | None
    data_dir: Path | None


def resume(given: ResumeOptions) -> int:
    options.use_data_dir(given.data_dir)
    resuming.check_folder(given.run)
    resuming.check_clock(given.run)
    folder = RunFolder(given.run)
    saved = resuming.checked(given.run)
    changed = {"stop.seconds": given.seconds, "dilation": given.dilation}
    source = resuming.source(given.run)
    user_modules.FINDER.search_in(Path.cwd(), source.parent)
    experiment = profile_loader.load(
        given.run / "profile.toml", [], {key: value for key, value in changed.items() if value is not None}
    )
    resuming.check_profile(given.run, experiment, saved)
    resuming.check(given.run, experiment, saved)
    return outcome_text.carry_out(
        Execution(
            experiment=experiment,
            source=source,
            open_folder=lambda: folder,
            saved=saved,
            dilation_given=given.dilation is not None,
        ),
        given.execution,
    )


COMMAND = options.command(ResumeOptions, resume)
