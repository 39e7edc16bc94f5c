"""An estimator of scikit-learn over one flat vector: its coefficients, then its intercepts.

An estimator has no coefficients before its first ``partial_fit``. So it is trained once on a sample, for its attributes
alone, and then gets the coefficients with which scikit-learn begins: zeros, or the random ones of a perceptron.

scikit-learn computes in float64. A vector is float32: a job begins with float64 copies of it, and its result is rounded
once, at the end.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.common.errors import nearest
from testbed.common.parameters import ParameterError, TomlTable
from testbed.common.plugins import named_object
from testbed.learning.training.task import Memory
from testbed.wire.messages import Vector

Floats: TypeAlias = npt.NDArray[np.float64]
_LINEAR, _LAYERS = ("coef_", "intercept_"), ("coefs_", "intercepts_")
_RATES = ("eta0", "learning_rate_init")
_SMALLEST_RATE = 1e-300
"""For the training that only makes attributes: added to a coefficient, the product with a gradient changes nothing."""
_STATE = ("t_", "_optimizer")
"""What an estimator needs to continue besides its coefficients: its count of steps, the optimiser of a perceptron."""
_KEPT = "estimator"
_SET_ELSEWHERE = {
    "eta0": "training.lr is its value: set that",
    "learning_rate_init": "training.lr is its value: set that",
    "random_state": "the seed of the experiment is its value: leave it out",
    "n_jobs": "a device is one process with one thread: leave it out",
    "average": "an average of steps is not what the estimator continues with: leave it out",
}


class FlatEstimator:
    """Estimators of one class with the same parameters, one for each job."""

    def __init__(self, path: str, parameters: TomlTable, seed: int) -> None:
        """``path``: ``module:Class``. Raises ParameterError or ProfileError."""
        cls = _estimator_class(path)
        known = inspect.signature(cls).parameters
        for name in parameters:
            if name not in known:
                problem = f"is not a parameter of {cls.__name__}; {nearest(name, known)}"
                raise ParameterError(f"parameters.{name}", problem)
            if name in _SET_ELSEWHERE:
                raise ParameterError(f"parameters.{name}", f"is {parameters[name]!r}; {_SET_ELSEWHERE[name]}")
        self.name: str = cls.__name__
        self._rate = next((name for name in _RATES if name in known), None)
        given = dict(parameters)
        if "learning_rate" in known:
            given.setdefault("learning_rate", "constant")
        self.schedule: str = given.get("learning_rate", "constant")
        if self._rate is not None:
            given[self._rate] = _SMALLEST_RATE
        if "random_state" in known:
            given["random_state"] = seed
        self._estimator = cls(**given)
        from sklearn.base import is_classifier, is_regressor

        self.is_classifier: bool = is_classifier(self._estimator)
        if not self.is_classifier and not is_regressor(self._estimator):
            raise ParameterError("estimator", f"is {path!r}; {self.name} is neither a classifier nor a regressor")
        self._names = _LINEAR
        self.shapes: list[tuple[str, tuple[int, ...]]] = []
        """Name and shape of each part of the vector."""

    @property
    def has_rate(self) -> bool:
        """Whether its steps depend on a learning rate from outside."""
        return self._rate is not None and self.schedule != "optimal"

    def begin(self, inputs: Floats, targets: npt.NDArray[Any], classes: npt.NDArray[np.int64] | None) -> Vector:
        """Make the attributes of the estimator by some samples, and return its initial vector."""
        estimator = self._estimator
        try:
            estimator.partial_fit(inputs, targets, **({} if classes is None else {"classes": classes}))
        except (TypeError, ValueError, AttributeError) as error:
            problem = " ".join(str(error).split())
            raise ParameterError(
                "parameters", f"do not fit: {self.name} refuses them: {problem}; correct them"
            ) from None
        found = next((names for names in (_LINEAR, _LAYERS) if all(hasattr(estimator, name) for name in names)), None)
        if found is None:
            problem = f"{self.name} has neither coef_ and intercept_ nor coefs_ and intercepts_ after partial_fit"
            raise ParameterError(
                "estimator", f"has nothing to aggregate: {problem}; choose another, such as SGDClassifier"
            )
        self._names = found
        arrays = self._arrays(estimator)
        self.shapes = [(name, array.shape) for name, array in arrays]
        for name in _STATE:
            if hasattr(estimator, name):
                delattr(estimator, name)
        estimator.t_ = 1.0 if found is _LINEAR else 0
        vector = np.concatenate([array.ravel() for _, array in arrays]).astype(np.float32)
        return vector if found is _LAYERS else np.zeros_like(vector)

    def loaded(self, vector: Vector, memory: Memory | None = None) -> Any:
        """Return a new estimator with these coefficients, and with what the last job has left in ``memory``."""
        estimator = copy.deepcopy(self._estimator)
        ends = np.cumsum([int(np.prod(shape)) for _, shape in self.shapes])
        parts = [
            part.astype(np.float64).reshape(shape)
            for part, (_, shape) in zip(np.split(vector, ends[:-1]), self.shapes, strict=True)
        ]
        if self._names is _LINEAR:
            estimator.coef_, estimator.intercept_ = parts
        else:
            estimator.coefs_, estimator.intercepts_ = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        for name, value in (memory or {}).get(_KEPT, {}).items():
            setattr(estimator, name, value)
        return estimator

    def step(self, estimator: Any, inputs: Floats, targets: npt.NDArray[Any], *, lr: float, seed: int) -> None:
        """Train on one batch by ``partial_fit``."""
        if self._rate is not None:
            setattr(estimator, self._rate, lr)
            optimizer = getattr(estimator, "_optimizer", None)
            if optimizer is not None:  # it was made with the rate of an earlier step
                optimizer.learning_rate_init = lr
                if self.schedule == "constant":
                    optimizer.learning_rate = lr
        if hasattr(estimator, "random_state"):
            estimator.random_state = seed
        estimator.partial_fit(inputs, targets)

    def vector(self, estimator: Any) -> Vector:
        with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, which is reported
            return np.concatenate([array.ravel() for _, array in self._arrays(estimator)]).astype(np.float32)

    def keep(self, estimator: Any, memory: Memory) -> None:
        memory[_KEPT] = {name: getattr(estimator, name) for name in _STATE if hasattr(estimator, name)}

    def _arrays(self, estimator: Any) -> list[tuple[str, npt.NDArray[Any]]]:
        found: list[tuple[str, npt.NDArray[Any]]] = []
        for name in self._names:
            value = getattr(estimator, name)
            layers = value if isinstance(value, list) else None
            found += [(name, np.atleast_1d(value))] if layers is None else list(_numbered(name, layers))
        return found


def _numbered(name: str, layers: list[Any]) -> list[tuple[str, npt.NDArray[Any]]]:
    return [(f"{name}.{number}", np.asarray(layer)) for number, layer in enumerate(layers)]


def _estimator_class(path: str) -> Any:
    """Return the class that ``module:Class`` stands for. Raises ParameterError or ProfileError."""
    from sklearn.base import BaseEstimator

    found = named_object(path, "estimator", "sklearn")
    if not isinstance(found, type) or not issubclass(found, BaseEstimator):
        raise ParameterError("estimator", f"is {path!r}; it is not an estimator of scikit-learn: a BaseEstimator")
    if not hasattr(found, "partial_fit"):
        problem = f"{found.__name__} has no partial_fit, so it cannot learn in steps"
        raise ParameterError("estimator", f"is {path!r}; {problem}: choose another, such as SGDClassifier")
    return found
