"""The first code that runs in a forked process: ties it to its parent, opens its log, hands over to its role."""

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
    """Run what ``config`` is for. Problems go to the log, and to ``report`` where there is one."""
    _log_to(log)
    if template.TASK is None:
        raise RuntimeError("the process was not forked from a prepared template")
    die_with_parent(template.PID)
    from testbed.processes import roles  # the launcher imports this file, too, and must not wait for torch

    try:
        roles.run(config, template.TASK, lambda word: _tell(report, ready=word))
    except UserError as error:
        _tell(report, problem=str(error), user=True)
        sys.exit(2)
    except Exception as error:  # noqa: BLE001  the last line of defence of a process: told, logged, exit code 1
        with contextlib.suppress(OSError):  # no room for it: the exit code tells
            traceback.print_exc()
            sys.stderr.flush()
        _tell(report, problem=f"{type(error).__name__}: {error}", user=False)
        sys.exit(1)


def _tell(report: Connection | None, **what: Any) -> None:
    if report is not None and not report.closed:
        report.send_bytes(json.dumps(what).encode())
        report.close()  # one word is all the launcher listens for; later problems are in the log


def _log_to(path: str) -> None:
    """A process that has nowhere to write to does its work all the same."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        file = os.open(os.devnull, os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
