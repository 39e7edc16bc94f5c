"""Calls code of a Flower project: always in its folder, with seeded generators, and with the guards around it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.learning.flower.no_network import refused_connections
from testbed.learning.training.own_training import guarded, seed_generators


def seeded(seed: int, compute: Callable[[], Any], folder: Path, patience: float) -> Any:
    """Compute with seeded generators, in a project's folder, without threads, processes and network."""
    seed_generators(seed)
    with contextlib.chdir(folder), refused_connections():
        return guarded(compute, patience)
