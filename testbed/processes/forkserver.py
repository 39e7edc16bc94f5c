"""The place that processes are forked in: a private folder, and a forkserver with a warmed template.

The only file that reaches for names that the standard library keeps private; docs/adr/0001 says why.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import msgspec
import psutil

from testbed.common.signals import STOP_SIGNALS
from testbed.processes import template  # without its variable set, the import prepares nothing
from testbed.processes.template import ENVIRONMENT, READY, REQUEST, TemplateAnswer, TemplateRequest

_PREFIX = "edgebed-"
_LOOK_SECONDS = 0.02
_LONGEST_FOLDER = 60  # a unix socket's path may have 107 bytes, and the forkserver adds its own folder
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of mode 0700 for sockets and status, on a short path, removed at the end."""
    base = Path(tempfile.gettempdir())
    if len(str(base)) > _LONGEST_FOLDER - 30:
        base = Path("/tmp")  # noqa: S108  mkdtemp makes a private folder in it
    _sweep(base)
    place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def wait_for_template(private: Path, interrupted: Callable[[], bool]) -> TemplateAnswer | None:
    """What the template answers when it is ready; None if interrupted.

    Forking earlier would wait too, but deaf to signals.
    """
    template = psutil.Process(_template_pid())
    while not (private / READY).exists():
        if template.status() == psutil.STATUS_ZOMBIE:
            raise EOFError("it ended during its preparation")
        if interrupted():
            return None
        time.sleep(_LOOK_SECONDS)
    return msgspec.json.decode((private / READY).read_bytes(), type=TemplateAnswer)


def _template_pid() -> int:
    pid: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return pid


def _kill_template() -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(_template_pid(), signal.SIGKILL)


def _sweep(base: Path) -> None:
    """Remove what runs left behind whose processes were all killed at one blow, so that nobody could clean up."""
    for folder in base.glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def prepared_template(private: Path, order: TemplateRequest) -> Iterator[None]:
    """A forkserver whose template prepares itself as ordered, and ends here."""
    (private / REQUEST).write_bytes(msgspec.json.encode(order))
    root = str(Path(__file__).parents[2])
    paths = [root, *(path for path in sys.path if path and path != root)]
    settings = {ENVIRONMENT: str(private), "PYTHONPATH": os.pathsep.join(paths), **_ONE_THREAD}
    settings["PYTHONSAFEPATH"] = "1"  # or a devices.py in the folder we were started from would be taken for ours
    saved = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    multiprocessing.get_context("forkserver").set_forkserver_preload([template.__name__])
    # the forkserver's own socket goes into the private folder too: whoever cleans that up gets both
    own_settings: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    own_settings["tempdir"] = str(private)
    # Ctrl-C reaches the whole group; the template ignores it, but can only do so when it runs Python code.
    # The tracker is started first: doing so unblocks the signal again
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        yield
    finally:
        del own_settings["tempdir"]
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        (private / REQUEST).unlink(missing_ok=True)  # the template need not clean up after us
        if not (private / READY).exists():
            _kill_template()  # in the middle of its preparation it would not listen
        # both would end by themselves a moment after us; waiting here means that nothing outlives the launcher
        with contextlib.suppress(FileNotFoundError):  # a template that was ended has removed its socket
            forkserver._forkserver._stop()  # type: ignore[attr-defined]
        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
