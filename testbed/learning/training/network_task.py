"""A task with a network over one flat vector, partitioned training data and test data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from testbed.common.errors import UserError
from testbed.learning.data.dataset import DataSet, Indices, Subset
from testbed.learning.models import flops
from testbed.learning.training.flat_vector import FlatModel
from testbed.learning.training.local_job import LocalJob
from testbed.learning.training.own_training import OwnTraining, OwnTrainingError, checked_steps, function_place
from testbed.learning.training.task import Task, VectorJob
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

_PIECE = 512
"""Samples that the network processes at once: the activations of a batch of 25,000 need too much memory. With batch
normalisation, each piece has statistics of its own."""

_BUFFERS = "buffers of the network"
"""The name of a device's own buffers in its memory. Training of the user's own does not see them there."""
_ALONE = "Expected more than 1 value per channel when training"
"""What torch says if a layer of batch normalisation gets a single value of each channel."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Metrics = Callable[[torch.Tensor, torch.Tensor], Mapping[str, Any]]
"""Returns means by name: numbers, or tensors with one element."""


def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
    """Return the share of samples whose class has the highest score."""
    return {"accuracy": float((outputs.argmax(dim=1) == targets).float().mean())}


class NetworkTask(Task):
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
        own: OwnTraining | None = None,
        local_buffers: bool = False,
    ) -> None:
        """``test``: the test samples that are scored; None: all. ``own``: local training of the user's own.

        ``local_buffers``: whether each device keeps the statistics of batch normalisation (FlatModel).
        Raises UserError if the network cannot be trained here.
        """
        self.model = FlatModel(module, local_buffers=local_buffers)
        self._local_buffers = local_buffers
        self._normalising = [
            layer
            for layer in self.model.layers_in_training
            if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.running_mean is not None
        ]
        """Layers that store statistics while they train."""
        self._own, self.trains_itself = own, own is not None
        self.place = function_place(own) if own is not None else ""
        self.shards = list(shards)
        self._data = data
        self._test: Indices = np.arange(len(data.test), dtype=np.int64) if test is None else test
        self._loss, self._metrics, self._derived = loss, metrics, derived
        # one number for each channel
        shape = (1, -1, *(1,) * max(0, data.train.inputs[np.zeros(1, np.int64)].ndim - 2))
        self._mean, self._std = torch.tensor(data.mean).reshape(shape), torch.tensor(data.std).reshape(shape)
        self._initial = self.model.vector.numpy().copy()
        self.least_batch = self._least_batch()

    @property
    def size(self) -> int:
        return self._initial.size

    @property
    def training_samples(self) -> int:
        return len(self._data.train)

    @property
    def labels(self) -> list[tuple[int, ...]] | None:
        part = self._data.train
        if not part.has_classes:
            return None
        return [tuple(np.unique(part.labels[shard]).tolist()) for shard in self.shards]

    def initial(self) -> Vector:
        return self._initial.copy()

    def gradient(self, samples: Indices) -> float:
        """Store the gradient of the mean loss over ``samples`` in ``model.gradient`` and return the loss."""
        self.model.gradient.zero_()
        total = 0.0
        for piece in _pieces(samples):
            inputs, targets = self._batch(self._data.train, piece)
            loss = self._loss(self.model.module(inputs), targets) * (len(piece) / len(samples))
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def train(self, job: VectorJob) -> Generator[float, None, Vector]:
        assert self._own is not None
        self.load(job)
        job.memory.pop(_BUFFERS, None)
        local = LocalJob(
            network=self.model.module,
            job=job.job,
            device=job.device,
            number=job.number,
            samples=job.samples,
            rng=job.rng,
            memory=job.memory,
            least_batch=self.least_batch,
            loss=self._loss,
            batch=lambda samples: self._batch(self._data.train, samples),
        )
        yield from checked_steps(self._own, local)
        try:
            return self.trained(job)
        except ValueError as error:
            raise OwnTrainingError(f"{self.place}: {error}") from None

    def load(self, job: VectorJob) -> None:
        """Give the network the model of a job, and the buffers that its device has kept."""
        self.model.load(job.base, job.memory.get(_BUFFERS))

    def trained(self, job: VectorJob) -> Vector:
        """Return the model after a job, and let its device keep its buffers."""
        self.model.gather()
        if kept := self.model.kept():
            job.memory[_BUFFERS] = kept
        return self.model.vector.numpy()

    def check(self, job: Job) -> None:
        if self.least_batch == 1:
            return
        why = "batch normalisation needs two samples in a batch"
        alone = [device for device, shard in enumerate(self.shards) if len(shard) == 1]
        if alone:
            few = f"device {alone[0] + 1} of the fleet has" if len(alone) == 1 else f"{len(alone)} devices have"
            remedy = "use fewer devices or another split (least = 2 in task.split), or a network without it"
            raise UserError(f"{few} one training sample, and {why}; {remedy}")
        if job.batch == 1:
            raise UserError(f"training.batch is 1, and {why}; set it higher, or use a network without it")
        if self._normalises_by_test_samples and len(self._test) == 1:
            raise UserError(f"there is one test sample, and with task.buffers = 'local', {why}; use more")

    def evaluate(self, vector: Vector) -> dict[str, float]:
        self.model.load(vector)
        self.model.module.eval()
        test = self._test
        if self._normalises_by_test_samples:
            test = np.random.default_rng(0).permutation(test)  # sorted by class, they would have other statistics
        sums: dict[str, float] = {}
        with torch.inference_mode(), self._statistics_of_samples():
            for samples in _pieces(test):
                inputs, targets = self._batch(self._data.test, samples)
                outputs = self.model.module(inputs)
                means = {**self._metrics(outputs, targets), "loss": self._loss(outputs, targets)}
                for name, mean in means.items():
                    sums[name] = sums.get(name, 0.0) + float(mean) * len(targets)
        self.model.restore_modes()
        found = {name: total / len(self._test) for name, total in sums.items()}
        return found | {name: float(value) for name, value in self._derived(found).items()}

    @property
    def _normalises_by_test_samples(self) -> bool:
        return self._local_buffers and bool(self._normalising)

    @contextlib.contextmanager
    def _statistics_of_samples(self) -> Iterator[None]:
        """With local buffers, normalise by the statistics of the test samples: the global model has none.

        So does SiloBN with data of a centre that has not trained (Andreux et al., arXiv:2008.07424, there AdaBN). A
        device would use its own statistics, on test data of its own, which this testbed does not have. The statistics
        are those of up to 513 samples at a time, in a random order that is always the same.
        """
        layers = [(layer, layer.momentum) for layer in self._normalising if self._local_buffers]
        for layer, _ in layers:
            layer.train()
            layer.momentum = 0.0  # leaves the stored statistics as they are
        yield
        for layer, momentum in layers:
            layer.momentum = momentum

    def _least_batch(self) -> int:
        """Return the number of samples that a batch needs: two, if batch normalisation fails with one of them."""
        if not any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in self.model.layers_in_training):
            return 1
        inputs, _ = self._batch(self._data.train, np.zeros(1, np.int64))
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                self.model.module(inputs)
        except Exception as error:  # noqa: BLE001  any other one is reported where the network is trained
            return 2 if _ALONE in str(error) else 1
        finally:
            self.model.load(self._initial)
        return 1

    def flops(self) -> tuple[int, int]:
        inputs, targets = self._batch(self._data.train, np.zeros(1, np.int64))
        if self.least_batch > 1:  # stored statistics cost the same, and suffice for one sample
            self.model.module.eval()
        counted = flops.per_sample(self.model.module, inputs, lambda outputs: self._loss(outputs, targets))
        self.model.restore_modes()
        return counted

    def tensors(self, vector: Vector) -> dict[str, npt.NDArray[Any]]:
        parts = np.split(vector, np.cumsum([shape.numel() for _, shape in self.model.names])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.model.names, parts, strict=True)}

    def _batch(self, part: Subset, samples: Indices) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy and convert only these samples: the rest stays in memory that all processes share."""
        inputs = torch.from_numpy(part.inputs[samples])
        if self._data.std:
            inputs = inputs.float().sub_(self._mean).div_(self._std)
        return _widened(inputs), _widened(torch.from_numpy(part.targets[samples]))


def _pieces(samples: Indices) -> Iterator[Indices]:
    """Yield the samples in pieces. The last sample is never alone: batch normalisation needs two."""
    ends = list(range(_PIECE, len(samples) - 1, _PIECE))
    yield from np.split(samples, ends)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """Convert to the types that networks and losses need: int64 for classes and characters, else float32."""
    return tensor.float() if tensor.is_floating_point() else tensor.long()
