"""Versions of the model, as far as somebody still needs them."""

from __future__ import annotations

from testbed.wire.messages import Vector


class PastModels:
    """The current model, and the past ones that an open ticket is based on. Memory is bounded by the tickets."""

    def __init__(self, model: Vector, version: int = 0) -> None:
        self.version, self.model = version, model
        self.models = {version: model}
        self._holders = {version: 0}

    def append(self, model: Vector, version: int | None = None) -> None:
        """``version``: a later one, where somebody else makes them; unless it is told, the next."""
        previous = self.version
        self.version, self.model = previous + 1 if version is None else version, model
        self.models[self.version], self._holders[self.version] = model, 0
        if self._holders[previous] == 0:
            self._drop(previous)

    def hold(self, version: int) -> None:
        self._holders[version] += 1

    def release(self, version: int) -> None:
        self._holders[version] -= 1
        if self._holders[version] == 0 and version != self.version:
            self._drop(version)

    def _drop(self, version: int) -> None:
        del self.models[version], self._holders[version]
