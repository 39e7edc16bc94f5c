"""Runs on a virtual clock, as the commands do them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
from rich.console import Console

from testbed.execution.execution import Execution, execute
from testbed.execution.outcome import Outcome
from testbed.history import trace
from testbed.loading import profile_loader
from testbed.profile.schema import Experiment
from testbed.runs.run_folder import RunFolder
from tests.testbed.examples import write_profile

DEVICE: dict[str, Any] = {"name": "d", "profile": {"seconds_per_sample": 0.01}, "link": {}}
LINK: dict[str, Any] = {"up": {"delay": 0.05}, "down": {"delay": 0.03}}
MIXED = [
    DEVICE | {"profile": {"seconds_per_sample": 0.05}, "link": LINK, "count": 4},
    DEVICE | {"name": "slow", "profile": {"seconds_per_sample": 0.11}, "link": LINK, "count": 4},
]
"""Eight devices of two speeds."""


def experiment_of(place: Path, **changes: Any) -> Experiment:
    """A small experiment on a virtual clock. ``changes``: keys of the profile at the top level."""
    table = {
        "name": "unit",
        "seed": 3,
        "strategy": "fedasync",
        "clock": "virtual",
        "task": {"name": "digits", "model": "small-mlp"},
        "training": {"steps": 2, "batch": 16, "lr": 0.1},
        "devices": [DEVICE | {"link": LINK, "count": 3}],
        "stop": {"seconds": 5.0},
    } | changes
    return profile_loader.load(write_profile(place, tomli_w.dumps(table)))


def run_virtually(place: Path, jobs: int = 1, out: str = "runs", **changes: Any) -> Outcome:
    """Compute such an experiment, and return how it ended. Its folder is in ``place / out``."""
    experiment = experiment_of(place, **changes)
    folders: list[RunFolder] = []

    def opened() -> RunFolder:
        (place / out / "unit" / "logs").mkdir(parents=True)
        folders.append(RunFolder(place / out / "unit"))
        return folders[0]

    return execute(
        Execution(
            experiment=experiment,
            source=None,
            open_folder=opened,
            console=Console(quiet=True),
            quiet=True,
            report=False,
            jobs=jobs,
        )
    )


def events_of(outcome: Outcome) -> list[trace.Event]:
    """The trace of a run."""
    return list(trace.read(outcome.folder / "trace.jsonl"))
