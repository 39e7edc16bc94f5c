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
    optimizer: str = param("sgd", "how a gradient changes the model", choices=("sgd", "adam", "adamw"))
    momentum: Share = param(0.0, "local momentum of sgd", at_least=0, below=1)
    beta_1: Share = param(0.9, "β₁ of adam and adamw", at_least=0, below=1)
    beta_2: Share = param(0.999, "β₂ of adam and adamw", at_least=0, below=1)
    epsilon: Factor = param(1e-8, "ε of adam and adamw", above=0, at_most=1e30)
    weight_decay: Factor = param(0.0, "weight decay; adamw: decoupled from the gradient", at_least=0, at_most=1e30)
    clip_gradient: Factor = param(
        0.0, "largest norm of a gradient; a longer one is scaled down. 0: no limit", at_least=0, at_most=1e30
    )
    optimizer_state: str = param(
        "reset",
        "momentum and moments: begin with 0 in each job, or stay on the device (docs/own-training.md)",
        choices=("reset", "kept"),
    )
    patience: Factor = param(
        120.0,
        "CPU seconds after which a step of a task's own training, or a whole job, is interrupted",
        above=0,
        at_most=1e9,
    )
    proximal: Factor = param(0.0, "μ of the proximal term (μ/2)·‖x − x_base‖²", at_least=0, at_most=1e30)
    whole: bool = param(
        False, "whether a job is computed as a whole, with one deadline at its end; always with some tasks"
    )

    def steps_over(self, samples: int) -> int:
        """Steps this job takes on a device that has ``samples`` samples, each with a deadline."""
        return 1 if self.whole else self.batches_over(samples)

    def batches_over(self, samples: int) -> int:
        """Batches of this job on a device that has ``samples`` samples: its steps, unless it is computed as a whole."""
        return self.epochs * self._batches_per_epoch(samples) if self.epochs else self.steps

    def samples_per_step(self, samples: int) -> int:
        """Samples of a step on a device that has ``samples`` samples; the last step of an epoch may have fewer."""
        if self.whole:
            return self._samples_after(self.batches_over(samples), samples)
        return self.samples_per_batch(samples)

    def samples_per_batch(self, samples: int) -> int:
        """Samples of a batch on a device that has ``samples`` samples; the last batch of an epoch may have fewer."""
        return max(1, min(self.batch or samples, samples))

    def largest_step(self, fleet: Iterable[int]) -> int:
        """Samples of the largest step in a fleet; ``fleet`` has the number of samples of each device."""
        return max(self.samples_per_step(samples) for samples in fleet)

    def lr_at(self, step: int, samples: int, number: int = 0) -> float:
        """Learning rate of a step (from 0) on a device that has ``samples`` samples, in its job ``number`` (from 0)."""
        lr = self.lr * self.lr_decay**number
        if self.lr_schedule == "constant":
            return lr
        epoch = step // self._batches_per_epoch(samples)
        return lr / math.sqrt(epoch + 1)

    def samples_after(self, steps: int, samples: int) -> int:
        """Samples seen in ``steps`` steps; the last batch of each epoch may be short."""
        return steps * self.samples_per_step(samples) if self.whole else self._samples_after(steps, samples)

    def _samples_after(self, batches: int, samples: int) -> int:
        epochs, rest = divmod(batches, self._batches_per_epoch(samples))
        return epochs * samples + min(rest * self.samples_per_batch(samples), samples)

    def _batches_per_epoch(self, samples: int) -> int:
        return -(-samples // self.samples_per_batch(samples))
