"""The current model and the past models that are still needed, with reference counts."""

from __future__ import annotations

from testbed.wire.messages import Vector


class PastModels:
    """Keeps the current model and each past one that an open ticket or a device is based on.

    The number of models is bounded by the number of open tickets and devices, not by the length of the run.
    """

    def __init__(self, model: Vector, version: int = 0) -> None:
        self.version, self.model = version, model
        self.models = {version: model}
        self.holders = {version: 0}
        """Version → how many open tickets and devices need its model."""

    def append(self, model: Vector, version: int | None = None) -> None:
        """Make ``model`` the current one. ``version`` is its number; None means the next one."""
        previous = self.version
        self.version, self.model = previous + 1 if version is None else version, model
        self.models[self.version], self.holders[self.version] = model, 0
        if self.holders[previous] == 0:
            self._drop(previous)

    def hold(self, version: int) -> None:
        """Keep the model of this version until a matching ``release``."""
        self.holders[version] += 1

    def release(self, version: int) -> None:
        """Undo one ``hold``. The model is dropped with its last holder, unless it is the current one."""
        self.holders[version] -= 1
        if self.holders[version] == 0 and version != self.version:
            self._drop(version)

    def _drop(self, version: int) -> None:
        del self.models[version], self.holders[version]
