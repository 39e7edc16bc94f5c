"""Finds the part of an object that cannot be written by value: an attribute, an item, a variable of a function."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.common.by_value import snapshot
from testbed.common.by_value.snapshot import NotPicklable

_DEEPEST = 12


def place_of_problem(value: Any, name: str) -> tuple[str, str]:
    """Return where the innermost part is that cannot be written, such as ``task.loader.file``, and its type."""
    return _search(value, name, {id(value)}, _DEEPEST) or (name, type(value).__name__)


def _search(value: Any, name: str, seen: set[int], depth: int) -> tuple[str, str] | None:
    """Return the same below a value that cannot be written; None if that is only because of a part that was seen."""
    failing = [(text, part) for text, part in _parts(value) if _fails(part)] if depth else []
    if not failing:
        return name, type(value).__name__
    for text, part in failing:
        if id(part) not in seen:
            seen.add(id(part))
            found = _search(part, name + text, seen, depth - 1)
            if found is not None:
                return found
    return None


def _fails(value: Any) -> bool:
    try:
        snapshot.take(value)
    except NotPicklable:
        return True
    return False


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object that are written with it, each with the text that leads to it."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__func__)
        yield ".__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _variables(value)
    else:
        own = vars(value) if hasattr(value, "__dict__") else {}
        yield from ((f".{key}", item) for key, item in own.items() if not _is_of_python(item))
        if not isinstance(value, type):
            yield "", type(value)


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function uses: of the function around it, and of its module."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f", variable {name}", cell.cell_contents
        except ValueError:  # not set yet
            continue
    for name in code.co_names:
        if name in function.__globals__:
            yield f", variable {name}", function.__globals__[name]


def _is_of_python(item: Any) -> bool:
    """Whether an attribute of a class is a descriptor of the interpreter, which is not written."""
    return isinstance(item, types.GetSetDescriptorType | types.MemberDescriptorType | types.WrapperDescriptorType)
