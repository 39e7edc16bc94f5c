"""What a project's ServerApp gives to its clients, without its rounds: initial arrays, messages, and central scores.

There are three kinds, by what the ServerApp uses: a strategy of ``flwr.serverapp.strategy``, one of
``flwr.server.strategy`` (``ServerAppComponents``), or none: then the ServerApp sends messages itself.

Theory of operation
    The strategy itself configures the messages, as in Flower: so the keys that it adds are there (FedProx's
    ``proximal-mu``), and what a project changes from round to round is changed. The n-th job of a device (from 1) gets
    what its strategy would send in round n (``round_messages``).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common import EvaluateIns, FitIns, ndarrays_to_parameters, parameters_to_ndarrays

from testbed.learning.flower.array_layout import NamedArrays
from testbed.learning.flower.waiting_for_nodes import check_minimum, manager_of_devices
from testbed.learning.training.own_training import OwnTrainingError

Content: TypeAlias = Any
"""A RecordDict with one ArrayRecord, whose arrays are exchanged for those of each job."""


class ServerSide(ABC):
    """What the clients of a project get from their server."""

    strategy: str = ""
    """The name of the strategy that the project has; empty: none."""
    weighted_by: str = "num-examples"
    """The metric of a reply that is its number of samples."""

    def evaluate(self, arrays: NamedArrays) -> Mapping[str, Any] | None:
        """Return the metrics of the ServerApp's own evaluation; None if it has none."""
        return None

    @abstractmethod
    def initial(self) -> NamedArrays | None:
        """Return the initial model; None if a client must be asked for it."""

    @abstractmethod
    def configured(self, number: int) -> Content:
        """Return the content of a training message in round ``number``, from 1. Call it for each round in order."""

    @abstractmethod
    def configured_evaluation(self) -> Content:
        """Return the content of an evaluation message."""


class MessageServer(ServerSide):
    """A strategy of the Message API."""

    def __init__(self, strategy: Any, started: Mapping[str, Any], grid: Any) -> None:
        """``started``: the arguments of ``Strategy.start``."""
        self._strategy, self._started, self._grid = strategy, started, grid
        self.strategy = type(strategy).__name__
        self.weighted_by = getattr(strategy, "weighted_by_key", self.weighted_by)
        self._config = started.get("train_config") or ConfigRecord()

    def initial(self) -> NamedArrays:
        return arrays_of(self._started["initial_arrays"])

    def configured(self, number: int) -> Content:
        check_minimum(self._strategy, "min_train_nodes", self._grid.begin())
        messages = self._strategy.configure_train(number, self._started["initial_arrays"], self._config, self._grid)
        first = next(iter(messages), None)
        if first is None:
            raise OwnTrainingError(f"{self.strategy}.configure_train sends no message in round {number}")
        return _kept(first.content)

    def configured_evaluation(self) -> Content:
        check_minimum(self._strategy, "min_evaluate_nodes", self._grid.begin())
        config = self._started.get("evaluate_config") or ConfigRecord()
        arrays = self._started["initial_arrays"]
        first = next(iter(self._strategy.configure_evaluate(1, arrays, config, self._grid)), None)
        if first is not None:
            return _kept(first.content)
        keys = (
            getattr(self._strategy, "arrayrecord_key", "arrays"),
            getattr(self._strategy, "configrecord_key", "config"),
        )
        return RecordDict({keys[0]: ArrayRecord(), keys[1]: config})

    def evaluate(self, arrays: NamedArrays) -> Mapping[str, Any] | None:
        own = self._started.get("evaluate_fn")
        found = None if own is None else own(1, record_of(arrays))
        return None if found is None else dict(found)


class LegacyServer(ServerSide):
    """A strategy of the old API."""

    weighted_by = "num_examples"

    def __init__(self, strategy: Any, devices: int) -> None:
        self._strategy = strategy
        self.strategy = type(strategy).__name__
        self._manager = manager_of_devices(self.strategy, devices)
        self._parameters = strategy.initialize_parameters(client_manager=self._manager)

    def initial(self) -> NamedArrays | None:
        return None if self._parameters is None else numbered(parameters_to_ndarrays(self._parameters))

    def learn_parameters(self, arrays: NamedArrays) -> None:
        """Take the initial parameters that a client has returned, as Flower does without ``initial_parameters``."""
        self._parameters = ndarrays_to_parameters(list(arrays.values()))

    def configured(self, number: int) -> Content:
        asked = self._strategy.configure_fit(number, self._parameters, self._manager)
        if not asked:
            raise OwnTrainingError(f"{self.strategy}.configure_fit asks no client in round {number}")
        instructions: FitIns = asked[0][1]
        return _legacy_content("fitins", instructions.config)

    def configured_evaluation(self) -> Content:
        asked = self._strategy.configure_evaluate(1, self._parameters, self._manager)
        instructions: EvaluateIns | None = asked[0][1] if asked else None
        return _legacy_content("evaluateins", {} if instructions is None else instructions.config)

    def evaluate(self, arrays: NamedArrays) -> Mapping[str, Any] | None:
        found = self._strategy.evaluate(1, ndarrays_to_parameters(list(arrays.values())))
        if found is None:
            return None
        loss, metrics = found
        return {"loss": loss, **metrics}


class CustomServer(ServerSide):
    """A ServerApp that sends its messages itself: its first training message stands for all of them."""

    def __init__(self, content: Content) -> None:
        self._initial = arrays_of(_array_record(content))
        self._content = _kept(content)

    def initial(self) -> NamedArrays:
        return self._initial

    def configured(self, number: int) -> Content:
        content = copy.deepcopy(self._content)
        for record in content.config_records.values():
            if "server-round" in record:
                record["server-round"] = number
        return content

    def configured_evaluation(self) -> Content:
        return self.configured(1)


def get_parameters_content() -> Content:
    """Return the content of a message that asks an old client for its initial parameters."""
    return RecordDict({"getparametersins.config": ConfigRecord()})


def with_arrays(content: Content, arrays: NamedArrays) -> Content:
    """Return the content of a message with these arrays. Its other records are copies: a client may change them."""
    record = record_of(arrays)
    return RecordDict(
        {key: record if isinstance(each, ArrayRecord) else copy.deepcopy(each) for key, each in content.items()}
    )


def arrays_of(record: Any) -> NamedArrays:
    """Return the arrays of an ArrayRecord."""
    return {name: array.numpy() for name, array in record.items()}


def record_of(arrays: NamedArrays) -> Any:
    """Return an ArrayRecord."""
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def numbered(arrays: Sequence[npt.NDArray[Any]]) -> NamedArrays:
    """Name the arrays of the old API."""
    return {str(number): np.asarray(array) for number, array in enumerate(arrays)}


def _legacy_content(name: str, config: Mapping[str, Any]) -> Content:
    return RecordDict({f"{name}.parameters": ArrayRecord(), f"{name}.config": ConfigRecord(dict(config))})


def _array_record(content: Content) -> Any:
    found = list(content.array_records.values())
    if len(found) != 1:
        raise OwnTrainingError(
            f"the messages of the ServerApp have {len(found)} ArrayRecords; one, the model, can be trained"
        )
    return found[0]


def _kept(content: Content) -> Content:
    """Return a copy without the arrays: a strategy may change its records in the next round."""
    _array_record(content)
    return RecordDict(
        {key: ArrayRecord() if isinstance(each, ArrayRecord) else copy.deepcopy(each) for key, each in content.items()}
    )
