"""A job: what a device is asked to train, and how many steps and samples that is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from testbed.common.fields import Count, Epochs, Factor, PositiveInt, Share
from testbed.common.parameters import param


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The settings of local training. They travel with each dispatch, so a strategy may change them."""

    steps: PositiveInt = param(10, "local SGD steps per job (ignored if epochs is set)", at_least=1, below=1 << 31)
    epochs: Epochs = param(0, "local epochs per job; 0 means: use steps", at_least=0, below=1 << 22)
    batch: Count = param(32, "samples per step; 0 means: all samples of the device", at_least=0, below=1 << 31)
    lr: Factor = param(0.05, "local learning rate", above=0, at_most=1e30)
    lr_schedule: str = param(
        "constant",
        "learning rate within a job: constant, or lr/√(e + 1) in local epoch e (from 0)",
        choices=("constant", "inverse-sqrt"),
    )
    lr_decay: Share = param(
        1.0, "learning rate from job to job: lr·lr_decay^n in the device's job n (from 0)", above=0, at_most=1
    )
    """AsyncFedED has a "decay rate" of 0.995 and does not say per what; here it is per job, as elsewhere per round.
    Strategies whose equations contain the local learning rate η use ``lr``: with a decay, their gradients −Δ/η decay as
    Δ does."""
    momentum: Share = param(0.0, "local momentum", at_least=0, below=1)
    proximal: Factor = param(0.0, "μ of the proximal term (μ/2)·‖x − x_base‖²", at_least=0, at_most=1e30)

    def steps_over(self, samples: int) -> int:
        """Steps this job takes on a device that has ``samples`` samples."""
        if self.epochs == 0:
            return self.steps
        return self.epochs * self._steps_per_epoch(samples)

    def samples_per_step(self, samples: int) -> int:
        """Samples of a step on a device that has ``samples`` samples; the last step of an epoch may have fewer."""
        return max(1, min(self.batch or samples, samples))

    def largest_step(self, fleet: Iterable[int]) -> int:
        """Samples of the largest step in a fleet; ``fleet`` has the number of samples of each device."""
        return max(self.samples_per_step(samples) for samples in fleet)

    def lr_at(self, step: int, samples: int, number: int = 0) -> float:
        """Learning rate of a step (from 0) on a device that has ``samples`` samples, in its job ``number`` (from 0)."""
        lr = self.lr * self.lr_decay**number
        if self.lr_schedule == "constant":
            return lr
        epoch = step // self._steps_per_epoch(samples)
        return lr / math.sqrt(epoch + 1)

    def samples_after(self, steps: int, samples: int) -> int:
        """Samples seen in ``steps`` steps; the last batch of each epoch may be short."""
        epochs, rest = divmod(steps, self._steps_per_epoch(samples))
        return epochs * samples + min(rest * self.samples_per_step(samples), samples)

    def _steps_per_epoch(self, samples: int) -> int:
        return -(-samples // self.samples_per_step(samples))
