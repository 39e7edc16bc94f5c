"""``python -m tests.chaos``: a run with kills, freezes, outages and garbage; ``… fuzz``: invalid frames to all readers;
``… sockets``: hostile TCP connections.

Prints what was measured and its bound; exit code 1 if a bound is exceeded. ``--write`` writes it into a document,
between two marks.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def main(words: list[str]) -> int:
    os.environ.update(ONE_THREAD)  # before numpy is imported
    from tests.chaos import fuzz, showing
    from tests.chaos.plan import Settings

    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "fuzz", "sockets"), default="run")
    parser.add_argument("--seconds", type=float, default=Settings.seconds, help="longest time of the run")
    parser.add_argument("--devices", type=int, default=Settings.devices)
    parser.add_argument("--updates", type=int, default=Settings.updates, help="updates after which the run ends")
    parser.add_argument("--connections", type=int, default=10_000, help="hostile connections of sockets, to each run")
    parser.add_argument("--frames", type=int, default=200_000, help="frames of fuzz, over all targets")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--write", type=Path, metavar="FILE", help="document with marks for the table")
    choice = parser.parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):  # so that a signal ends the run first
        signal.signal(number, signal.default_int_handler)
    command = " ".join(["python -m tests.chaos", *words])
    try:
        if choice.what == "fuzz":
            found = fuzz.lines(fuzz.all_targets(choice.frames, choice.seed, showing.Progress()))
        elif choice.what == "sockets":
            found = showing.sockets(choice.connections, showing.Progress())
        else:
            settings = Settings(
                seconds=choice.seconds, devices=choice.devices, updates=choice.updates, seed=choice.seed
            )
            found = showing.chaos(settings, showing.Progress())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    showing.show(found, command)
    if choice.write is not None:
        showing.write(choice.write, choice.what, found, command)
    return 0 if all(line.holds is not False for line in found) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
