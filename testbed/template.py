"""The process that all others are forked from: everything imported, data loaded, one full training step done.

The launcher names this module to the standard library's forkserver as its preload, and says what to prepare in a
file that the environment points at — the only channel a preload has. A fork then costs milliseconds and a few
megabytes, where a fresh interpreter would repeat seconds of imports. ``devices`` and ``aggregator`` are imported by
name: this package does not depend on them.

Rules of this process: one thread, ever (a forked thread pool hangs), and no ZeroMQ context. What goes wrong here is
kept for the first child to report, because the forkserver swallows an ImportError.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import shutil
import signal
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed import plugins
from testbed.cores import die_with_parent
from testbed.errors import UserError
from testbed.messages import Job
from testbed.parameters import build

if TYPE_CHECKING:
    from testbed.tasks.task import Task

ENVIRONMENT = "EDGEBED_TEMPLATE"
ORDER = "template.json"
READY = "template.ready"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""What ends a run is the launcher's business."""
_LAUNCHER_DIED = signal.SIGUSR1
ROLES = ("devices.process", "aggregator.process", "testbed.evaluate")

_CLEAN_UP_ATTEMPTS = 100
"""The aggregator lives a moment longer than the launcher, and may write its status into a folder being removed."""

PID = os.getpid()
TASK: Task | None = None
FAILURE: dict[str, str] | None = None
"""Set if the template could not be made: ``problem`` for the user, ``details`` for the log."""


def _prepare(order: dict[str, Any]) -> Task:
    for role in ROLES:
        importlib.import_module(role)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(order["seed"])  # a task that builds its network without a thought of seeds has one
    cls = plugins.find(str(order["task"]), "testbed.tasks", str(order["source"]), "task.name")
    task: Task = build(cls, order["parameters"], str(order["source"]), "task").open(order["devices"], order["seed"])
    # torch imports and allocates lazily: one full step here is one full step less in every device
    sgd = importlib.import_module("devices.training").local_sgd
    job = Job(steps=1, batch=32, momentum=0.5, proximal=0.1)
    for _ in sgd(task, task.shards[0], job, task.initial(), np.random.default_rng(0)):
        pass
    task.evaluate(task.initial())
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the template has {threads} threads; only a single-threaded process can be forked safely")
    return task


def _clean_up(folder: Path) -> None:
    """If the launcher has died it could not clean up: its sockets must not stay behind.

    Its pid tells nothing: a launcher with several threads is still our parent when its first thread has died and its
    files are closed. What tells is the order, which a launcher that cleans up itself withdraws first.
    """
    if os.getpid() != PID:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {_LAUNCHER_DIED})  # or the second news of a death would cut this short
    if (folder / ORDER).exists():
        for _ in range(_CLEAN_UP_ATTEMPTS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                return


def _main(folder: Path) -> None:
    global TASK, FAILURE
    for number in STOP_SIGNALS:  # a terminal or a batch system sends them to the whole group; children inherit this
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    order = json.loads((folder / ORDER).read_text(encoding="utf-8"))
    launcher: int = order["launcher"]

    def end(*_: object) -> None:
        _clean_up(folder)
        os._exit(1)

    signal.signal(_LAUNCHER_DIED, end)
    atexit.register(_clean_up, folder)
    if os.getppid() != launcher:
        _clean_up(folder)  # it died while this interpreter started
    die_with_parent(launcher, _LAUNCHER_DIED)
    try:
        TASK = _prepare(order)
    except UserError as error:
        FAILURE = {"problem": str(error), "details": ""}
    except Exception as error:  # noqa: BLE001  kept for the first child: nobody else could tell the user
        FAILURE = {"problem": f"{type(error).__name__}: {error}", "details": traceback.format_exc()}
    gc.collect()
    gc.freeze()  # what is shared now stays shared: no later collection touches its pages
    (folder / READY).touch()


if ENVIRONMENT in os.environ:
    _main(Path(os.environ[ENVIRONMENT]))
