"""A tree of objects in one file and back, without pickle: plain values as JSON, arrays beside it, types by name.

The file is a safetensors file: the arrays are its tensors, and its metadata holds the tree. An object that stands in
several places of the tree is written once and is one object again afterwards: a model that ten tickets are based on
takes the room of one. Reading constructs nothing but arrays, random generators, plain containers and objects of the
modules that the reader names, and calls none of their code: their fields are put back as they were.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

_TREE = "tree"
_PLAIN = (str, int, float, bool, type(None))
_SEQUENCES: dict[str, Any] = {cls.__name__: cls for cls in (tuple, set, frozenset, collections.deque)}
_MAPS: dict[str, Any] = {cls.__name__: cls for cls in (dict, collections.Counter)}


class StateError(ValueError):
    """Something that cannot be written, or was not written by us; the text says what."""


def pick(holder: object, names: Iterable[str]) -> dict[str, Any]:
    """These attributes, for a tree."""
    return {name: getattr(holder, name) for name in names}


def put(holder: object, state: Mapping[str, Any]) -> None:
    """Attributes as they were picked."""
    for name, value in state.items():
        setattr(holder, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A tree as it was at one moment, ready to be written by somebody else meanwhile."""

    tree: Any
    arrays: dict[str, npt.NDArray[Any]]

    def write(self, path: Path, notes: Mapping[str, str]) -> None:
        """Replace the file as a whole: a crash leaves the old one or the new one. ``notes``: see :func:`notes_of`.

        Raises StateError where it cannot be written, and then leaves the old one.
        """
        draft = path.with_suffix(".new")
        try:
            path.parent.mkdir(exist_ok=True)
            save_file(self.arrays, draft, metadata={**notes, _TREE: json.dumps(self.tree)})
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(draft, path)
        except (OSError, SafetensorError) as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise StateError(str(error)) from None


def draft(tree: Any) -> Draft:
    """Takes the tree down. Arrays that nobody may write to are referred to, all others are copied."""
    writer = _Writer()
    return Draft(tree=writer.take(tree, "state"), arrays=writer.arrays)


def notes_of(path: Path) -> dict[str, str]:
    """What was noted beside the tree. Raises StateError or FileNotFoundError."""
    try:
        with safe_open(path, "numpy") as file:
            return dict(file.metadata() or {})
    except SafetensorError as error:
        raise StateError(f"{path} is no state of a run: {error}") from None


def read(path: Path, modules: Collection[str]) -> Any:
    """The tree again. ``modules``: those whose objects may be in it, or packages of them."""
    try:
        with safe_open(path, "numpy") as file:
            tree = json.loads((file.metadata() or {})[_TREE])
            return _Reader(tuple(modules), file.get_tensor).take(tree)
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise StateError(f"{path} is no state of a run: {type(error).__name__}: {error}") from None


class _Writer:
    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self._seen: dict[int, tuple[int, Any]] = {}
        """Identity → number; and the object, which must not be freed while its identity counts."""

    def take(self, value: Any, place: str) -> Any:
        if type(value) in _PLAIN:
            return value
        if type(value) is list:
            return [self.take(each, place) for each in value]
        kind = type(value).__name__
        if type(value) is _MAPS.get(kind):
            items = [[self.take(key, place), self.take(each, f"{place}[{key!r}]")] for key, each in value.items()]
            return {"map": kind, "items": items}
        if type(value) is _SEQUENCES.get(kind):
            return {"of": kind, "items": [self.take(each, place) for each in value]}
        if isinstance(value, np.generic):
            return {"number": value.dtype.str, "value": value.item()}
        if isinstance(value, np.random.Generator):
            return {"random": type(value.bit_generator).__name__, "state": _plain(value.bit_generator.state)}
        return self._once(value, place)

    def _once(self, value: Any, place: str) -> Any:
        if id(value) in self._seen:
            return {"again": self._seen[id(value)][0]}
        number = len(self._seen)
        self._seen[id(value)] = number, value
        if isinstance(value, np.ndarray):
            frozen = not value.flags.writeable and value.flags.c_contiguous
            self.arrays[str(number)] = value if frozen else value.copy()
            return {"array": number, "frozen": not value.flags.writeable}
        fields = _fields(value)
        if fields is None:
            raise StateError(f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be kept")
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        return {
            "object": number, "type": name,
            "fields": {key: self.take(each, f"{place}.{key}") for key, each in fields.items()},
        }  # fmt: skip


class _Reader:
    def __init__(self, modules: tuple[str, ...], tensor: Callable[[str], npt.NDArray[Any]]) -> None:
        self._modules, self._tensor = modules, tensor
        self._seen: dict[int, Any] = {}

    def take(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.take(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "again" in node:
            return self._seen[node["again"]]
        if "map" in node:
            return _MAPS[node["map"]]({self.take(key): self.take(each) for key, each in node["items"]})
        if "of" in node:
            return _SEQUENCES[node["of"]](self.take(each) for each in node["items"])
        if "number" in node:
            return np.dtype(node["number"]).type(node["value"])
        if "random" in node:
            generator: np.random.BitGenerator = _bit_generators()[node["random"]]()
            generator.state = node["state"]
            return np.random.Generator(generator)
        if "array" in node:
            array = self._seen[node["array"]] = self._tensor(str(node["array"]))
            array.flags.writeable = not node["frozen"]
            return array
        return self._object(node)

    def _object(self, node: Mapping[str, Any]) -> Any:
        cls = self._type(node["type"])
        if issubclass(cls, msgspec.Struct):  # frozen: it can only be made whole
            whole = self._seen[node["object"]] = cls(**{key: self.take(each) for key, each in node["fields"].items()})
            return whole
        made = self._seen[node["object"]] = object.__new__(cls)
        for key, each in node["fields"].items():
            object.__setattr__(made, key, self.take(each))
        return made

    def _type(self, name: str) -> type:
        module, _, path = name.partition(":")
        if not any(module == each or module.startswith(f"{each}.") for each in self._modules):
            raise StateError(f"it holds a {name}, which is no part of a run's state")
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = vars(found)[part]
        if not isinstance(found, type):
            raise StateError(f"it names {name}, which is no type")
        return found


def _fields(value: Any) -> dict[str, Any] | None:
    """What makes up an object; None where that cannot be told: functions, files, types."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if callable(value) or type(value).__module__ == "builtins":
        return None
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    own = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return own | vars(value) if hasattr(value, "__dict__") else own


def _plain(state: Any) -> Any:
    """The state of a generator in plain values; some have arrays in it."""
    if isinstance(state, Mapping):
        return {key: _plain(each) for key, each in state.items()}
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state


def _bit_generators() -> dict[str, Callable[[], np.random.BitGenerator]]:
    return {cls.__name__: cls for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)}
