"""The first code of a forked process: it opens the log, ties the process to its parent and runs its role."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from testbed.common.errors import UserError
from testbed.host.cores import die_with_parent
from testbed.processes import template
from testbed.processes.configs import RoleConfig


def enter(config: RoleConfig, log: str, report: Connection | None = None) -> None:
    """Run the role that ``config`` belongs to. A failure goes to the log, and to ``report`` if there is one."""
    _log_to(log)
    if template.TASK is None:
        raise RuntimeError("the process was not forked from a prepared template")
    die_with_parent(template.PID)
    from testbed.processes import roles  # not at the top: the launcher imports this file too, and must not import torch

    try:
        roles.run(config, template.TASK, lambda answer: _send(report, ready=answer))
    except UserError as error:
        _send(report, problem=str(error), user=True)
        sys.exit(2)
    except Exception as error:  # noqa: BLE001  the last resort of a process: report it, log it, exit with 1
        with contextlib.suppress(OSError):  # the disk is full: the exit code must do
            traceback.print_exc()
            sys.stderr.flush()
        _send(report, problem=f"{type(error).__name__}: {error}", user=False)
        sys.exit(1)


def _send(report: Connection | None, **what: Any) -> None:
    if report is not None and not report.closed:
        report.send_bytes(json.dumps(what).encode())
        report.close()  # the launcher reads one answer only; later problems are in the log


def _log_to(path: str) -> None:
    """Redirect stdout and stderr into the log, or to /dev/null if it cannot be opened."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        file = os.open(os.devnull, os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
