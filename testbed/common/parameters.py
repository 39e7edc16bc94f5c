"""Parameters with a type, a range and a description, for profiles and strategies.

A parameter is a dataclass field made by :func:`param`, which carries its meaning and its range.
:func:`build` turns a table (as read from TOML) into the dataclass; its errors name the source, the
key, the value and what is allowed. :func:`describe` lists the parameters for ``list strategies -v``;
:mod:`testbed.common.json_schema` describes them for editors.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, TypeAlias, TypeVar

from testbed.common.errors import ProfileError, nearest
from testbed.common.number_limits import MOST_COUNT, MOST_FACTOR

T = TypeVar("T")
TomlTable: TypeAlias = dict[str, Any]
"""A table as TOML has it: key → value of any TOML type, until :func:`build` has checked it."""
Named: TypeAlias = str | TomlTable
"""A task, split or strategy in a profile: its name, or a table with its name and its parameters."""
_META = "edgebed"
_KIND = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


class ParameterError(ValueError):
    """A value is in its range but does not fit the other values. The loader converts it to a ProfileError."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}")
        self.key, self.problem = key, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The meaning of a parameter and the values that it allows."""

    meaning: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] | None = None

    def allows(self, value: float | str) -> bool:
        if isinstance(value, str):
            return self.choices is None or value in self.choices
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def limited(self, most: float) -> Range:
        """The same range with ``most`` as upper limit, and −``most`` as lower one, where it has none of its own."""
        open_above, open_below = self.at_most is self.below is None, self.at_least is self.above is None
        return dataclasses.replace(
            self, at_most=most if open_above else self.at_most, at_least=-most if open_below else self.at_least
        )

    def __str__(self) -> str:
        parts = (("at least", self.at_least), ("above", self.above), ("at most", self.at_most), ("below", self.below))
        bounds = " and ".join(f"{word} {bound:g}" for word, bound in parts if bound is not None)
        if self.choices is None:
            return bounds or "any value"
        names = ", ".join(self.choices)
        return f"{bounds}, or {names}" if bounds else f"one of {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a dataclass."""

    name: str
    kind: Any
    """Its type, such as ``float | None``."""
    default: Any
    """``MISSING`` if it is required."""
    allowed: Range

    @property
    def required(self) -> bool:
        return self.default is MISSING


def param(
    default: Any = MISSING,
    meaning: str = "",
    *,
    default_factory: Any = MISSING,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """Return a keyword-only dataclass field with a meaning and a range."""
    allowed = Range(meaning=meaning, at_least=at_least, above=above, at_most=at_most, below=below, choices=choices)
    if default_factory is not MISSING:
        return dataclasses.field(default_factory=default_factory, kw_only=True, metadata={_META: allowed})
    return dataclasses.field(default=default, kw_only=True, metadata={_META: allowed})


def build(cls: type[T], table: object, source: str, key: str = "") -> T:
    """Return ``cls`` built from a table. Raises ProfileError for unknown keys, wrong types and values out of range."""
    if not isinstance(table, Mapping):
        raise ProfileError(source, key, f"is {table!r}; it must be a table")
    known = {parameter.name: parameter for parameter in parameters_of(cls)}
    prefix = f"{key}." if key else ""
    for name in table:
        if name not in known:
            raise ProfileError(source, f"{prefix}{name}", f"is not a known key; {nearest(str(name), known)}")
    values: dict[str, object] = {}
    for name, parameter in known.items():
        if name in table:
            values[name] = _value(parameter.kind, table[name], parameter.allowed, source, f"{prefix}{name}")
        elif parameter.required:
            raise ProfileError(source, f"{prefix}{name}", _missing(f"{prefix}{name}", parameter.allowed))
    return cls(**values)


def _missing(key: str, allowed: Range) -> str:
    bounds = "" if str(allowed) == "any value" else str(allowed)
    wanted = ", ".join(filter(None, (allowed.meaning, bounds))) or "it is required"
    return f"is missing: {wanted}; add it to the file, or use --set {key}=…"


def parameters_of(cls: type[Any]) -> Iterator[Parameter]:
    """Yield the parameters of a dataclass, in order."""
    hints = typing.get_type_hints(cls)
    for field in _settable(cls):
        yield Parameter(
            name=field.name,
            kind=hints[field.name],
            default=field.default if field.default_factory is MISSING else field.default_factory(),
            allowed=field.metadata.get(_META, Range(meaning="")),
        )


def parameter_of(cls: type[Any], name: str) -> Parameter:
    """Return the parameter of this name."""
    (found,) = (parameter for parameter in parameters_of(cls) if parameter.name == name)
    return found


def describe(cls: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, default, allowed values and meaning of each parameter of ``cls``."""
    for parameter in parameters_of(cls):
        default = "required" if parameter.required else _plain(parameter.default)
        yield parameter.name, default, str(parameter.allowed), parameter.allowed.meaning


def as_table(value: Any) -> Any:
    """Return dataclasses as tables, without keys that are unset: the inverse of :func:`build`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in _settable(type(value)))
        return {name: as_table(item) for name, item in pairs if item is not None}
    if isinstance(value, Mapping):
        return {name: as_table(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_table(item) for item in value]
    return value


def _settable(cls: type[Any]) -> Iterator[dataclasses.Field[Any]]:
    return (field for field in dataclasses.fields(cls) if field.init)


def _plain(value: object) -> str:
    if dataclasses.is_dataclass(value) or isinstance(value, (dict, tuple)):
        return "see its table"
    return "unset" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def checked_value(parameter: Parameter, value: Any, source: str, key: str) -> Any:
    """Return the value of one parameter, as :func:`build` would. Raises ProfileError."""
    return _value(parameter.kind, value, parameter.allowed, source, key)


def _value(kind: Any, value: Any, allowed: Range, source: str, key: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(kind, value, allowed, source, key)
    if dataclasses.is_dataclass(kind):
        return build(typing.cast("type[Any]", kind), value, source, key)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ProfileError(source, key, f"is {value!r}; it must be a list")
        item = typing.get_args(kind)[0]
        return tuple(_value(item, each, allowed, source, f"{key}[{i}]") for i, each in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ProfileError(source, key, f"is {value!r}; it must be a table")
        item = typing.get_args(kind)[1]
        if item is Any:
            return dict(value)
        return {name: _value(item, each, allowed, source, f"{key}.{name}") for name, each in value.items()}
    return _scalar(kind, value, allowed, source, key)


def _union(kind: Any, value: Any, allowed: Range, source: str, key: str) -> Any:
    """Build a value of type ``X | None`` (TOML has no null: absent means None) or ``str | table``."""
    options = [option for option in typing.get_args(kind) if option is not type(None)]
    if len(options) == 1:
        return _value(options[0], value, allowed, source, key)
    table = next((option for option in options if dataclasses.is_dataclass(option)), None)
    if table is not None and isinstance(value, Mapping):
        return build(typing.cast("type[Any]", table), value, source, key)
    if float in options and isinstance(value, int) and not isinstance(value, bool):
        return _value(float, value, allowed, source, key)
    for option in options:
        if option is not table and isinstance(value, typing.get_origin(option) or option):
            return _value(option, value, allowed, source, key)
    names = " or ".join("a table" if option is table else _KIND.get(option, "a table") for option in options)
    raise ProfileError(source, key, f"is {value!r}; it must be {names}")


def _scalar(kind: Any, value: Any, allowed: Range, source: str, key: str) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        # Python integers have no limit; those of TOML, of messages and of floats have one
        raise ProfileError(source, key, "is too large a number; whole numbers have at most 64 bits")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    # in Python, a bool is an int
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ProfileError(source, key, f"is {value!r}; it must be {_KIND[kind]}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ProfileError(source, key, f"is {value}; it must be finite")
    if isinstance(value, str) and allowed.choices and value not in allowed.choices:
        raise ProfileError(source, key, f"is {value!r}; {nearest(value, allowed.choices)}")
    for limits in (allowed, allowed.limited(MOST_COUNT if kind is int else MOST_FACTOR)):
        if not limits.allows(value):
            raise ProfileError(source, key, f"is {value}; it must be {limits}")
    return value
