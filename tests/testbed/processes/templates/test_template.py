"""When the template uses the times of an earlier survey."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from testbed.common.files.opened_files import FileMarks, OpenedFiles
from testbed.common.parameters import ParameterError
from testbed.host import calibration, survey_memory
from testbed.host.calibration import PressureMeter
from testbed.host.survey import StepTime, Survey
from testbed.host.survey_memory import AGREES, BUSY, SurveyTimes
from testbed.learning.training.task import Task
from testbed.processes.templates import template
from testbed.processes.templates.template import TemplateRequest
from testbed.wire.training_job import Job

STEP = StepTime(samples=32, seconds=0.002, alone=0.001, slow=0.004)
REQUEST = TemplateRequest(
    source="mine",
    task="digits",
    parameters={},
    devices=2,
    data_seed=0,
    model_seed=0,
    job=Job(),
    crowd={1: 2},
    flops=False,
    strategy="",
)
TASK = cast("Task", SimpleNamespace(size=10, work=1.0, data_sha256="", shards=[[0, 1], [2]], notes=()))


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SurveyTimes:
    """Times of a minute ago, under the name that the request has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = SurveyTimes(measured_at=survey_memory.now() - 60, steps=(STEP,), metrics=("loss",))
    survey_memory.keep(survey_memory.key(template._dependencies(TASK, REQUEST, 2)), kept)
    return kept


def surveyed(
    monkeypatch: pytest.MonkeyPatch,
    slowdown: float | list[float],
    request: TemplateRequest = REQUEST,
    pressure: float = 0.0,
    files: FileMarks = FileMarks({}),  # noqa: B008  it is frozen
    meanwhile: Callable[[], object] = lambda: None,
) -> Survey:
    """Return the survey on a host on which steps take ``slowdown`` times as long as remembered, check by check.

    ``meanwhile`` is called while steps are timed.
    """
    new = SurveyTimes(measured_at=survey_memory.now(), steps=(STEP.slower(9.0),))

    def slower(steps: object, earlier: object, core: int, meter: PressureMeter) -> float:
        meter.share = pressure
        return slowdown.pop(0) if isinstance(slowdown, list) else slowdown

    def measured(task: Task, request: TemplateRequest, folder: Path, largest: int, meter: PressureMeter) -> SurveyTimes:
        meter.share = pressure
        meanwhile()
        return new

    monkeypatch.setattr(calibration, "slowdown", slower)
    monkeypatch.setattr(template, "_measured", measured)
    return template._survey(TASK, request, Path(), files)


@pytest.mark.parametrize("slowdown", [1 / AGREES, 0.9, 1.0])
def test_remembered_times_are_used_as_they_are_if_the_host_is_not_slower(
    monkeypatch: pytest.MonkeyPatch, slowdown: float
) -> None:
    survey = surveyed(monkeypatch, slowdown)
    assert survey.steps == (STEP,)
    assert survey.metrics == ("loss",)
    assert 59 < survey.age_seconds < 600


def test_remembered_times_are_longer_on_a_host_that_is_a_little_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    assert surveyed(monkeypatch, 1.2).steps == (STEP.slower(1.2),)


@pytest.mark.parametrize("slowdown", [0.5, 1.3, 3.0])
def test_a_host_of_another_speed_is_measured(monkeypatch: pytest.MonkeyPatch, slowdown: float) -> None:
    survey = surveyed(monkeypatch, slowdown)
    assert (survey.steps, survey.age_seconds) == ((STEP.slower(9.0),), 0.0)
    assert survey_memory.entries()[survey.key].steps == survey.steps


@pytest.mark.parametrize(("checks", "is_remembered"), [([3.0, 1.0], True), ([0.5, 1.2], True), ([1.3, 1.3], False)])
def test_a_check_that_contradicts_the_remembered_times_is_repeated_once(
    monkeypatch: pytest.MonkeyPatch, checks: list[float], is_remembered: bool
) -> None:
    assert surveyed(monkeypatch, checks).is_remembered is is_remembered
    assert not checks


def test_sizes_are_never_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    survey = surveyed(monkeypatch, 1.0)
    assert (survey.parameters, survey.samples) == (10, (2, 1))


def test_a_new_survey_is_made_if_the_user_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not surveyed(monkeypatch, 1.0, msgspec.structs.replace(REQUEST, remembered=False)).is_remembered


@pytest.mark.parametrize(
    "change",
    [
        {"task": "mnist"},
        {"parameters": {"model": "mlp"}},
        {"devices": 3},
        {"job": Job(batch=8)},
        {"crowd": {1: 3}},
        {"flops": True},
    ],
)
def test_another_task_is_measured(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    assert not surveyed(monkeypatch, 1.0, msgspec.structs.replace(REQUEST, **change)).is_remembered


def test_times_of_a_busy_host_are_not_remembered(monkeypatch: pytest.MonkeyPatch, remembered: SurveyTimes) -> None:
    survey = surveyed(monkeypatch, 3.0, pressure=BUSY + 0.01)
    assert survey.steps == (STEP.slower(9.0),)
    assert survey_memory.entries() == {survey.key: remembered}


def test_times_are_neither_used_nor_remembered_if_a_file_has_changed_since_it_was_read(
    monkeypatch: pytest.MonkeyPatch, remembered: SurveyTimes
) -> None:
    survey = surveyed(monkeypatch, 1.0, files=FileMarks({__file__.encode(): (0, 0)}))
    assert not survey.is_remembered
    assert survey_memory.entries() == {survey.key: remembered}


OWN_TASK = "from testbed.learning.tasks.digits import Digits\nclass Own(Digits):\n    pass\n"


@pytest.mark.parametrize("meanwhile", ["edited", "imported", "nothing"])
def test_times_are_not_remembered_if_a_module_was_edited_or_first_imported_while_they_were_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, meanwhile: str
) -> None:
    module, name = tmp_path / f"{meanwhile}_task.py", f"{meanwhile}_helper"
    module.write_text(OWN_TASK, encoding="utf-8")
    (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    actions: dict[str, Callable[[], object]] = {
        "edited": lambda: module.write_text(OWN_TASK + "# slower\n", encoding="utf-8"),
        "imported": lambda: importlib.import_module(name),
        "nothing": lambda: None,
    }
    request = msgspec.structs.replace(REQUEST, task=f"{module.stem}:Own")
    survey = surveyed(monkeypatch, 1.0, request, meanwhile=actions[meanwhile])
    assert (survey.key in survey_memory.entries()) is (meanwhile == "nothing")


@pytest.mark.parametrize("key", ["estimator", "data_from", "data_from with parameters"])
def test_an_estimator_or_data_of_a_user_is_measured_again_when_its_module_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    module = tmp_path / f"own_part_{key.count(' ')}_{key[0]}.py"
    module.write_text("class Mine: pass", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module(module.stem)
    own = f"{module.stem}:Mine"
    key, _, more = key.partition(" ")
    parameters = {"estimator": "sklearn.linear_model:SGDClassifier", "data_from": "digits"}
    library = msgspec.structs.replace(REQUEST, task="sklearn", parameters=parameters)
    request = msgspec.structs.replace(library, parameters=parameters | {key: {"name": own, "x": 1} if more else own})
    before = template._dependencies(TASK, request, 2)
    assert before["code"] == "class Mine: pass"
    module.write_text("class Mine: slower = True", encoding="utf-8")
    assert template._dependencies(TASK, request, 2) != before
    assert template._dependencies(TASK, library, 2)["code"] == ""


def test_another_network_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    larger = cast("Task", SimpleNamespace(size=11, work=1.0, data_sha256="", shards=TASK.shards, notes=()))
    assert template._dependencies(larger, REQUEST, 2) != template._dependencies(TASK, REQUEST, 2)


def test_the_pressure_on_the_host_is_that_of_this_moment_even_if_the_times_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    survey = surveyed(monkeypatch, 1.0, pressure=0.4)
    assert (survey.is_remembered, survey.pressure) == (True, 0.4)


def test_the_pressure_is_measured_even_if_no_device_has_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    free = msgspec.structs.replace(REQUEST, crowd={})
    name = survey_memory.key(template._dependencies(TASK, free, 2))
    survey_memory.keep(name, SurveyTimes(measured_at=survey_memory.now() - 60))
    seconds = iter([1.0, 3.0])
    monkeypatch.setattr(calibration, "pressure_seconds", lambda: next(seconds))
    survey = surveyed(monkeypatch, 1.0, free)
    assert survey.is_remembered
    assert survey.pressure is not None
    assert survey.pressure > 0


@pytest.mark.parametrize("change", [{"data_seed": 1}, {"model_seed": 1}, {"source": "other"}])
def test_another_seed_needs_no_new_survey(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    assert surveyed(monkeypatch, 1.0, msgspec.structs.replace(REQUEST, **change)).is_remembered


def test_the_job_of_each_run_is_checked_also_if_the_task_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(job: Job) -> None:
        if job.batch == 1:
            raise ParameterError("batch", "is 1; this task needs 2")

    loaded = SimpleNamespace(**vars(TASK), check=check)
    monkeypatch.setattr(template, "TASK", loaded)
    monkeypatch.setattr(template, "_survey", lambda *_: None)
    monkeypatch.setattr(template, "_check_threads", lambda: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    refused = template.answer(msgspec.structs.replace(REQUEST, job=Job(batch=1)), Path(), OpenedFiles())
    assert refused.problem == "mine: training.batch is 1; this task needs 2"
    assert not template.answer(REQUEST, Path(), OpenedFiles()).problem
