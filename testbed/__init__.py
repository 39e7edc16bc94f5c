"""Edgebed: a multiprocess edge testbed emulator for asynchronous federated learning.

In notebooks and scripts: ``from testbed import run, plan, sweep, compare, Run``; the exceptions are in
``testbed.errors``. The command line is ``run_testbed.py``. The rooms of this package (docs/architecture.md):

Foundation, which ``devices`` and ``aggregator`` import: ``common`` (tools), ``wire`` (messages, sockets), ``host``
(cores, kernel, survey), ``traces`` (recorded links and availability), ``profile`` (schema, fleet), ``emulation``
(faults), ``history`` (the trace of a run), ``learning`` (data, splits, models, tasks).

Application, which may import ``devices`` and ``aggregator``: ``loading`` (profile files), ``planning`` (admission),
``processes`` (launcher, template), ``doctor``, ``analysis``, ``fidelity``, ``replay``, ``runs`` (run folders),
``verification``, ``trace_tools``, ``report``, ``partition``, ``comparison``, ``sweeps``, ``theory``, ``papers``,
``execution`` (one run from profile to report), ``cli`` and ``api``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.common.version import __version__

if TYPE_CHECKING:
    from testbed.api.comparing import compare
    from testbed.api.run import Run
    from testbed.api.running import plan, run
    from testbed.api.sweeping import sweep

__all__ = ["Run", "__version__", "compare", "plan", "run", "sweep"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import the API when it is first used: every process of a run imports this package, and needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from testbed.api import comparing, run, running, sweeping

    public = {
        "Run": run.Run,
        "run": running.run,
        "plan": running.plan,
        "sweep": sweeping.sweep,
        "compare": comparing.compare,
    }
    globals().update(public)
    return public[name]
