"""Parameters: values that are accepted and refused, and the error messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from testbed.common.errors import ProfileError
from testbed.common.parameters import as_table, build, describe, param


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: int = param(1, "how deep", at_least=0)


@dataclass(frozen=True, kw_only=True)
class Sample:
    must: str = param(meaning="a required value")
    share: float = param(0.5, "a share", above=0, at_most=1)
    chance: float = param(0.0, "a chance", at_least=0, below=1)
    count: int = param(1, "how many", at_least=1, at_most=10)
    flag: bool = param(False, "whether")
    colour: str = param("red", "which", choices=("red", "green"))
    limit: float | None = param(None, "at most this", above=0)
    inner: Inner = param(Inner(), "a table")
    items: tuple[Inner, ...] = param((), "a list of tables")
    speeds: dict[str, float] = param(default_factory=dict, meaning="speed by task", above=0)
    either: str | Inner = param("name", "a name or a table")
    free: str | dict[str, Any] = param("name", "a name or a table of anything")


def make(**table: object) -> Sample:
    return build(Sample, {"must": "x", **table}, "some.toml")


def refusal(**table: object) -> str:
    with pytest.raises(ProfileError) as caught:
        make(**table)
    return str(caught.value)


def test_a_missing_key_has_its_default() -> None:
    sample = make()
    assert (sample.share, sample.count, sample.limit, sample.inner.depth) == (0.5, 1, None, 1)


def test_a_whole_number_is_accepted_as_a_number() -> None:
    share = make(share=1).share
    assert share == 1.0
    assert isinstance(share, float)


@pytest.mark.parametrize(
    ("key", "value"),
    [("share", 1.0), ("share", 1e-9), ("chance", 0.0), ("chance", 0.999), ("count", 1), ("count", 10), ("limit", 0.1)],
)
def test_a_value_within_its_bounds_is_accepted(key: str, value: float) -> None:
    assert getattr(make(**{key: value}), key) == value


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("share", 0.0, "above 0 and at most 1"),
        ("share", 1.001, "above 0 and at most 1"),
        ("chance", -0.001, "at least 0 and below 1"),
        ("chance", 1.0, "at least 0 and below 1"),
        ("count", 0, "at least 1 and at most 10"),
        ("count", 11, "at least 1 and at most 10"),
        ("limit", 0.0, "above 0"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(key: str, value: float, allowed: str) -> None:
    assert refusal(**{key: value}) == f"some.toml: {key} is {value}; it must be {allowed}"


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("count", True, "a whole number"),
        ("count", 1.0, "a whole number"),
        ("count", "1", "a whole number"),
        ("share", True, "a number"),
        ("share", "0.5", "a number"),
        ("limit", False, "a number"),
        ("flag", 1, "true or false"),
        ("flag", "true", "true or false"),
        ("must", 5, "a string"),
        ("inner", 5, "a table"),
        ("items", {"depth": 1}, "a list"),
        ("speeds", [1.0], "a table"),
        ("either", 5, "a string or a table"),
        ("free", [], "a string or a table"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_the_right_type(key: str, value: object, wanted: str) -> None:
    assert refusal(**{key: value}) == f"some.toml: {key} is {value!r}; it must be {wanted}"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused(value: float) -> None:
    assert refusal(share=value) == f"some.toml: share is {value}; it must be finite"


@pytest.mark.parametrize("key", ["count", "share"])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400])
def test_a_whole_number_beyond_64_bits_is_refused(key: str, value: int) -> None:
    assert f"{key} is too large a number" in refusal(**{key: value})


def test_an_unknown_key_is_refused_with_the_most_similar_one() -> None:
    assert "some.toml: cuont is not a known key; did you mean 'count'?" in refusal(cuont=3)


def test_an_unknown_key_without_a_similar_one_is_refused_with_all_keys() -> None:
    message = refusal(zzzzzz=3)
    assert "did you mean" not in message
    assert "known: chance, colour, count" in message


def test_an_unknown_choice_is_refused_with_the_most_similar_one() -> None:
    assert refusal(colour="gren") == "some.toml: colour is 'gren'; did you mean 'green'? (known: green, red)"


def test_a_missing_key_is_refused_with_its_meaning() -> None:
    with pytest.raises(
        ProfileError,
        match=r"^some\.toml: must is missing: a required value; add it to the file, or use --set must=…$",
    ):
        build(Sample, {}, "some.toml")


def test_a_value_that_is_not_a_table_is_refused() -> None:
    with pytest.raises(ProfileError, match=r"^some\.toml: it\.there is \[\]; it must be a table$"):
        build(Sample, [], "some.toml", "it.there")


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"inner": {"depth": -1}}, "inner.depth"),
        ({"items": [{"depth": 1}, {"depth": -1}]}, "items[1].depth"),
        ({"speeds": {"digits": 0.0}}, "speeds.digits"),
        ({"either": {"depth": -1}}, "either.depth"),
        ({"inner": {"dept": 1}}, "inner.dept"),
    ],
)
def test_an_error_inside_a_table_or_list_names_the_full_key(table: dict[str, Any], key: str) -> None:
    assert refusal(**table).startswith(f"some.toml: {key} is ")


def test_a_union_accepts_a_name_or_a_table() -> None:
    assert make(either="rpi4").either == "rpi4"
    assert make(either={"depth": 4}).either == Inner(depth=4)
    assert make(free={"any": ["thing", 1]}).free == {"any": ["thing", 1]}


FULL = {
    "must": "x",
    "share": 0.25,
    "chance": 0.5,
    "count": 3,
    "flag": True,
    "colour": "green",
    "limit": 2.5,
    "inner": {"depth": 2},
    "items": [{"depth": 3}, {"depth": 4}],
    "speeds": {"digits": 0.5},
    "either": {"depth": 5},
    "free": {"name": "n", "lr": 0.5},
}


def test_a_table_is_restored_from_the_object_built_from_it() -> None:
    assert as_table(build(Sample, FULL, "some.toml")) == FULL


def test_an_object_is_restored_from_its_table() -> None:
    sample = make(items=[{"depth": 3}])
    table = as_table(sample)
    assert "limit" not in table  # TOML has no null
    assert build(Sample, table, "some.toml") == sample


def test_each_parameter_is_described_with_default_range_and_meaning() -> None:
    rows = {name: rest for name, *rest in describe(Sample)}
    assert rows["must"] == ["required", "any value", "a required value"]
    assert rows["share"] == ["0.5", "above 0 and at most 1", "a share"]
    assert rows["limit"] == ["unset", "above 0", "at most this"]
    assert rows["colour"] == ["red", "one of red, green", "which"]
    assert rows["speeds"][0] == "see its table"
