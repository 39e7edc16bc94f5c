"""``make bench``: print measurements beside their aims. Exit code 1 if an aim was missed.

``python -m tests.benchmarks startup race`` runs only these two; ``--help`` lists the options.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
BENCHMARKS = (
    "startup",
    "race",
    "capacity",
    "throughput",
    "jobs",
    "links",
    "quotas",
    "control",
    "replay",
    "wire",
    "strategies",
    "memory",
    "population",
    "traces",
    "results",
    "report",
    "central",
    "flower",
)
"""In this order. Each is a module here with ``measure(options)``, and ``TURNS`` if it repeats its measurements."""
_MODULES = {"report": "reporting"}


def main(words: list[str]) -> int:
    from tests.benchmarks.options import command_line, options, parser

    given = parser(BENCHMARKS).parse_args(words)
    wrong = [name for name in given.names if name not in BENCHMARKS]
    if wrong:
        print(f"error: no benchmark {wrong[0]!r}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    os.environ.update(ONE_THREAD)  # before numpy is imported; the launcher does the same for its processes
    from tests.benchmarks.session import Session

    session = Session(options(given), command=command_line(words), keep=not given.no_history)
    try:
        for name in given.names or BENCHMARKS:
            session.run(name, import_module(f"tests.benchmarks.{_MODULES.get(name, name)}"))
    except KeyboardInterrupt:
        session.close()
        return 130
    session.close()
    return 1 if session.missed or session.failed else 0


if __name__ == "__main__":
    # imports are in main: forked processes import this file again
    raise SystemExit(main(sys.argv[1:]))
