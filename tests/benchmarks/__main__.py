"""``make bench``: print measurements beside their targets. Exit code 1 if a target was missed.

``python -m tests.benchmarks startup race`` runs only these two.
"""

from __future__ import annotations

import os
import sys
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def main(names: list[str]) -> int:
    os.environ.update(ONE_THREAD)  # before numpy is imported; the launcher does the same for its processes
    from tests.benchmarks import (
        central,
        control,
        jobs,
        links,
        memory,
        quotas,
        race,
        replay,
        reporting,
        startup,
        strategies,
        throughput,
        traces,
        wire,
    )
    from tests.benchmarks.report import show

    known: dict[str, Any] = {
        "jobs": jobs,
        "links": links,
        "quotas": quotas,
        "control": control,
        "startup": startup,
        "wire": wire,
        "throughput": throughput,
        "race": race,
        "strategies": strategies,
        "memory": memory,
        "traces": traces,
        "replay": replay,
        "report": reporting,
        "central": central,
    }
    wrong = [name for name in names if name not in known]
    if wrong:
        print(f"error: no benchmark {wrong[0]!r}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    reached = [show((known[name].__doc__ or name).splitlines()[0], known[name].measure()) for name in names or known]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    # imports are in main: forked processes import this file again
    raise SystemExit(main(sys.argv[1:]))
