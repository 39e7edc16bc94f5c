"""Runs a project's ServerApp up to its first round, to learn what it would send: the rounds are ours.

Theory of operation
    A ServerApp ends in one of four calls: ``Strategy.start``, ``start_grid`` (old API), a workflow of the old API, or
    messages of its own through the grid. Each of them is exchanged, for the time of this run, for a function that notes
    its arguments and raises ``_Learned``. That is a BaseException, so that ``except Exception`` in a project does not
    catch it; what a ServerApp does after its rounds (saving the model, for instance) is not done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn

from flwr.app import Context, RecordDict
from flwr.server.workflow import DefaultWorkflow
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import Strategy

from testbed.learning.flower.message_identity import RUN, SERVER_NODE, act_as
from testbed.learning.flower.project_file import RunConfig
from testbed.learning.flower.server_side import CustomServer, LegacyServer, MessageServer, ServerSide
from testbed.learning.flower.waiting_for_nodes import Questions
from testbed.learning.flower.what_is_refused import check_strategy, check_workflow
from testbed.learning.training.own_training import OwnTrainingError


class _Learned(BaseException):
    def __init__(self, found: ServerSide) -> None:
        self.found = found


def run_server_app(app: Any, run_config: RunConfig, devices: int) -> ServerSide:
    """Return what the ServerApp has for its clients. Raises OwnTrainingError, or what the project raises."""
    act_as(SERVER_NODE)
    context = Context(run_id=RUN, node_id=SERVER_NODE, node_config={}, state=RecordDict(), run_config=dict(run_config))
    with _intercepted(devices):
        try:
            app(GridOfDevices(devices), context)
        except _Learned as learned:
            return learned.found
    raise OwnTrainingError(
        "the ServerApp ended without a round of training: it called neither Strategy.start, nor returned"
        " ServerAppComponents, nor sent a message of type train"
    )


class GridOfDevices:
    """The grid that a ServerApp sees: all devices are connected, and the first training message is the last."""

    def __init__(self, devices: int) -> None:
        self._devices, self._questions = devices, Questions()
        self.run = SimpleNamespace(run_id=RUN, fab_id="", fab_version="", fab_hash="")

    def set_run(self, run: object) -> None:
        """Do nothing: there is one run."""

    def begin(self) -> int:
        """Forget the questions of the round before. Return the number of devices."""
        self._questions = Questions()
        return self._devices

    def get_node_ids(self) -> list[int]:
        self._questions.ask(self._devices)
        return [partition + 1 for partition in range(self._devices)]

    def get_nodes(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(node_id=node) for node in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Any]) -> NoReturn:
        message = next(iter(messages), None)
        if message is None:
            raise OwnTrainingError("the ServerApp sends no message in its first round; it must ask for training")
        kind = message.metadata.message_type
        if kind != "train":
            raise OwnTrainingError(
                f"the ServerApp begins with messages of type {kind!r}; only projects that begin with 'train' can run"
            )
        raise _Learned(CustomServer(message.content))

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> NoReturn:
        self.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> NoReturn:
        raise OwnTrainingError("the ServerApp waits for replies before it has sent a message")


@contextmanager
def _intercepted(devices: int) -> Generator[None, None, None]:
    def start(
        strategy: Any,
        grid: Any,
        initial_arrays: Any,
        num_rounds: int = 3,
        timeout: float = 3600,
        *rest: Any,
        **named: Any,
    ) -> NoReturn:
        check_strategy(strategy)
        names = ("train_config", "evaluate_config", "evaluate_fn")
        started = dict(zip(names, rest, strict=False)) | named | {"initial_arrays": initial_arrays}
        raise _Learned(MessageServer(strategy, started, grid))

    def start_grid(**given: Any) -> NoReturn:
        _learn_legacy(given.get("strategy") or getattr(given.get("server"), "strategy", None), devices)

    def work(workflow: Any, grid: Any, context: Any) -> NoReturn:
        check_workflow(workflow)
        _learn_legacy(context.strategy, devices)

    places: list[tuple[Any, str, Callable[..., NoReturn]]] = [
        *((each, "start", start) for each in _with_subclasses(Strategy) if "start" in vars(each)),
        (sys.modules[ServerApp.__module__], "start_grid", start_grid),
        (DefaultWorkflow, "__call__", work),
    ]
    before = [getattr(owner, name) for owner, name, _ in places]
    try:
        for owner, name, replacement in places:
            setattr(owner, name, replacement)
        yield
    finally:
        for (owner, name, _), original in zip(places, before, strict=True):
            setattr(owner, name, original)


def _learn_legacy(strategy: Any, devices: int) -> NoReturn:
    if strategy is None:
        raise OwnTrainingError("the ServerApp has no strategy; give one to ServerAppComponents")
    check_strategy(strategy)
    raise _Learned(LegacyServer(strategy, devices))


def _with_subclasses(cls: type[Any]) -> list[type[Any]]:
    """Return a class and all that derive from it: a project's own strategy may have a ``start`` of its own."""
    found = [cls]
    for each in found:
        found += [sub for sub in each.__subclasses__() if sub not in found]
    return found
