"""The first code of a forked process: it opens the log and runs its role."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from typing import Any

from testbed.common.errors import RunFailed, UserError
from testbed.common.finders.user_code import in_one_line
from testbed.processes.templates import template
from testbed.processes.templates.configs import RoleConfig


def enter(config: RoleConfig, log: str, report: int | None = None) -> None:
    """Run the role that ``config`` belongs to. A failure goes to the log, and to ``report`` if there is such a pipe."""
    log_to(log)
    if template.TASK is None:
        raise RuntimeError("the process was not forked from a prepared template")
    from testbed.processes.templates import (
        roles,  # not at the top: the launcher imports this file too, and must not import torch
    )

    answer = _Report(report)
    try:
        roles.run(config, template.TASK, lambda text: answer.send(ready=text))
    except UserError as error:
        answer.send(problem=str(error), user=True)
        sys.exit(2)
    except Exception as error:  # noqa: BLE001  the last resort of a process: report it, log it, exit with 1
        line = in_one_line(error, with_type=not isinstance(error, RunFailed))
        with contextlib.suppress(OSError):  # the disk is full: the exit code must do
            traceback.print_exc()
            print(line, file=sys.stderr, flush=True)  # the launcher shows the last line of a log
        answer.send(problem=line, user=False)
        sys.exit(1)


class _Report:
    """The pipe to the launcher, which reads one answer only; later problems are in the log."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe

    def send(self, **what: Any) -> None:
        if self._pipe is not None:
            with os.fdopen(self._pipe, "wb") as pipe:
                pipe.write(json.dumps(what).encode())
            self._pipe = None


def log_to(path: str) -> None:
    """Redirect stdout and stderr into the log, or to /dev/null if it cannot be opened."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        file = os.open(os.devnull, os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
