"""Every field of a result has a meaning: documentation follows from the definitions."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from testbed.common.documented import FieldMeaning, doc, entries, meanings
from testbed.runs.results.certificate import Certificate
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.results.run_meta import Meta
from testbed.runs.results.summary import Summary
from testbed.runs.results.table_rows import DeviceRow, MetricRow, RoundRow, VersionRow

RESULTS = [Summary, Meta, Certificate, ReplayCertificate, MetricRow, VersionRow, DeviceRow, RoundRow]


@pytest.mark.parametrize("kind", RESULTS)
def test_every_field_has_a_meaning_in_its_order(kind: type[msgspec.Struct]) -> None:
    found = list(meanings(kind))
    assert all(line.meaning.strip() for line in found)
    fields = list(dict.fromkeys(line.name.partition(".")[0] for line in found))
    assert fields == list(kind.__struct_fields__)
    names = [line.name for line in found]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", RESULTS)
def test_meanings_are_lines_of_a_table(kind: type[msgspec.Struct]) -> None:
    for line in meanings(kind):
        assert "\n" not in f"{line.name}{line.unit}{line.meaning}"
        assert "|" not in line.name
        assert not line.meaning.endswith(".")


def lines_of(kind: type[msgspec.Struct]) -> dict[str, FieldMeaning]:
    return {line.name: line for line in meanings(kind)}


def test_nested_fields_have_dotted_names() -> None:
    summary = lines_of(Summary)
    assert summary["energy.by_phase_j.<phase>"].unit == "J"
    assert summary["scores.<metric>.last"] == FieldMeaning(
        "scores.<metric>.last", "by task", "score of the last scored version, for each metric"
    )
    assert {"to_accuracy.<level>.joules", "host_energy.joules.<package>", "reasons.<reason>"} <= summary.keys()
    assert {"energy", "scores", "to_accuracy", "host_energy"}.isdisjoint(summary)
    assert {"host.memory_bytes", "packages.<package>", "calibration", "core_plan"} <= lines_of(Meta).keys()
    certificate = lines_of(Certificate)
    assert {"verdict", "invariants.<n>.name", "invariants.<n>.figures.<figure>"} <= certificate.keys()
    assert {"delays.<kind>.p99_s", "same_model"} <= lines_of(ReplayCertificate).keys()
    assert lines_of(MetricRow)["scores.<metric>"].unit == "by task"


# ---- any struct


class Inner(msgspec.Struct):
    seconds: Annotated[float, doc("how long", "s")]


class Outer(msgspec.Struct):
    own: Annotated[int, doc("a number")]
    plain: Inner
    maybe: Inner | None
    named: Annotated[dict[str, Inner], entries("name")]
    listed: Annotated[tuple[Inner, ...], entries("n")]
    words: Annotated[dict[str, int], doc("how often", key="word")]
    whole: Annotated[Inner, doc("not described by its parts")]


def test_the_meanings_of_a_struct_and_of_those_in_it() -> None:
    assert [tuple(line) for line in meanings(Outer)] == [
        ("own", "", "a number"),
        ("plain.seconds", "s", "how long"),
        ("maybe.seconds", "s", "how long"),
        ("named.<name>.seconds", "s", "how long"),
        ("listed.<n>.seconds", "s", "how long"),
        ("words.<word>", "", "how often"),
        ("whole", "", "not described by its parts"),
    ]


def test_a_field_without_a_meaning_is_named() -> None:
    class Silent(msgspec.Struct):
        seconds: float

    with pytest.raises(ValueError, match=r"Silent\.seconds has no meaning: declare it with doc\(\)"):
        list(meanings(Silent))
