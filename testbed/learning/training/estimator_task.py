"""A task whose devices train an estimator of scikit-learn: a step is one ``partial_fit`` on one batch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError, parameters_of
from testbed.learning.data.dataset import DataSet, Indices, Subset
from testbed.learning.training.flat_estimator import FlatEstimator, Floats
from testbed.learning.training.local_job import drawn_batches
from testbed.learning.training.own_training import CheckedSteps, OwnTrainingError, seed_generators
from testbed.learning.training.task import Task, VectorJob
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

_PIECE = 2048
"""Test samples that are scored at once."""
_UNUSED = ("optimizer", "momentum", "beta_1", "beta_2", "epsilon", "weight_decay", "clip_gradient", "proximal")
"""Keys of ``[training]`` that belong to the optimiser of a network."""
_LEAST_PROBABILITY = float(np.finfo(np.float64).eps)


class EstimatorTask(Task):
    """Training for devices and scoring for the evaluator.

    The loss of a classifier is the log-loss if it has probabilities, else the hinge loss of its decision function; that
    of a regressor is half of the mean squared error.
    """

    trains_itself = True

    def __init__(
        self, *, estimator: FlatEstimator, place: str, data: DataSet, shards: Sequence[Indices], test: Indices
    ) -> None:
        """``place``: the estimator as the profile names it. Raises ParameterError if it does not fit the data."""
        self.shards, self.place = list(shards), place
        self._flat, self._data, self._test = estimator, data, test
        _check_kind(estimator, data)
        self._classes = None
        train, test_part = data.train.targets, data.test.targets
        if estimator.is_classifier:
            train, test_part = data.train.labels, data.test.labels
            self._classes = np.arange(max(len(data.classes), int(train.max()) + 1, int(test_part.max()) + 1))
        self._train_targets, self._test_targets = train, test_part
        first = np.zeros(1, np.int64)
        self._initial = estimator.begin(*self._samples(data.train, first), self._classes)
        self._has_probabilities = hasattr(estimator.loaded(self._initial), "predict_proba")

    @property
    def size(self) -> int:
        return self._initial.size

    @property
    def training_samples(self) -> int:
        return len(self._data.train)

    @property
    def labels(self) -> list[tuple[int, ...]] | None:
        if self._classes is None:
            return None
        return [tuple(np.unique(self._data.train.labels[shard]).tolist()) for shard in self.shards]

    def initial(self) -> Vector:
        return self._initial.copy()

    def check(self, job: Job) -> None:
        """Raise ParameterError if a key of ``[training]`` has no meaning for the estimator."""
        defaults = {parameter.name: parameter.default for parameter in parameters_of(Job)}
        for key in _UNUSED:
            if getattr(job, key) != defaults[key]:
                problem = f"is {getattr(job, key)}; {self._flat.name} trains itself"
                raise ParameterError(key, f"{problem}: leave it out, and use the estimator's own task.parameters")
        for key in ("lr_schedule", "lr_decay"):
            if not self._flat.has_rate and getattr(job, key) != defaults[key]:
                problem = f"is {getattr(job, key)}; {self._flat.name} computes its learning rate itself"
                raise ParameterError(key, f"{problem}: leave it out")

    def train(self, work: VectorJob) -> Generator[float, None, Vector]:
        job, samples = work.job, work.samples
        try:
            self.check(job)
        except ParameterError as error:  # a strategy may change the keys for a job
            raise OwnTrainingError(f"training.{error}") from None
        keeps = job.optimizer_state == "kept"
        # an estimator of the user's own may draw from the generators, and start a thread
        checked = CheckedSteps(self.place, job.patience, seed_generators(int(work.rng.integers(2**63))))
        estimator = self._flat.loaded(work.base, work.memory if keeps else None)
        batches, count, losses = drawn_batches(samples, job, work.rng), job.batches_over(len(samples)), 0.0
        for step in range(count):
            batch, lr = next(batches), job.lr_at(step, len(samples), work.number)
            seed = int(work.rng.integers(2**31 - 1))
            loss: float = checked.compute(lambda: self._step(estimator, batch, lr, seed))  # noqa: B023  called at once
            losses += loss
            if not job.whole:
                yield loss
        if job.whole:
            yield losses / count
        if keeps:
            self._flat.keep(estimator, work.memory)
        return self._flat.vector(estimator)

    def _step(self, estimator: Any, batch: Indices, lr: float, seed: int) -> float:
        """Train on a batch; return its mean loss before."""
        inputs, targets = self._samples(self._data.train, batch)
        loss = float(np.mean(self._losses(estimator, inputs, targets)))
        self._flat.step(estimator, inputs, targets, lr=lr, seed=seed)
        return loss

    def evaluate(self, vector: Vector) -> dict[str, float]:
        estimator, count = self._flat.loaded(vector), len(self._test)
        if self._classes is None:
            return self._evaluated_values(estimator)
        losses, right = 0.0, 0
        for inputs, targets in self._test_pieces():
            losses += float(np.sum(self._losses(estimator, inputs, targets)))
            right += int(np.count_nonzero(estimator.predict(inputs) == targets))
        return {"accuracy": right / count, "loss": losses / count}

    def _evaluated_values(self, estimator: Any) -> dict[str, float]:
        targets = self._targets(self._data.test, self._test)
        squares = sum(
            float(np.sum((estimator.predict(inputs) - wanted) ** 2)) for inputs, wanted in self._test_pieces()
        )
        spread = float(np.sum((targets - targets.mean()) ** 2))
        mse = squares / len(targets)
        # R² of targets that are all equal is not defined
        return {"mse": mse, "loss": mse / 2} | ({"r2": 1 - squares / spread} if spread else {})

    def _test_pieces(self) -> Iterator[tuple[Floats, npt.NDArray[Any]]]:
        for start in range(0, len(self._test), _PIECE):
            yield self._samples(self._data.test, self._test[start : start + _PIECE])

    def _losses(self, estimator: Any, inputs: Floats, targets: npt.NDArray[Any]) -> Floats:
        """Return the loss of each sample."""
        if self._classes is None:
            squared: Floats = (estimator.predict(inputs) - targets) ** 2 / 2
            return squared
        own = np.arange(len(targets)), targets
        if self._has_probabilities:
            likely: Floats = np.clip(estimator.predict_proba(inputs)[own], _LEAST_PROBABILITY, 1.0)
            return -np.log(likely)
        scores: Floats = estimator.decision_function(inputs)
        if scores.ndim == 1:
            return np.maximum(0.0, 1 - (2 * targets - 1) * scores)
        others = scores.copy()
        others[own] = -np.inf
        hinge: Floats = np.maximum(0.0, 1 - (scores[own] - others.max(axis=1)))
        return hinge

    def tensors(self, vector: Vector) -> dict[str, npt.NDArray[Any]]:
        shapes = self._flat.shapes
        parts = np.split(vector, np.cumsum([int(np.prod(shape)) for _, shape in shapes])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}

    def _samples(self, part: Subset, samples: Indices) -> tuple[Floats, npt.NDArray[Any]]:
        """Copy and convert only these samples: the rest stays in memory that all processes share."""
        inputs = part.inputs[samples].astype(np.float64)
        if self._data.std:
            shape = (1, -1, *(1,) * (inputs.ndim - 2))  # one number for each channel
            inputs = (inputs - np.reshape(self._data.mean, shape)) / np.reshape(self._data.std, shape)
        return inputs.reshape(len(samples), -1), self._targets(part, samples)

    def _targets(self, part: Subset, samples: Indices) -> npt.NDArray[Any]:
        targets = self._train_targets if part is self._data.train else self._test_targets
        found: npt.NDArray[Any] = targets[samples].reshape(len(samples))
        return found.astype(np.float64) if self._classes is None else found


def _check_kind(estimator: FlatEstimator, data: DataSet) -> None:
    targets = data.train.targets
    if data.train.has_classes != estimator.is_classifier:
        found, wanted = ("classes", "classifier") if data.train.has_classes else ("values", "regressor")
        problem = f"is {estimator.name}, and the data has {found}: use a {wanted}, such as SGD{wanted.capitalize()}"
        raise ParameterError("estimator", problem)
    if targets.size != len(targets):
        raise ParameterError(
            "data_from", f"has targets of shape {targets.shape[1:]}; an estimator learns one for each sample"
        )
