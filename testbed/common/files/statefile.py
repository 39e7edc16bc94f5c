"""State files: a tree of objects in one safetensors file, and back. Checkpoints use them (ADR 19).

Theory of operation
    Format: arrays are the tensors of the file; everything else is one JSON tree in its metadata. A node of the tree is
    a plain value or a table whose keys say what it stands for. Objects are written as ``module:Class`` and fields.
    Identity: the writer numbers every object that is not a plain value, a tuple or a frozenset at its first
    occurrence, and writes ``{"again": number}`` afterwards. The reader registers an object under its number before it
    fills it. So a shared object is written once and is one object again, even if it contains itself: ten tickets with
    the same base share one array, and a queue that two parts of the engine use stays one queue.
    Construction: the reader makes only arrays, random generators, standard containers and instances of classes from
    the modules that its caller allows. It calls neither ``__init__`` nor ``__setstate__``: it creates an empty
    instance and sets its fields. (A msgspec struct is the exception: it is frozen and is built from its fields.)
    No pickle: a pickle may call any function that it names, and a run folder may come from another person. A
    strategy's own classes need no code for checkpoints either.
    Types are looked up in modules that are already imported. Importing a module runs its code, so a state file must
    not decide what is imported; the process that resumes has imported the strategy anyway.
    Damage: the metadata contains the SHA-256 of everything else in the file. :func:`check` compares it; :func:`read`
    does not, because its caller may have checked the file before.
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
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from testbed.common.files.content_hash import content_hash

_TREE, _SHA256 = "tree", "sha256"
_PLAIN = (str, int, float, bool, type(None))
_FIXED: Mapping[str, type[tuple[Any, ...] | frozenset[Any]]] = {"tuple": tuple, "frozenset": frozenset}
_GROWING: Mapping[str, type[list[Any] | set[Any] | collections.deque[Any]]] = {
    "list": list,
    "set": set,
    "deque": collections.deque,
}
_MAPS: Mapping[str, type[dict[Any, Any]]] = {"dict": dict, "Counter": collections.Counter}
_GENERATORS: Mapping[str, type[np.random.BitGenerator]] = {
    cls.__name__: cls for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}
SavedState: TypeAlias = dict[str, Any]
"""The state of one object in a checkpoint: name of an attribute, or of a part with its own state → value.

A value may have any type that a state file can contain: a user's own strategy decides what it stores.
"""


class StateError(ValueError):
    """An object cannot be written, or a file is not a valid state file; the text says why."""


def pick(holder: object, names: Iterable[str]) -> SavedState:
    """Return the named attributes of ``holder`` as a table."""
    return {name: getattr(holder, name) for name in names}


def put(holder: object, state: Mapping[str, Any]) -> None:
    """Set the attributes that :func:`pick` returned."""
    for name, value in state.items():
        setattr(holder, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A copy of a tree at one moment. Another thread may write it while the original changes."""

    tree: Any
    arrays: dict[str, npt.NDArray[Any]]

    def write(self, path: Path, notes: Mapping[str, str]) -> None:
        """Replace the file atomically: after a crash, it is the old one or the new one.

        ``notes`` are returned by :func:`notes_of`. Raises StateError if the file cannot be written; the old one stays.
        """
        draft = path.with_suffix(".new")
        try:
            path.parent.mkdir(exist_ok=True)
            metadata = {**notes, _TREE: json.dumps(self.tree)}
            metadata[_SHA256] = content_hash(metadata, self.arrays, self.arrays.__getitem__)
            save_file(self.arrays, draft, metadata=metadata)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(draft, path)
        except (OSError, SafetensorError) as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise StateError(str(error)) from None


def draft(tree: Any, modules: Collection[str]) -> Draft:
    """Copy the tree. Read-only arrays are not copied but referenced.

    ``modules``: as for :func:`read`. Raises StateError, with the place in the tree, for an object that cannot be saved.
    """
    writer = _Writer(tuple(modules))
    try:
        return Draft(tree=writer.encode(tree, "state"), arrays=writer.arrays)
    except RecursionError:
        raise StateError("state is nested too deeply") from None


def notes_of(path: Path) -> dict[str, str]:
    """Return the notes of the file without reading its tree. Raises StateError or FileNotFoundError."""
    try:
        with safe_open(path, "numpy") as file:
            return dict(file.metadata() or {})
    except SafetensorError as error:
        raise StateError(f"{path} is not a state file: {error}") from None


def check(path: Path) -> None:
    """Raises StateError if the file is not as it was written. Reads one array after another."""
    try:
        with safe_open(path, "numpy") as file:
            metadata = dict(file.metadata() or {})
            written = metadata.pop(_SHA256, None)
            found = content_hash(metadata, file.keys(), file.get_tensor)
    except SafetensorError as error:
        raise StateError(f"{path} is not a state file: {error}") from None
    if found != written:
        raise StateError(f"{path} is damaged: its content does not have the hash that was written with it")


def read(path: Path, modules: Collection[str]) -> Any:
    """Return the tree. ``modules``: modules or packages whose classes it may contain. Raises StateError."""
    try:
        with safe_open(path, "numpy") as file:
            tree = json.loads((file.metadata() or {})[_TREE])
            return _Reader(tuple(modules), file.get_tensor).decode(tree)
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise StateError(f"{path} is not a state file: {type(error).__name__}: {error}") from None


class _Writer:
    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self._seen: dict[int, tuple[int, Any]] = {}
        """id() → number and object. The reference keeps the object alive: its id() must not be used again."""

    def encode(self, value: Any, place: str) -> Any:
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

    def _describe(self, value: Any, kind: str, number: int, place: str) -> dict[str, object]:
        if type(value) is _GROWING.get(kind):
            return {"of": kind, "items": self._all(value, place)}
        if type(value) is _MAPS.get(kind):
            items = [[self.encode(key, place), self.encode(each, f"{place}[{key!r}]")] for key, each in value.items()]
            return {"map": kind, "items": items}
        if isinstance(value, np.ndarray):
            frozen = not value.flags.writeable
            self.arrays[str(number)] = value if frozen and value.flags.c_contiguous else value.copy()
            return {"array": number, "frozen": frozen}
        if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _GENERATORS:
            return {"random": type(value.bit_generator).__name__, "state": _plain(value.bit_generator.state)}
        fields = _fields(value) if _is_of(type(value).__module__, self._modules) else None
        if fields is None:
            raise StateError(f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be saved")
        return {
            "object": f"{type(value).__module__}:{type(value).__qualname__}",
            "fields": {key: self.encode(each, f"{place}.{key}") for key, each in fields.items()},
        }

    def _all(self, values: Iterable[Any], place: str) -> list[Any]:
        return [self.encode(each, place) for each in values]


class _Reader:
    def __init__(self, modules: tuple[str, ...], tensor: Callable[[str], npt.NDArray[Any]]) -> None:
        self._modules, self._tensor = modules, tensor
        self._seen: dict[int, Any] = {}

    def decode(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        if "again" in node:
            return self._seen[node["again"]]
        if "number" in node:
            return np.dtype(node["number"]).type(node["value"])
        if "fixed" in node:
            return _FIXED[node["fixed"]](self.decode(each) for each in node["items"])
        return self._make(node, node["id"])

    def _make(self, node: Mapping[str, Any], number: int) -> Any:
        """Create a numbered object. It is registered before it is filled, because it may contain itself."""
        if "of" in node:
            growing = self._seen[number] = _GROWING[node["of"]]()
            add = growing.add if isinstance(growing, set) else growing.append
            for each in node["items"]:
                add(self.decode(each))
            return growing
        if "map" in node:
            table = self._seen[number] = _MAPS[node["map"]]()
            for key, each in node["items"]:
                table[self.decode(key)] = self.decode(each)
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
        if issubclass(cls, msgspec.Struct):  # frozen: fields cannot be set one by one
            built = self._seen[number] = cls(**{key: self.decode(each) for key, each in node["fields"].items()})
            return built
        made = self._seen[number] = object.__new__(cls)
        for key, each in node["fields"].items():
            object.__setattr__(made, key, self.decode(each))
        return made

    def _type(self, name: str) -> type:
        module, _, path = name.partition(":")
        if not _is_of(module, self._modules):
            raise StateError(f"it contains a {name}, which is not allowed in a state file")
        found: Any = sys.modules.get(module)
        if found is None:
            raise StateError(f"it contains a {name}, but {module} is not imported")
        for part in path.split("."):
            found = vars(found)[part]
        if not isinstance(found, type):
            raise StateError(f"it names {name}, which is not a class")
        return found


def _is_of(module: str, modules: Iterable[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in modules)


def _fields(value: Any) -> dict[str, object] | None:
    """Return the fields of an object; None if they are not its whole state (containers, functions, types)."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if callable(value) or isinstance(value, (*_PLAIN[:3], dict, list, tuple, set, frozenset)):
        return None
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    own = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return own | vars(value) if hasattr(value, "__dict__") else own


def _plain(state: Any) -> Any:
    """Return the state of a generator with arrays converted to lists."""
    if isinstance(state, Mapping):
        return {key: _plain(each) for key, each in state.items()}
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state
