"""Edgebed: a multiprocess edge testbed emulator for federated learning. The map of its rooms (docs/architecture.md):

Foundation, which ``devices`` and ``aggregator`` import: ``common`` (tools), ``wire`` (messages, sockets), ``host``
(cores, kernel, survey), ``traces`` (recorded links and availability), ``profile`` (schema, fleet), ``emulation``
(faults), ``history`` (the trace of a run), ``learning`` (data, splits, models, tasks).

Application, which may import ``devices`` and ``aggregator``: ``loading`` (profile files), ``planning`` (admission),
``processes`` (launcher, template), ``doctor``, ``analysis``, ``fidelity``, ``replay``, ``runs`` (run folders),
``trace_tools``, ``report``, ``partition``, ``comparison``, ``sweeps``, ``theory``, ``papers`` and ``cli``.
"""

from testbed.common.version import __version__

__all__ = ["__version__"]
