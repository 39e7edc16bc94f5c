"""Refuses what waits for more nodes than there are devices: Flower would wait for ever, and say nothing.

All devices of a run are connected from the beginning, so nothing that waits for one more will ever go on.
"""

from __future__ import annotations

import resource
from types import SimpleNamespace
from typing import Any

from flwr.server import SimpleClientManager

from testbed.learning.training.own_training import OwnTrainingError

_QUESTIONS = 5


def _too_few(who: str, wanted: int, devices: int, names: tuple[str, ...]) -> OwnTrainingError:
    """Return the error of a strategy that waits for ``wanted`` nodes. ``names``: of the parameters that may say so."""
    return OwnTrainingError(
        f"{who} waits for {wanted} nodes, and the fleet has {devices}; lower its {', '.join(names)},"
        f" or set devices.count = {wanted}"
    )


def check_minimum(strategy: Any, minimum: str, devices: int) -> None:
    """Raise OwnTrainingError if a strategy of the Message API waits for more nodes than there are devices.

    ``minimum``: its parameter for this kind of message, beside ``min_available_nodes``.
    """
    given = {name: getattr(strategy, name, None) for name in ("min_available_nodes", minimum)}
    more = {name: value for name, value in given.items() if isinstance(value, int) and value > devices}
    if more:
        raise _too_few(type(strategy).__name__, max(more.values()), devices, tuple(more))


def manager_of_devices(who: str, devices: int) -> Any:
    """Return the client manager that a strategy of the old API sees: it raises where others wait."""
    manager: Any = SimpleClientManager()
    for node in range(1, devices + 1):
        manager.register(SimpleNamespace(cid=str(node), node_id=node, properties={}))

    def wait_for(num_clients: int, timeout: int = 0) -> bool:
        if num_clients > devices:
            names = ("min_available_clients", "min_fit_clients", "min_evaluate_clients")
            raise _too_few(who, num_clients, devices, names)
        return True

    manager.wait_for = wait_for
    return manager


class Questions:
    """Finds out that code asks again and again which nodes are connected, and sleeps in between."""

    def __init__(self) -> None:
        self._slept, self._switches = 0, -1

    def ask(self, devices: int) -> None:
        """Note a question. Raises OwnTrainingError when the process has slept before each of the last five."""
        switches, before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw, self._switches
        self._slept = self._slept + 1 if before >= 0 and switches > before else 0
        self._switches = switches
        if self._slept >= _QUESTIONS:
            raise OwnTrainingError(
                f"waits until more nodes are connected, and the fleet has {devices}; lower the number that it"
                " waits for, or raise devices.count"
            )
