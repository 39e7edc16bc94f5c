"""The place that processes are forked in: a private folder, and a forkserver with a warmed template.

The only file that reaches for names that the standard library keeps private; docs/adr/0001 says why.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

from testbed.template import ENVIRONMENT, ORDER  # without the variable set, the import prepares nothing

_TEMPLATE = "testbed.template"
_LONGEST_FOLDER = 60  # a unix socket's path may have 107 bytes, and the forkserver adds its own folder
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of mode 0700 for sockets and status, on a short path, removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="edgebed-"))
    if len(str(place)) > _LONGEST_FOLDER:
        place.rmdir()
        place = Path(tempfile.mkdtemp(prefix="edgebed-", dir="/tmp"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def prepared_template(private: Path, order: dict[str, Any]) -> Iterator[None]:
    """A forkserver whose template prepares itself as ordered; it starts with the first fork and ends here."""
    (private / ORDER).write_text(json.dumps(order | {"launcher": os.getpid()}), encoding="utf-8")
    root = str(Path(__file__).parent.parent)
    paths = [root, *(path for path in sys.path if path and path != root)]
    settings = {ENVIRONMENT: str(private), "PYTHONPATH": os.pathsep.join(paths), **_ONE_THREAD}
    saved = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    multiprocessing.get_context("forkserver").set_forkserver_preload([_TEMPLATE])
    # the forkserver's own socket goes into the private folder too: whoever cleans that up gets both
    own_settings: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    own_settings["tempdir"] = str(private)
    try:
        forkserver.ensure_running()
        yield
    finally:
        del own_settings["tempdir"]
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        (private / ORDER).unlink(missing_ok=True)  # the template need not clean up after us
        # both would end by themselves a moment after us; waiting here means that nothing outlives the launcher
        with contextlib.suppress(FileNotFoundError):  # a template that was ended has removed its socket
            forkserver._forkserver._stop()  # type: ignore[attr-defined]
        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
