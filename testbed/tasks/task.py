"""A task that is ready to train: a network over one flat vector, its training data dealt to devices, its test data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from testbed.messages import Vector

Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
_EVALUATION_BATCH = 512


class FlatModel:
    """A network whose parameters and gradients are views into two flat tensors.

    Loading a model, stepping and taking a delta are then one vector operation each, whatever the network.
    """

    def __init__(self, module: nn.Module) -> None:
        if next(module.buffers(), None) is not None:
            raise ValueError("networks with buffers (batch norm) are not supported: use group norm, or fold them")
        self.module = module
        self.names: list[tuple[str, torch.Size]] = [(name, p.shape) for name, p in module.named_parameters()]
        size = sum(p.numel() for p in module.parameters())
        self.vector = torch.empty(size)
        self.gradient = torch.zeros(size)
        start = 0
        for parameter in module.parameters():
            end = start + parameter.numel()
            view = self.vector[start:end].view_as(parameter)
            view.copy_(parameter.data)
            parameter.data = view
            parameter.grad = self.gradient[start:end].view_as(parameter)
            start = end

    def load(self, vector: Vector) -> None:
        # received vectors are read-only buffers, which from_numpy warns about; as a source of copy_ that is fine
        np.copyto(self.vector.numpy(), vector)


class Task:
    """What a device trains on and the evaluator scores with."""

    def __init__(self, *, module: nn.Module, train: Arrays, test: Arrays, shards: Sequence[npt.NDArray[np.int64]]):
        self.model = FlatModel(module)
        self.shards = list(shards)
        self._inputs, self._labels = torch.from_numpy(train[0]), torch.from_numpy(train[1])
        self._test_inputs, self._test_labels = torch.from_numpy(test[0]), torch.from_numpy(test[1])
        self._initial = self.model.vector.numpy().copy()

    @property
    def size(self) -> int:
        """Numbers in a model."""
        return self._initial.size

    @property
    def training_samples(self) -> int:
        return len(self._labels)

    def initial(self) -> Vector:
        return self._initial.copy()

    def gradient(self, samples: npt.NDArray[np.int64]) -> float:
        """Put the gradient of the mean loss over ``samples`` into ``model.gradient``; gives the loss."""
        chosen = torch.from_numpy(samples)
        self.model.gradient.zero_()
        loss = nn.functional.cross_entropy(self.model.module(self._inputs[chosen]), self._labels[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def evaluate(self, vector: Vector) -> dict[str, float]:
        """Accuracy and loss on the test data."""
        self.model.load(vector)
        self.model.module.eval()
        total, right = 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(self._test_labels), _EVALUATION_BATCH):
                inputs = self._test_inputs[start : start + _EVALUATION_BATCH]
                labels = self._test_labels[start : start + _EVALUATION_BATCH]
                scores = self.model.module(inputs)
                total += float(nn.functional.cross_entropy(scores, labels, reduction="sum"))
                right += int((scores.argmax(dim=1) == labels).sum())
        self.model.module.train()
        count = len(self._test_labels)
        return {"accuracy": right / count, "loss": total / count}

    def flops(self) -> tuple[int, int]:
        """FLOPs of one sample as torch counts them (a multiplication and an addition are two): forward, and training.

        Only for a process that ends soon: the first use imports ``torch._dynamo``, which takes seconds and threads.
        """
        from torch.utils.flop_counter import FlopCounterMode

        counts = []
        for train in (False, True):
            with FlopCounterMode(display=False) as counter:
                loss = nn.functional.cross_entropy(self.model.module(self._inputs[:1]), self._labels[:1])
                if train:
                    loss.backward()  # type: ignore[no-untyped-call]
            counts.append(int(counter.get_total_flops()))
        return counts[0], counts[1]

    def tensors(self, vector: Vector) -> dict[str, npt.NDArray[Any]]:
        """The vector as the network's named tensors, for a checkpoint."""
        parts = np.split(vector, np.cumsum([shape.numel() for _, shape in self.model.names])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.model.names, parts, strict=True)}
