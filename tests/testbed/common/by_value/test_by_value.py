"""Python objects on their way to the processes of a run: what travels, what is refused, and what is named."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.api import experiments
from testbed.api.own_classes import chosen
from testbed.common.by_value import object_name, snapshot
from testbed.common.by_value.object_name import ObjectName
from testbed.common.parameters import param, parameter_of
from testbed.errors import UserError
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.digits import Digits
from testbed.learning.tasks.own_data_tasks import Npz
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

TABLE: dict[str, Any] = {
    "devices": [{"profile": "rpi4", "count": 2, "seconds_per_sample": 1e-3}],
    "strategy": "fedavg",
}


def in_memory(inputs: Any, make: Callable[[], Any]) -> Recipe:
    class InMemory(Recipe):
        def __init__(self) -> None:
            super().__init__()
            self.inputs = inputs

        def data(self, setting: Setting) -> DataSet:
            part = Subset(inputs=self.inputs, targets=np.arange(len(self.inputs)) % 2)
            return DataSet(train=part, test=part, classes=("a", "b"))

        def network(self, data: DataSet) -> Any:
            return make()

    return InMemory()


def in_another_process(value: Any) -> Any:
    """Load a snapshot in a child, and return what its data is there."""
    taken = snapshot.take(value)
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            loaded = snapshot.load(taken.descriptor)
            os.write(writing, pickle.dumps(float(loaded.data(Setting(devices=1)).train.inputs.sum())))
        finally:
            os._exit(0)
    os.wait()
    return pickle.loads(os.read(reading, 1000))


def test_a_task_of_a_function_travels_with_its_data() -> None:
    inputs = np.ones((40, 3), np.float32)
    assert in_another_process(in_memory(inputs, lambda: None)) == 120.0


def test_a_snapshot_does_not_change_with_the_object_and_cannot_be_written() -> None:
    task = in_memory(np.ones((4, 3), np.float32), lambda: None)
    name = ObjectName("m:C", task)
    before = name.snapshot()
    task.inputs[:] = 2  # type: ignore[attr-defined]
    assert name.snapshot() is before
    assert snapshot.take(task).digest != before.digest
    with pytest.raises(PermissionError):
        os.pwrite(before.descriptor, b"x", 0)


def test_a_dataclass_keeps_its_fields_and_their_defaults() -> None:
    @dataclass(kw_only=True)
    class Own:
        share: float = param(0.5, "of an update")

        def data(self, setting: Setting) -> DataSet:
            part = Subset(inputs=np.full((2, 2), parameter_of(type(self), "share").default), targets=np.zeros(2))
            return DataSet(train=part, test=part)

    assert in_another_process(Own(share=0.25)) == 2.0


def test_a_name_keeps_its_object_when_tables_are_copied_and_finds_it_again_by_its_digest() -> None:
    name = ObjectName("m:C", [1, 2])
    assert copy.deepcopy({"name": name})["name"] is name
    object_name.receive(name.snapshot().digest, name.snapshot().descriptor)
    again = pickle.loads(pickle.dumps(name))
    assert (again, again.value) == ("m:C", [1, 2])


def test_the_profile_names_the_class_and_is_marked() -> None:
    experiment, _ = experiments.load(TABLE | {"task": in_memory(np.ones((4, 3), np.float32), lambda: None)}, {})
    assert isinstance(experiment.task, dict)
    assert experiment.task["name"].endswith("test_by_value:in_memory.<locals>.InMemory")
    assert experiment.task["object"] is True
    assert experiment.task_parameters["split"]["name"] == "iid"


def test_an_importable_class_travels_by_name_unless_its_object_has_more() -> None:
    plain = Digits(model="small-mlp")
    assert isinstance(chosen(plain, TASKS, "task"), dict)
    assert chosen(plain, TASKS, "task")["name"] == "digits"  # type: ignore[index]
    plain.extra = lambda: 3  # type: ignore[attr-defined]
    assert isinstance(chosen(plain, TASKS, "task")["name"], ObjectName)  # type: ignore[index]


def test_a_task_that_has_loaded_its_data_still_travels_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.savez(tmp_path / "own.npz", x=np.arange(40.0).reshape(20, 2), y=np.arange(20.0))
    task = Npz(file=str(tmp_path / "own.npz"), target="value")
    named = chosen(task, TASKS, "task")
    task.dataset(Setting(devices=2))
    assert task.value_moments != (0.0, 1.0)
    assert chosen(task, TASKS, "task") == named
    assert isinstance(named, dict)
    assert (named["name"], named["target"]) == ("npz", "value")
    assert not isinstance(named["name"], ObjectName)


def test_an_override_changes_a_copy_of_the_object() -> None:
    task = in_memory(np.ones((4, 3), np.float32), lambda: None)
    experiment, _ = experiments.load(TABLE, {"task": task, "set": {"task.test_samples": 2}})
    assert isinstance(experiment.task_name, ObjectName)
    assert experiment.task_name.value.test_samples == 2
    assert task.test_samples is None
    with pytest.raises(UserError, match=r"task\.tests is not a parameter of"):
        experiments.load(TABLE, {"task": task, "set": {"task.tests": 2}})


@pytest.mark.parametrize(
    ("part", "place"),
    [
        (lambda: {"deep": [threading.Lock()]}, r"task\.inputs\['deep'\]\[0\] is of type lock"),
        (lambda: (number for number in range(3)), r"task\.inputs is of type generator"),
    ],
)
def test_what_cannot_be_sent_is_named(part: Callable[[], Any], place: str) -> None:
    with pytest.raises(UserError, match=place) as caught:
        experiments.load(TABLE, {"task": in_memory(part(), lambda: None)})
    assert "\n" not in str(caught.value)
    assert "make it where it is used, such as in data()" in str(caught.value)


def test_a_variable_of_a_function_that_cannot_be_sent_is_named() -> None:
    lock = threading.Lock()
    with pytest.raises(UserError, match=r"variable make, variable lock is of type lock"):
        experiments.load(TABLE, {"task": in_memory(None, lambda: lock)})


def test_a_class_that_needs_arguments_is_refused_with_the_remedy() -> None:
    class Needs(Digits):
        def __init__(self, data: object) -> None:
            super().__init__()

    with pytest.raises(UserError, match=r"missing 1 required positional argument.*give an object: task=Needs\(…\)"):
        experiments.load(TABLE, {"task": Needs})


def test_a_class_that_is_defined_again_is_another_object() -> None:
    digests = {ObjectName("m:C", in_memory(None, lambda: None)).snapshot().digest for _ in range(2)}
    assert len(digests) == 2


def test_cloudpickle_is_imported_only_for_an_object() -> None:
    code = "import sys; from testbed import run; sys.exit('cloudpickle' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
