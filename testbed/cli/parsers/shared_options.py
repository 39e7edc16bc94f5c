"""Options that several commands declare."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeAlias

from testbed.learning.data import folders

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
AS_WRITTEN = argparse.RawDescriptionHelpFormatter
"""Keeps the line breaks of a description."""


# ---- groups: which experiment (run, plan, data), how it is executed (run, resume), what is compared (compare, sweep)


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    add_profile(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="overrides the profile's seed")
    parser.add_argument("--seconds", type=float, metavar="S", help="overrides stop.seconds")
    parser.add_argument("--strategy", metavar="NAME", help="another strategy, with its default parameters")
    parser.add_argument(
        "--dilation",
        type=number_or_word,
        metavar="K|auto",
        help="host seconds per emulated second: above 1 for a host that is too small, below 1 to finish earlier; auto:"
        " 1, or the smallest that this host can keep",
    )
    parser.add_argument("--replay", metavar="RUN", help="repeat the delays, drops and suspensions of a recorded run")
    parser.add_argument(
        "--replay-mode",
        choices=("schedule", "strict"),
        help="schedule: any strategy; strict: the recorded strategy, in the recorded order of arrivals",
    )
    add_clock(parser)
    add_overrides(parser, "override any key of the profile, e.g. training.lr=0.1; may be repeated")
    add_data_dir(parser)


def add_execution_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-admission",
        action="store_true",
        help="run even if this host is too small; the certificate shows how exact the timing was",
    )
    add_survey(parser)
    parser.add_argument(
        "--no-report", action="store_true", help="do not write report.html; the command report can write it later"
    )
    parser.add_argument("--quiet", action="store_true", help="no live view; only errors, and the run folder at the end")
    add_format(parser, "json: print summary.json to standard output, everything else to standard error")


def add_metric(parser: argparse.ArgumentParser) -> None:
    """What runs are compared by."""
    parser.add_argument(
        "--metric", metavar="NAME", help="what runs are compared by (default: accuracy, or loss where there is none)"
    )
    parser.add_argument(
        "--lower",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="lower values of the metric are better (default: for loss, error, mse, mae and perplexity)",
    )


# ---- single options


def add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "profile", type=Path, metavar="PROFILE.toml", help="the experiment, or the name of a shipped one"
    )


def add_clock(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clock",
        choices=("wall", "virtual"),
        help="wall (default): real processes, in real time; virtual: the same run computed as fast as possible, without"
        " processes, links or measurements",
    )
    parser.add_argument(
        "--compute",
        choices=("train", "none"),
        help="on a virtual clock: none computes timing, staleness, energy and bytes, and trains nothing",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        default=0,
        metavar="N",
        help="on a virtual clock: processes that train (default: one on each core); results do not depend on it",
    )


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=meaning)


def add_format(parser: argparse.ArgumentParser, meaning: str = "output format", *more: str) -> None:
    """Add --format; ``more``: formats besides text and JSON."""
    parser.add_argument("--format", choices=("text", "json", *more), default="text", help=meaning)


def add_survey(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--survey",
        choices=("new", "remembered"),
        help="how long a step takes here: new measures it; remembered (default) uses what was measured for this task"
        " within the last hour, if a few steps confirm it",
    )


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help=folders.HELP)


def at_least_one(text: str) -> int:
    """Return a whole number from 1 on. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; give 1 or more")
    return int(text)


def number_or_word(text: str) -> float | str:
    """Return a number if ``text`` is one; the checks of the profile decide which words are allowed."""
    try:
        return float(text)
    except ValueError:
        return text
