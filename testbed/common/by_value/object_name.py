"""A name in a profile that has its object with it: a task or a strategy that was made in a notebook or a script.

Theory of operation
    A profile names a task by ``module:Class``, which every process imports. An object of a notebook cannot be imported.
    So its name is a text that also has the object; loaders, tables and files see the text, and ``Catalogue.find`` and
    ``setup.entry`` take the object. It needs no register in the process of the user: two tasks with the same name, as
    after a cell was executed again, are two names.

    To other processes goes a snapshot, once: the warm template loads it (``receive``), and all processes of the run
    inherit the object by fork. Where a configuration is sent to one of them, a name is pickled as text and digest, and
    finds its object there.
"""

from __future__ import annotations

from typing import Any, Self

from testbed.common.by_value import snapshot
from testbed.common.by_value.snapshot import ObjectSnapshot

_RECEIVED: dict[str, Any] = {}
"""Digest → object that this process, or the template that it was forked from, has loaded."""


class ObjectName(str):
    """``module:Class`` of an object, and the object: a task, or the class of a strategy."""

    value: Any
    _snapshot: ObjectSnapshot | None

    def __new__(cls, name: str, value: Any, taken: ObjectSnapshot | None = None) -> Self:
        made = super().__new__(cls, name)
        made.value, made._snapshot = value, taken
        return made

    @property
    def found_class(self) -> type[Any]:
        return self.value if isinstance(self.value, type) else type(self.value)

    def snapshot(self) -> ObjectSnapshot:
        """The object as it is at the first call. Raises NotPicklable."""
        if self._snapshot is None:
            self._snapshot = snapshot.take(self.value)
        return self._snapshot

    def __reduce__(self) -> tuple[Any, ...]:
        return received, (str(self), self.snapshot().digest)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self


def receive(digest: str, descriptor: int) -> None:
    """Load the object of a snapshot into this process."""
    _RECEIVED[digest] = snapshot.load(descriptor)


def received(name: str, digest: str) -> ObjectName:
    """Return a name with the object that this process has received."""
    return ObjectName(name, _RECEIVED[digest], ObjectSnapshot(digest=digest, descriptor=-1))
