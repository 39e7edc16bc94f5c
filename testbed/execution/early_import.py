"""Imports what the report needs while the run lasts, so that the page is there sooner afterwards.

The thread runs only when its core has nothing else to do (SCHED_IDLE), on the aggregator's core like the launcher, so
that it delays no deadline. A report that begins before the thread has finished waits for it, and first gives it back
its usual priority: on a busy host it would otherwise wait for a long time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from testbed.host.priority import can_leave_idle, run_only_when_idle


@contextlib.contextmanager
def imported_beside(core: int) -> Iterator[None]:
    """Import the modules that draw a report in the background of the block, on ``core``.

    Not for a user whose thread could not return to its usual priority: the report might have to wait for it.
    """
    if not can_leave_idle():
        yield
        return
    thread = threading.Thread(target=_import_on, args=(core,), name="report imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if thread.is_alive() and thread.native_id is not None:
            with contextlib.suppress(PermissionError, ProcessLookupError):  # it may not leave SCHED_IDLE, or is done
                os.sched_setscheduler(thread.native_id, os.SCHED_OTHER, os.sched_param(0))


def _import_on(core: int) -> None:
    os.sched_setaffinity(0, {core})  # of this thread alone
    run_only_when_idle()
    with contextlib.suppress(ImportError):  # the report names the package that is missing
        from testbed.report import report_page  # noqa: F401
