"""Structs as JSON files: they are read back as they were written, by this version and by later ones."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from testbed.common.json_text import json_text
from testbed.runs.results.certificate import Certificate, Invariant, Verdict
from testbed.runs.results.replay_result import DelayErrors, ReplayCertificate
from testbed.runs.results.result_files import read_struct
from testbed.runs.results.run_meta import Meta
from testbed.runs.results.summary import SCHEMA, Summary
from tests.testbed.runs.complete import complete_run

CERTIFICATE = Certificate(
    verdict=Verdict.WARN,
    invariants=(
        Invariant(name="loss", verdict=Verdict.NOT_MEASURED, found="größer als „≤ 5 %“"),
        Invariant(name="step time", verdict=Verdict.WARN, found="x", worst="pi-1", figures={"p99": 0.5, "misses": 3}),
    ),
)
REPLAY = ReplayCertificate(
    trace="t", mode="strict", delays={"all": DelayErrors(count=1, p50_s=0.5, p99_s=0.5, max_s=0.5), "upload": None}
)


@pytest.mark.parametrize("value", [CERTIFICATE, REPLAY, Meta(edgebed="1", packages={"torch": "2"})])
def test_a_struct_is_read_back_as_it_was_written(tmp_path: Path, value: msgspec.Struct) -> None:
    path = tmp_path / "file.json"
    path.write_text(json_text(value) + "\n", encoding="utf-8")
    assert read_struct(path, type(value)) == value


def test_all_keys_are_written_and_text_is_not_escaped(tmp_path: Path) -> None:
    folder = complete_run(tmp_path)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert list(summary) == list(Summary.__struct_fields__)
    assert (summary["schema"], summary["torn_line"]) == (SCHEMA, None)
    assert list(summary["replay"]) == list(ReplayCertificate.__struct_fields__)
    assert summary["replay"]["problem"] is None
    assert '"größe"' in (folder / "summary.json").read_text(encoding="utf-8")
    assert "\\u" not in (folder / "fidelity.json").read_text(encoding="utf-8")


def test_a_file_that_does_not_exist_is_none(tmp_path: Path) -> None:
    assert read_struct(tmp_path / "gone.json", Certificate) is None


def test_keys_of_a_newer_version_of_the_same_schema_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "fidelity.json"
    path.write_text(json.dumps({"schema": SCHEMA, "verdict": "PASS", "invariants": [], "unheard": 5}))
    assert read_struct(path, Certificate) == Certificate(verdict=Verdict.PASS, invariants=())


def test_a_certificate_lists_the_invariants_with_a_verdict() -> None:
    assert [line.name for line in CERTIFICATE.of(Verdict.WARN)] == ["step time"]
    assert CERTIFICATE.of(Verdict.FAIL) == []
