"""Remembered surveys: which entry is found, and a file that is damaged, old, full or not writable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.host import survey_memory
from testbed.host.survey import StepTime, Survey
from testbed.host.survey_memory import YOUNG_SECONDS, SurveyTimes

STEP = StepTime(samples=32, seconds=0.002, alone=0.001, slow=0.004)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def times(age: float = 0.0) -> SurveyTimes:
    return SurveyTimes(measured_at=survey_memory.now() - age, steps=(STEP,), flops_forward=7, metrics=("loss",))


def test_times_are_found_under_their_name_until_they_are_dropped() -> None:
    kept = times()
    survey_memory.keep("mine", kept)
    assert survey_memory.find("mine") == kept
    assert survey_memory.find("other") is None
    survey_memory.drop("other")
    survey_memory.drop("mine")
    assert survey_memory.find("mine") is None


@pytest.mark.parametrize(
    ("age", "found"), [(60.0, True), (YOUNG_SECONDS - 60, True), (YOUNG_SECONDS + 1, False), (-60.0, False)]
)
def test_times_that_are_too_old_or_of_the_future_are_not_found(age: float, found: bool) -> None:
    survey_memory.keep("mine", times(age))
    assert (survey_memory.find("mine") is not None) == found


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"mine": {"steps": 3}}', bytes(range(256))])
def test_a_damaged_file_is_no_error_and_is_replaced(content: bytes) -> None:
    survey_memory.place().parent.mkdir(parents=True)
    survey_memory.place().write_bytes(content)
    assert survey_memory.entries() == {}
    survey_memory.keep("mine", times())
    assert survey_memory.find("mine") is not None


def test_a_cache_that_cannot_be_written_is_no_error(own_cache: Path) -> None:
    own_cache.write_text("a file where the folder should be", encoding="utf-8")
    survey_memory.keep("mine", times())
    assert survey_memory.find("mine") is None


def test_only_the_user_can_read_the_file_and_no_draft_is_left() -> None:
    survey_memory.keep("mine", times())
    assert survey_memory.place().stat().st_mode & 0o777 == 0o600
    assert os.listdir(survey_memory.place().parent) == [survey_memory.place().name]


def test_the_oldest_entries_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_memory, "_MOST_ENTRIES", 3)
    for number in range(5):
        survey_memory.keep(str(number), times(age=500.0 - number))
    assert survey_memory.entries().keys() == {"2", "3", "4"}


def test_a_name_depends_on_the_task_and_on_each_fact_about_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [survey_memory.key({"task": "digits"})]
    assert names == [survey_memory.key({"task": "digits"})]
    names.append(survey_memory.key({"task": "mnist"}))
    for where, value in {
        "testbed.host.kernel.governor": "another",
        "testbed.host.kernel.processor": "another",
        "testbed.host.survey_memory._machine": "another",
        "platform.release": "another",
        "platform.python_version": "another",
        "os.sched_getaffinity": {7},
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(where, lambda *_, value=value: value)
            names.append(survey_memory.key({"task": "digits"}))
    with monkeypatch.context() as patch:
        patch.setattr(survey_memory, "__version__", "another")
        names.append(survey_memory.key({"task": "digits"}))
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("choice", "wanted"), [(None, True), ("remembered", True), ("new", False)])
def test_the_user_may_ask_for_a_new_survey(monkeypatch: pytest.MonkeyPatch, choice: str | None, wanted: bool) -> None:
    monkeypatch.delenv(survey_memory.CHOICE, raising=False)
    if choice is not None:
        monkeypatch.setenv(survey_memory.CHOICE, choice)
    assert survey_memory.is_wanted() is wanted


def test_times_of_a_slower_host_are_longer_and_counts_are_the_same() -> None:
    (slower,) = times().slower(1.5).steps
    assert slower == StepTime(samples=32, seconds=0.003, alone=0.0015, slow=0.006)
    assert times().slower(1.5).flops_forward == 7


def test_a_survey_says_how_old_it_was() -> None:
    assert Survey(measured_at=1e9).origin == "survey of this moment"
    old = Survey(measured_at=1e9, age_seconds=730.0)
    assert old.is_remembered
    assert old.origin.startswith("survey of ")
    assert old.origin.endswith(" (12 min ago)")
