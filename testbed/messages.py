"""What processes say to each other. One type per message, used on the device, on the wire and in the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.parameters import param

Vector: TypeAlias = npt.NDArray[np.float32]
"""A model, a delta or a gradient: one flat float32 array."""

EVALUATOR = "evaluator"
"""The name under which the evaluator process connects. No device has it: theirs end in a number."""


STOPPED = "stopped"
"""State in the last heartbeat of a process, its answer to Stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Local training as a device is told to do it. Travels with each dispatch, so a rule may change it."""

    steps: int = param(10, "local SGD steps per job (ignored if epochs is set)", at_least=1)
    epochs: int = param(0, "local epochs per job; 0 means: use steps", at_least=0)
    batch: int = param(32, "samples per step", at_least=1)
    lr: float = param(0.05, "local learning rate", above=0)
    momentum: float = param(0.0, "local momentum", at_least=0, below=1)
    proximal: float = param(0.0, "μ of the proximal term (μ/2)·‖x − x_base‖²", at_least=0)

    def steps_over(self, samples: int) -> int:
        """Steps this job takes on a device that has ``samples`` samples."""
        if self.epochs == 0:
            return self.steps
        return self.epochs * -(-samples // max(1, min(self.batch, samples)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Device → aggregator, once: who I am, and what I read back of my own limits."""

    device: str
    pid: int
    cores: tuple[int, ...]
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Aggregator → device: the run begins; ``origin`` is time zero on CLOCK_MONOTONIC."""

    origin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """Aggregator → device: train this model like that. A new ticket replaces whatever you do."""

    ticket: int
    version: int
    job: Job
    model: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Device → aggregator: the result of one job. ``delta`` = local model − model of ``version``."""

    device: str
    ticket: int
    version: int
    delta: Vector
    samples: int
    steps: int
    started: float
    finished: float
    loss: float | None
    """Mean over the steps; None if it is not finite, which a diverging device may well report."""
    events: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Device → aggregator, about once a second: alive, and how far.

    ``trains`` counts the Train messages that reached the device, ``ticket`` is the job it holds (0: none) and
    ``finished`` the last job whose training ended. From these three the engine tells a lost download (send again)
    from an upload that was given up (count as lost) without guessing at delays.
    """

    device: str
    state: str
    ticket: int = 0
    finished: int = 0
    trains: int = 0
    progress: float = 0.0
    drops: int = 0
    events: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Aggregator → evaluator: score this version, which came to be at ``made``."""

    version: int
    made: float
    model: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Evaluator → aggregator: what the version is worth on the test data."""

    version: int
    made: float
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Aggregator → any peer: your last message was not taken, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Aggregator → everyone: the run is over."""

    reason: str


Message: TypeAlias = Hello | Welcome | Train | Update | Beat | Snapshot | Score | Refused | Stop
