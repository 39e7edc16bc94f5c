"""Calls a project's ClientApp with messages, as a SuperNode does, and reads its replies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from testbed.learning.flower.array_layout import NamedArrays
from testbed.learning.flower.message_identity import RUN, act_as
from testbed.learning.flower.project_file import RunConfig
from testbed.learning.flower.seeded_call import seeded
from testbed.learning.flower.server_side import Content, arrays_of
from testbed.learning.training.own_training import OwnTrainingError

_LOSSES = ("train_loss", "train-loss", "loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a client answers."""

    arrays: NamedArrays
    """Empty for an evaluation."""
    metrics: dict[str, float]
    """Single numbers by name; lists are left out."""
    state: Any
    """That of the client's Context after the call, which the client may have replaced."""

    @property
    def loss(self) -> float:
        return next((self.metrics[name] for name in _LOSSES if name in self.metrics), math.nan)

    def samples(self, weighted_by: str, who: str) -> int:
        """Return the number of samples in a reply. Raises OwnTrainingError if it has none."""
        found = self.metrics.get(weighted_by)
        if found is None or not math.isfinite(found) or found < 1:
            given = "no" if found is None else f"{found:g} as"
            raise OwnTrainingError(
                f"{who} returned {given} {weighted_by}, the number of its samples; return it with the metrics, or set"
                " task.samples"
            )
        return round(found)


class Clients:
    """The ClientApp of a project, for each partition."""

    def __init__(self, app: Any, run_config: RunConfig, devices: int, folder: Path, patience: float) -> None:
        """``folder``: that of the project, in which it is called. ``patience``: CPU seconds of one call."""
        self._app, self._run_config, self._devices = app, run_config, devices
        self._folder, self.patience = folder, patience

    def call(self, kind: str, partition: int, content: Content, *, seed: int, state: Any = None) -> Reply:
        """Send a message to the client of a partition, and return its reply.

        ``state``: that of its Context, which the client may change in place, or replace (``Reply.state``).
        Raises OwnTrainingError, or what the project raises.
        """
        node, who = partition + 1, f"the client of partition {partition}"
        context = Context(
            run_id=RUN,
            node_id=node,
            node_config={"partition-id": partition, "num-partitions": self._devices},
            state=RecordDict() if state is None else state,
            run_config=dict(self._run_config),
        )
        act_as(node)
        message = Message(content, dst_node_id=node, message_type=kind)
        reply = seeded(seed, lambda: self._app(message, context), self._folder, self.patience)
        if not isinstance(reply, Message):
            raise OwnTrainingError(f"{who} returned {type(reply).__name__}; it must return a Message")
        if reply.has_error():
            raise OwnTrainingError(f"{who} returned an error: {reply.error.reason}")
        records = list(reply.content.array_records.values())
        if kind != "evaluate" and len(records) != 1:
            raise OwnTrainingError(f"{who} returned {len(records)} ArrayRecords; it must return one: its model")
        if not isinstance(context.state, RecordDict):
            raise OwnTrainingError(
                f"{who} left a {type(context.state).__name__} as context.state; it must be a RecordDict"
            )
        arrays = {} if kind == "evaluate" else arrays_of(records[0])
        return Reply(arrays=arrays, metrics=dict(_numbers(reply.content)), state=context.state)


def _numbers(content: Content) -> Iterator[tuple[str, float]]:
    """Yield the single numbers of a reply's metrics. The old API keeps them in configuration records."""
    for records in (content.config_records, content.metric_records):
        for name, record in records.items():
            if name.endswith(".status"):
                continue
            for key, value in record.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield key, float(value)
