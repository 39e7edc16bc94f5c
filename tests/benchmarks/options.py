"""The options of ``python -m tests.benchmarks``: which rows, and how often they are repeated."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SIZES = ("small", "large")
MODES = ("sync", "async")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Without arguments: all rows, with the usual repetitions."""

    quick: bool = False
    turns: int | None = None
    devices: tuple[int, ...] = ()
    sizes: tuple[str, ...] = SIZES
    modes: tuple[str, ...] = MODES
    fedlab: bool = True
    checkout: Path | None = None

    def repeats(self, usual: int) -> int:
        return self.turns or (1 if self.quick else usual)

    def seconds(self, usual: float, quick: float) -> float:
        """How long something is measured."""
        return quick if self.quick else usual

    def chosen(self, devices: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of fleets that --devices keeps, of those that a benchmark has."""
        return tuple(each for each in devices if not self.devices or each in self.devices)

    def reduces(self, usual: int) -> bool:
        """Whether figures are quick: fewer repetitions, or shorter."""
        return self.quick or self.repeats(usual) < usual


def parser(known: tuple[str, ...]) -> argparse.ArgumentParser:
    """``known`` are the names of the benchmarks."""
    made = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure, print each figure beside its aim and the last committed one, and append it to the"
        " history. Exit codes: 0 all aims reached, 1 one was missed, 2 wrong input, 130 Ctrl-C (what was measured is"
        " kept).",
    )
    made.add_argument("names", nargs="*", metavar="NAME", help=f"default: all. Known: {', '.join(known)}")
    made.add_argument("--quick", action="store_true", help="one repetition, and shorter where a benchmark allows it")
    made.add_argument("--turns", type=_positive, metavar="N", help="repetitions of each row")
    made.add_argument("--devices", type=_numbers, default=(), metavar="N,…", help="only these fleets (race, startup)")
    made.add_argument("--size", choices=SIZES, help="only this network (race): 21,840 or 663,226 parameters")
    made.add_argument("--mode", choices=MODES, help="only FedAvg (sync) or only FedAsync (async) (race)")
    made.add_argument("--no-fedlab", action="store_true", help="race without FedLab")
    made.add_argument("--checkout", type=_checkout, metavar="DIR", help="run another checkout's code (capacity)")
    made.add_argument("--no-history", action="store_true", help="a trial: do not append to the history")
    return made


def options(given: argparse.Namespace) -> Options:
    return Options(
        quick=given.quick,
        turns=given.turns,
        devices=given.devices,
        sizes=(given.size,) if given.size else SIZES,
        modes=(given.mode,) if given.mode else MODES,
        fedlab=not given.no_fedlab,
        checkout=given.checkout,
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return number


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_positive(each) for each in text.split(","))


def _checkout(text: str) -> Path:
    folder = Path(text).resolve()
    if not (folder / "run_testbed.py").is_file():
        raise argparse.ArgumentTypeError(f"{text} has no run_testbed.py; give the folder of a checkout")
    return folder


def command_line(words: Sequence[str]) -> str:
    """The command for the history, without the folder of another checkout: it means nothing on other machines."""
    return re.sub(r"--checkout[= ]\S+", "--checkout DIR", " ".join(["python -m tests.benchmarks", *words]))
