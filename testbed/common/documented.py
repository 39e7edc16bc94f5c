"""Fields of structs with a meaning and a unit: documentation and JSON schemas follow from the definition.

A field is declared as ``seconds: Annotated[float, doc("length of the run", "s")]``. A field that is itself a struct, or
a dictionary of structs, needs no text of its own: its fields are described instead, as ``energy.total_j``.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec


class FieldMeaning(NamedTuple):
    """One line of documentation."""

    name: str
    """Nested fields with dots; a key of a dictionary in angle brackets: ``scores.<metric>.last``."""
    unit: str
    meaning: str


def doc(meaning: str, unit: str = "", *, key: str = "") -> msgspec.Meta:
    """Return the meaning and the unit of a field; ``key`` names the keys of a dictionary."""
    return msgspec.Meta(description=meaning, extra={"unit": unit, "key": key})


def entries(key: str) -> msgspec.Meta:
    """Return the name of the keys of a dictionary whose values are structs."""
    return msgspec.Meta(extra={"unit": "", "key": key})


def meanings(cls: type[msgspec.Struct], prefix: str = "") -> Iterator[FieldMeaning]:
    """Yield a line for each field of a struct and of the structs in it. Raises ValueError for one without meaning."""
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        note = _note(hint)
        extra = {} if note is None or note.extra is None else note.extra
        place = f"{prefix}{name}.<{extra['key']}>" if extra.get("key") else f"{prefix}{name}"
        inner = _struct_in(hint)
        if note is not None and note.description is not None:
            yield FieldMeaning(place, extra["unit"], note.description)
        elif inner is not None:
            yield from meanings(inner, f"{place}.")
        else:
            raise ValueError(f"{cls.__name__}.{name} has no meaning: declare it with doc()")


def _note(hint: Any) -> msgspec.Meta | None:
    every = getattr(hint, "__metadata__", ())
    return next((note for note in every if isinstance(note, msgspec.Meta) and note.extra is not None), None)


def _struct_in(hint: Any) -> type[msgspec.Struct] | None:
    """Return the struct in a type such as ``X | None``, ``dict[str, X]`` or ``Annotated[X, …]``."""
    if typing.get_origin(hint) is typing.Annotated:
        return _struct_in(typing.get_args(hint)[0])
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for part in typing.get_args(hint) if (found := _struct_in(part)) is not None), None)
