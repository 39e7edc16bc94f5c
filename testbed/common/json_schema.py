"""JSON Schema of parameter dataclasses: editors complete and check the tables that ``build`` reads.

The schemas are draft 7, the newest draft that taplo (the editor extension Even Better TOML) checks by. In draft 7,
keywords beside ``$ref`` have no effect.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from testbed.common.parameters import Parameter, parameters_of

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


class EditorDocs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Texts that taplo shows beside its suggestions."""

    enum_values: Sequence[str]
    """One for each value of ``enum``."""


class EditorHints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hints for taplo; other programs ignore them."""

    hidden: bool = False
    """Whether the key is accepted but not suggested."""
    docs: EditorDocs | None = None


class JsonSchema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A schema with the keywords that profiles need. A keyword with its default is left out."""

    schema: str | None = msgspec.field(name="$schema", default=None)
    ref: str | None = msgspec.field(name="$ref", default=None)
    title: str | None = None
    description: str | None = None
    deprecated: bool = False
    hints: EditorHints | None = msgspec.field(name="x-taplo", default=None)
    type: str | None = None
    const: str | None = None
    enum: Sequence[str] | None = None
    pattern: str | None = None
    minimum: float | None = None
    exclusive_minimum: float | None = None
    maximum: float | None = None
    exclusive_maximum: float | None = None
    default: Any = None
    items: JsonSchema | None = None
    properties: Mapping[str, JsonSchema] = msgspec.field(default_factory=dict)
    required: Sequence[str] | None = None
    additional_properties: JsonSchema | bool | None = None
    any_of: Sequence[JsonSchema] | None = None
    all_of: Sequence[JsonSchema] | None = None
    not_: JsonSchema | None = msgspec.field(name="not", default=None)
    if_: JsonSchema | None = msgspec.field(name="if", default=None)
    then: JsonSchema | None = None
    definitions: Mapping[str, JsonSchema] = msgspec.field(default_factory=dict)


def reference(definition: str) -> JsonSchema:
    """Return a schema that stands for one of the ``definitions`` of the whole."""
    return JsonSchema(ref=f"#/definitions/{definition}")


def table_schema(cls: type[Any], given: Mapping[str, JsonSchema] | None = None) -> JsonSchema:
    """Return the schema of the tables from which ``build`` makes ``cls``.

    ``given``: schemas of keys whose type and range do not say everything.
    """
    parameters = list(parameters_of(cls))
    schemas = {parameter.name: _value(parameter.kind, parameter) for parameter in parameters} | dict(given or {})
    return JsonSchema(
        type="object",
        description=(cls.__doc__ or "").strip().partition("\n")[0] or None,
        properties={parameter.name: _described(schemas[parameter.name], parameter) for parameter in parameters},
        required=[parameter.name for parameter in parameters if parameter.required] or None,
        additional_properties=False,
    )


def _described(schema: JsonSchema, parameter: Parameter) -> JsonSchema:
    default = None if parameter.required else _changed(parameter.default)
    meaning = parameter.allowed.meaning or schema.description
    return msgspec.structs.replace(schema, description=meaning, default=default)


def _changed(default: object) -> object:
    """Return a default as a profile would write it: of a table only the keys that differ from their own defaults."""
    if not dataclasses.is_dataclass(default):
        return default
    pairs = ((parameter, getattr(default, parameter.name)) for parameter in parameters_of(type(default)))
    return {parameter.name: _changed(value) for parameter, value in pairs if value != parameter.default} or None


def _value(kind: Any, parameter: Parameter) -> JsonSchema:
    """Return the schema of the values that ``build`` accepts for a type."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        options = [_value(option, parameter) for option in typing.get_args(kind) if option is not type(None)]
        return options[0] if len(options) == 1 else JsonSchema(any_of=options)
    if dataclasses.is_dataclass(kind):
        return table_schema(typing.cast("type[Any]", kind))
    if origin is tuple:
        return JsonSchema(type="array", items=_value(typing.get_args(kind)[0], parameter))
    if origin is dict:
        item = typing.get_args(kind)[1]
        return JsonSchema(type="object", additional_properties=None if item is Any else _value(item, parameter))
    allowed = parameter.allowed
    if kind in (int, float):
        return JsonSchema(
            type=_TYPES[kind],
            minimum=allowed.at_least,
            exclusive_minimum=allowed.above,
            maximum=allowed.at_most,
            exclusive_maximum=allowed.below,
        )
    return JsonSchema(type=_TYPES[kind], enum=allowed.choices if kind is str else None)
