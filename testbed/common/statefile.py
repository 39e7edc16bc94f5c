"""A tree of objects in one file and back, without pickle: plain values as JSON, arrays beside it, types by name.

The file is a safetensors file: the arrays are its tensors, and its metadata holds the tree. What stands in
several places of the tree is written once and is one object again afterwards: a model that ten tickets are based on
takes the room of one. Reading constructs nothing but arrays, random generators, plain containers and objects of the
modules that the reader names, and calls none of their code: their fields are put back as they were.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import sys
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
_FIXED: dict[str, Any] = {cls.__name__: cls for cls in (tuple, frozenset)}
_GROWING: dict[str, Any] = {cls.__name__: cls for cls in (list, set, collections.deque)}
_MAPS: dict[str, Any] = {cls.__name__: cls for cls in (dict, collections.Counter)}
_GENERATORS: dict[str, Any] = {
    cls.__name__: cls for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}


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


def draft(tree: Any, modules: Collection[str]) -> Draft:
    """Takes the tree down. Arrays that nobody may write to are referred to, all others are copied.

    ``modules``: as for :func:`read`. Raises StateError for what could not be read again, with its place.
    """
    writer = _Writer(tuple(modules))
    try:
        return Draft(tree=writer.take(tree, "state"), arrays=writer.arrays)
    except RecursionError:
        raise StateError("state is nested too deeply, or in itself") from None


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
    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self._seen: dict[int, tuple[int, Any]] = {}
        """Identity → number; and the object, which must not be freed while its identity counts."""

    def take(self, value: Any, place: str) -> Any:
        kind = type(value).__name__
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.generic):
            return {"number": value.dtype.str, "value": value.item()}
        if type(value) is _FIXED.get(kind):
            return {"fixed": kind, "items": self._all(value, place)}
        if id(value) in self._seen:
            return {"again": self._seen[id(value)][0]}
        number = len(self._seen)
        self._seen[id(value)] = number, value
        return {"id": number} | self._describe(value, kind, number, place)

    def _describe(self, value: Any, kind: str, number: int, place: str) -> dict[str, Any]:
        if type(value) is _GROWING.get(kind):
            return {"of": kind, "items": self._all(value, place)}
        if type(value) is _MAPS.get(kind):
            items = [[self.take(key, place), self.take(each, f"{place}[{key!r}]")] for key, each in value.items()]
            return {"map": kind, "items": items}
        if isinstance(value, np.ndarray):
            frozen = not value.flags.writeable
            self.arrays[str(number)] = value if frozen and value.flags.c_contiguous else value.copy()
            return {"array": number, "frozen": frozen}
        if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _GENERATORS:
            return {"random": type(value.bit_generator).__name__, "state": _plain(value.bit_generator.state)}
        fields = _fields(value) if _is_of(type(value).__module__, self._modules) else None
        if fields is None:
            raise StateError(f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be kept")
        return {
            "object": f"{type(value).__module__}:{type(value).__qualname__}",
            "fields": {key: self.take(each, f"{place}.{key}") for key, each in fields.items()},
        }

    def _all(self, values: Iterable[Any], place: str) -> list[Any]:
        return [self.take(each, place) for each in values]


class _Reader:
    def __init__(self, modules: tuple[str, ...], tensor: Callable[[str], npt.NDArray[Any]]) -> None:
        self._modules, self._tensor = modules, tensor
        self._seen: dict[int, Any] = {}

    def take(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        if "again" in node:
            return self._seen[node["again"]]
        if "number" in node:
            return np.dtype(node["number"]).type(node["value"])
        if "fixed" in node:
            return _FIXED[node["fixed"]](self.take(each) for each in node["items"])
        return self._make(node, node["id"])

    def _make(self, node: Mapping[str, Any], number: int) -> Any:
        """What has an identity is known by its number before it is filled: it may be part of itself."""
        if "of" in node:
            growing = self._seen[number] = _GROWING[node["of"]]()
            add = growing.add if isinstance(growing, set) else growing.append
            for each in node["items"]:
                add(self.take(each))
            return growing
        if "map" in node:
            table = self._seen[number] = _MAPS[node["map"]]()
            for key, each in node["items"]:
                table[self.take(key)] = self.take(each)
            return table
        if "array" in node:
            array = self._seen[number] = self._tensor(str(node["array"]))
            array.flags.writeable = not node["frozen"]
            return array
        if "random" in node:
            bits = _GENERATORS[node["random"]]()
            bits.state = node["state"]
            generator = self._seen[number] = np.random.Generator(bits)
            return generator
        return self._object(node, number)

    def _object(self, node: Mapping[str, Any], number: int) -> Any:
        cls = self._type(node["object"])
        if issubclass(cls, msgspec.Struct):  # frozen: it can only be made whole
            whole = self._seen[number] = cls(**{key: self.take(each) for key, each in node["fields"].items()})
            return whole
        made = self._seen[number] = object.__new__(cls)
        for key, each in node["fields"].items():
            object.__setattr__(made, key, self.take(each))
        return made

    def _type(self, name: str) -> type:
        module, _, path = name.partition(":")
        if not _is_of(module, self._modules):
            raise StateError(f"it holds a {name}, which is no part of a run's state")
        found: Any = sys.modules.get(module)
        if found is None:
            raise StateError(f"it holds a {name}, and {module} is not imported")
        for part in path.split("."):
            found = vars(found)[part]
        if not isinstance(found, type):
            raise StateError(f"it names {name}, which is no type")
        return found


def _is_of(module: str, modules: Iterable[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in modules)


def _fields(value: Any) -> dict[str, Any] | None:
    """What makes up an object; None where its fields are not all of it: containers, functions, types."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if callable(value) or isinstance(value, (*_PLAIN[:3], dict, list, tuple, set, frozenset)):
        return None
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    own = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return own | vars(value) if hasattr(value, "__dict__") else own


def _plain(state: Any) -> Any:
    """The state of a generator in plain values; some have arrays in it."""
    if isinstance(state, Mapping):
        return {key: _plain(each) for key, each in state.items()}
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state
