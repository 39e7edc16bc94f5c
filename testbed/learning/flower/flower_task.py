"""A Flower project as a task: its clients train and evaluate, its ServerApp gives the first model and the messages."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import RecordDict

from testbed.learning.flower.array_layout import ArrayLayout, NamedArrays
from testbed.learning.flower.client_calls import Clients, Reply
from testbed.learning.flower.round_messages import RoundMessages
from testbed.learning.flower.seeded_call import seeded
from testbed.learning.flower.server_side import ServerSide, with_arrays
from testbed.learning.training.own_training import OwnTrainingError
from testbed.learning.training.task import Task, VectorJob
from testbed.wire.messages import Vector

_STATE, _ARRAYS = "state", "arrays"
"""Names in the memory of a device: its Context's state, and its arrays that are not in the vector."""


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How models are scored."""

    by_server: bool
    """By the evaluate function of the ServerApp; else by clients."""
    partitions: tuple[int, ...]
    """The partitions whose clients evaluate; none if they cannot."""
    accuracy: str
    """The metric that is called accuracy."""
    seed: int


class FlowerTask(Task):
    """A step is one call of a device's client, which trains on all samples of its partition."""

    trains_itself = True

    def __init__(
        self,
        *,
        clients: Clients,
        server: ServerSide,
        messages: RoundMessages,
        layout: ArrayLayout,
        samples: Sequence[int],
        scoring: Scoring,
        folder: Path,
        place: str,
        notes: Sequence[str],
        is_slow: bool,
    ) -> None:
        """``samples``: of each device. ``is_slow``: a call takes so long that none is spent on a warm-up."""
        self._clients, self._server, self._messages = clients, server, messages
        self._layout, self._scoring = layout, scoring
        self._folder, self.place, self.notes = folder, place, tuple(notes)
        self.warm_up_steps = 0 if is_slow else 1
        everything = np.arange(sum(samples), dtype=np.int64)
        self.shards = np.split(everything, np.cumsum(samples)[:-1])
        self.step_sizes = tuple(sorted(set(samples)))

    @property
    def size(self) -> int:
        return self._layout.size

    @property
    def training_samples(self) -> int:
        return sum(len(shard) for shard in self.shards)

    def initial(self) -> Vector:
        return self._layout.initial()

    def train(self, job: VectorJob) -> Generator[float, None, Vector]:
        if job.job.proximal:
            raise OwnTrainingError(
                f"the strategy sets training.proximal = {job.job.proximal:g}, which a Flower project cannot use: its"
                " clients compute their own loss; set mu of fedprox and fedat to 0, leave out rho of fedasync, and let"
                " the project have such a term itself"
            )
        state = job.memory.get(_STATE) or RecordDict()
        model = self._layout.arrays(job.base, job.memory.get(_ARRAYS, self._layout.local))
        losses, calls = 0.0, job.job.batches_over(len(job.samples))
        for _ in range(calls):
            reply = self._trained(job.device, job.number, model, int(job.rng.integers(2**32)), state)
            state = reply.state
            vector = self._layout.vector(reply.arrays, self._who(job.device))
            local = {name: reply.arrays[name] for name in self._layout.local}
            model = self._layout.arrays(vector, local)
            losses += reply.loss
            if not job.job.whole:
                yield reply.loss
        if job.job.whole:
            yield losses / calls
        if local:
            job.memory[_ARRAYS] = local
        if len(state) or _STATE in job.memory:
            job.memory[_STATE] = state
        return vector

    def evaluate(self, vector: Vector) -> dict[str, float]:
        model = self._layout.arrays(vector, self._layout.local)
        found = self._scored_by_server(model) if self._scoring.by_server else self._scored_by_clients(model)
        if self._scoring.accuracy in found:
            found["accuracy"] = found.pop(self._scoring.accuracy)
        return found

    def tensors(self, vector: Vector) -> dict[str, npt.NDArray[Any]]:
        return self._layout.parts(vector)

    def _trained(self, device: int, number: int, model: NamedArrays, seed: int, state: Any) -> Reply:
        content = with_arrays(self._messages.train(number + 1), model)
        return self._clients.call("train", device, content, seed=seed, state=state)

    def _scored_by_server(self, model: NamedArrays) -> dict[str, float]:
        compute = lambda: self._server.evaluate(model)  # noqa: E731
        metrics: Mapping[str, Any] = seeded(self._scoring.seed, compute, self._folder, self._clients.patience) or {}
        return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}

    def _scored_by_clients(self, model: NamedArrays) -> dict[str, float]:
        """Return the means over the partitions, weighted by the samples that each client has evaluated."""
        sums: dict[str, float] = {}
        weights: dict[str, float] = {}
        for partition in self._scoring.partitions:
            content = with_arrays(self._messages.evaluation(), model)
            reply = self._clients.call("evaluate", partition, content, seed=self._scoring.seed)
            weight = reply.metrics.get(self._server.weighted_by, 0.0)
            if weight <= 0:  # an old client without an evaluate function tells so
                continue
            for name, value in reply.metrics.items():
                if name != self._server.weighted_by:
                    sums[name] = sums.get(name, 0.0) + weight * value
                    weights[name] = weights.get(name, 0.0) + weight
        return {name: total / weights[name] for name, total in sums.items()}

    @staticmethod
    def _who(partition: int) -> str:
        return f"the client of partition {partition}"
