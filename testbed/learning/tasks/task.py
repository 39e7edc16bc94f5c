"""A task that is ready for training: a network over one flat vector, partitioned training data, test data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from testbed.learning.data.dataset import DataSet, Indices, Subset
from testbed.learning.models import flops
from testbed.learning.tasks.flat_vector import FlatModel
from testbed.wire.messages import Vector

_PIECE = 512
"""Samples that the network processes at once: the activations of a batch of 25,000 need too much memory."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Metrics = Callable[[torch.Tensor, torch.Tensor], Mapping[str, Any]]
"""Returns means by name: numbers, or tensors with one element."""


def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
    """Return the share of samples whose class has the highest score."""
    return {"accuracy": float((outputs.argmax(dim=1) == targets).float().mean())}


class Task:
    """Training for devices and scoring for the evaluator.

    ``loss`` and ``metrics`` return means over the samples that are passed; ``derived`` computes metrics such as
    perplexity from the means over all test samples.
    """

    def __init__(
        self,
        *,
        module: nn.Module,
        data: DataSet,
        shards: Sequence[Indices],
        test: Indices | None = None,
        loss: Loss = nn.functional.cross_entropy,
        metrics: Metrics = accuracy,
        derived: Callable[[Mapping[str, float]], Mapping[str, float]] = lambda means: {},
    ) -> None:
        """``test``: the test samples that are scored; None: all."""
        self.model = FlatModel(module)
        self.shards = list(shards)
        self._data = data
        self._test: Indices = np.arange(len(data.test), dtype=np.int64) if test is None else test
        self._loss, self._metrics, self._derived = loss, metrics, derived
        # one number for each channel
        shape = (1, -1, *(1,) * max(0, data.train.inputs[np.zeros(1, np.int64)].ndim - 2))
        self._mean, self._std = torch.tensor(data.mean).reshape(shape), torch.tensor(data.std).reshape(shape)
        self._initial = self.model.vector.numpy().copy()

    @property
    def size(self) -> int:
        """Number of parameters of the network."""
        return self._initial.size

    @property
    def training_samples(self) -> int:
        return len(self._data.train)

    @property
    def labels(self) -> list[tuple[int, ...]] | None:
        """Labels of each shard, in order; None if targets are values."""
        part = self._data.train
        if not part.has_classes:
            return None
        return [tuple(np.unique(part.labels[shard]).tolist()) for shard in self.shards]

    def initial(self) -> Vector:
        """Return a copy of the initial model."""
        return self._initial.copy()

    def gradient(self, samples: Indices) -> float:
        """Store the gradient of the mean loss over ``samples`` in ``model.gradient`` and return the loss."""
        self.model.gradient.zero_()
        total = 0.0
        for start in range(0, len(samples), _PIECE):
            piece = samples[start : start + _PIECE]
            inputs, targets = self._batch(self._data.train, piece)
            loss = self._loss(self.model.module(inputs), targets) * (len(piece) / len(samples))
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def evaluate(self, vector: Vector) -> dict[str, float]:
        """Return the loss and the other metrics of a model on the test data."""
        self.model.load(vector)
        self.model.module.eval()
        sums: dict[str, float] = {}
        with torch.inference_mode():
            for start in range(0, len(self._test), _PIECE):
                inputs, targets = self._batch(self._data.test, self._test[start : start + _PIECE])
                outputs = self.model.module(inputs)
                means = {**self._metrics(outputs, targets), "loss": self._loss(outputs, targets)}
                for name, mean in means.items():
                    sums[name] = sums.get(name, 0.0) + float(mean) * len(targets)
        self.model.module.train()
        found = {name: total / len(self._test) for name, total in sums.items()}
        return found | {name: float(value) for name, value in self._derived(found).items()}

    def flops(self) -> tuple[int, int]:
        """Return the FLOPs of one sample (a multiplication and an addition are two): forward, and training."""
        inputs, targets = self._batch(self._data.train, np.zeros(1, np.int64))
        return flops.per_sample(self.model.module, inputs, lambda outputs: self._loss(outputs, targets))

    def tensors(self, vector: Vector) -> dict[str, npt.NDArray[Any]]:
        """Return the vector as the named tensors of the network, for a file."""
        parts = np.split(vector, np.cumsum([shape.numel() for _, shape in self.model.names])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.model.names, parts, strict=True)}

    def _batch(self, part: Subset, samples: Indices) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy and convert only these samples: the rest stays in memory that all processes share."""
        inputs = torch.from_numpy(part.inputs[samples])
        if self._data.std:
            inputs = inputs.float().sub_(self._mean).div_(self._std)
        return _widened(inputs), _widened(torch.from_numpy(part.targets[samples]))


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """Convert to the types that networks and losses need: int64 for classes and characters, else float32."""
    return tensor.float() if tensor.is_floating_point() else tensor.long()
