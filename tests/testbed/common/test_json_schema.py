"""A dataclass of parameters as JSON schema: types, ranges, choices, defaults and nested tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from testbed.common.errors import ProfileError
from testbed.common.json_schema import JsonSchema, table_schema
from testbed.common.json_text import json_text
from testbed.common.parameters import Named, build, param


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A table in a table."""

    size: int = param(2, "a size", at_least=1, at_most=9)
    word: str = param(meaning="a word")


@dataclass(frozen=True, kw_only=True)
class Usual:
    """A table whose keys have defaults."""

    size: int = param(2, "a size")


@dataclass(frozen=True, kw_only=True)
class Outer:
    """A table.

    Only the first line is shown.
    """

    rate: float = param(meaning="a rate", above=0, below=1)
    flag: bool = param(False, "a flag")
    kind: str = param("x", "a kind", choices=("x", "y"))
    unset: int | None = param(None, "a number", at_least=0)
    either: float | str = param(1.0, "a number or a word", above=0, choices=("auto",))
    by_name: float | dict[str, float] | None = param(None, "a number, or a table", above=0)
    sizes: tuple[int, ...] = param((), "numbers", at_least=1)
    parts: tuple[Inner, ...] = param((), "tables")
    inner: Inner = param(Inner(size=3, word="w"), "a table")
    same: Inner = param(Inner(word="w"), "a table")
    usual: Usual = param(Usual(), "a table")
    named: Named = param("n", "a name, or a table")


def plain(schema: JsonSchema) -> Any:
    return json.loads(json_text(schema))


def properties(cls: type[Any]) -> dict[str, Any]:
    found: dict[str, Any] = plain(table_schema(cls))["properties"]
    return found


def test_a_schema_is_valid_refuses_unknown_keys_and_names_the_required_ones() -> None:
    schema = plain(table_schema(Outer))
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["description"] == "A table."
    assert schema["required"] == ["rate"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("rate", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "description": "a rate"}),
        ("flag", {"type": "boolean", "default": False, "description": "a flag"}),
        ("kind", {"type": "string", "enum": ["x", "y"], "default": "x", "description": "a kind"}),
        ("unset", {"type": "integer", "minimum": 0, "description": "a number"}),
        (
            "either",
            {
                "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "enum": ["auto"]}],
                "default": 1.0,
                "description": "a number or a word",
            },
        ),
        (
            "by_name",
            {
                "anyOf": [
                    {"type": "number", "exclusiveMinimum": 0},
                    {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
                ],
                "description": "a number, or a table",
            },
        ),
        (
            "sizes",
            {"type": "array", "items": {"type": "integer", "minimum": 1}, "default": [], "description": "numbers"},
        ),
        (
            "named",
            {"anyOf": [{"type": "string"}, {"type": "object"}], "default": "n", "description": "a name, or a table"},
        ),
    ],
)
def test_a_key_has_type_range_choices_default_and_meaning(key: str, expected: dict[str, Any]) -> None:
    assert properties(Outer)[key] == expected


def test_a_nested_table_has_its_own_schema_and_the_meaning_of_its_key() -> None:
    inner = properties(Outer)["inner"]
    assert inner["description"] == "a table"
    assert inner["properties"] == properties(Inner)
    assert properties(Outer)["parts"]["items"] == plain(table_schema(Inner))


def test_the_default_of_a_table_has_only_what_differs_from_the_defaults_of_its_keys() -> None:
    found = properties(Outer)
    assert found["inner"]["default"] == {"size": 3, "word": "w"}
    assert found["same"]["default"] == {"word": "w"}
    assert "default" not in found["usual"]


def test_a_given_schema_replaces_that_of_the_type_and_keeps_meaning_and_default() -> None:
    schema = plain(table_schema(Outer, {"kind": JsonSchema(pattern="^z")}))
    assert schema["properties"]["kind"] == {"pattern": "^z", "default": "x", "description": "a kind"}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"rate": 0},
        {"rate": 1},
        {"rate": True},
        {"rate": "0.5"},
        {"flag": 1},
        {"kind": "z"},
        {"unset": -1},
        {"unset": 1.5},
        {"either": 0},
        {"either": "auto"},
        {"either": "never"},
        {"by_name": {"a": 1}},
        {"by_name": {"a": 0}},
        {"by_name": "a"},
        {"sizes": [1, 2]},
        {"sizes": [0]},
        {"sizes": 1},
        {"parts": [{"word": "w"}]},
        {"parts": [{}]},
        {"inner": {"word": "w", "size": 10}},
        {"named": {"any": "thing"}},
        {"named": 1},
        {"other": 1},
    ],
    ids=str,
)
def test_a_schema_accepts_exactly_what_build_accepts(change: dict[str, Any]) -> None:
    table = {"rate": 0.5} | change
    try:
        build(Outer, table, "test")
        accepted = True
    except ProfileError:
        accepted = False
    assert jsonschema.Draft7Validator(plain(table_schema(Outer))).is_valid(table) == accepted
