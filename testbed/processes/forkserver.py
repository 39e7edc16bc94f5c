"""The private folder of a run, and the forkserver whose template all its processes are forked from.

The only file that uses private names of the standard library; docs/adr/0001 says why.
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
from types import ModuleType

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
    """A folder of mode 0700 with a short path, for sockets and the status file; removed at the end."""
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
    """Wait for the template's answer; None if interrupted. Raises EOFError if the template dies.

    (A fork before that would wait, too, but it could not be interrupted.)
    """
    template = psutil.Process(_template_pid())
    while not (private / READY).exists():
        if template.status() == psutil.STATUS_ZOMBIE:
            raise EOFError("the template died during its preparation")
        if interrupted():
            return None
        time.sleep(_LOOK_SECONDS)
    return msgspec.json.decode((private / READY).read_bytes(), type=TemplateAnswer)


def _template_pid() -> int:
    pid: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return pid


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Start processes that do not import this process's script: a notebook or a script may have started the run.

    multiprocessing would import it into each process, and so execute its code once more.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _kill_template() -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(_template_pid(), signal.SIGKILL)


def _sweep(base: Path) -> None:
    """Remove the folders of runs whose processes were all killed at once, so that none could clean up."""
    for folder in base.glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def prepared_template(private: Path, request: TemplateRequest) -> Iterator[None]:
    """Start a forkserver whose template begins to prepare ``request``; end it at the end of the block."""
    (private / REQUEST).write_bytes(msgspec.json.encode(request))
    root = str(Path(__file__).parents[2])
    paths = [root, *(path for path in sys.path if path and path != root)]
    settings = {ENVIRONMENT: str(private), "PYTHONPATH": os.pathsep.join(paths), **_ONE_THREAD}
    settings["PYTHONSAFEPATH"] = "1"  # or a devices.py in the current folder would be imported instead of ours
    saved = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    multiprocessing.get_context("forkserver").set_forkserver_preload([template.__name__])
    # the forkserver's own socket is in the private folder, too, and removed with it
    own_settings: dict[str, object] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    own_settings["tempdir"] = str(private)
    # Ctrl-C reaches the whole process group. The template ignores it, but only once it runs Python code: so block it
    # until then. The tracker is started first, since its start unblocks the signals again
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
        (private / REQUEST).unlink(missing_ok=True)  # so the template does not clean up as well
        if not (private / READY).exists():
            _kill_template()  # during its preparation it would not notice the end
        # both would end by themselves a moment later; wait, so that no process outlives the launcher
        with contextlib.suppress(FileNotFoundError):  # a killed template has no socket any more
            forkserver._forkserver._stop()  # type: ignore[attr-defined]
        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
