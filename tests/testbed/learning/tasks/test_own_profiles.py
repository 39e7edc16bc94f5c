"""A user's own task in a profile: its split, and stop conditions that do not fit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from testbed.common.errors import ProfileError
from testbed.common.finders import user_modules
from testbed.host.core_plan import CoreRoles
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.planning import planner
from tests.testbed.examples import write_profile

OWN = """
from dataclasses import dataclass
from typing import Any
from testbed.common.parameters import Named, param
from testbed.learning.tasks.recipe import Recipe

@dataclass(kw_only=True)
class Mine(Recipe):
    def data(self, setting): ...
    def network(self, data): ...

@dataclass(kw_only=True)
class Narrow(Mine):
    split: str = "dirichlet"

@dataclass(kw_only=True)
class Factory(Mine):
    split: str | dict[str, Any] = param(default_factory=lambda: {"name": "dirichlet", "alpha": 7.0})

@dataclass(kw_only=True)
class ByAlias(Mine):
    split: Named = param("labels")

@dataclass(kw_only=True)
class NoDefault(Mine):
    split: Named = param(meaning="how samples are assigned")
"""


@pytest.fixture(autouse=True)
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "edgebed_tasks", raising=False)
    (tmp_path / "edgebed_tasks.py").write_text(OWN, encoding="utf-8")
    user_modules.FINDER.search_in(tmp_path)


def split(folder: Path, name: str, *overrides: str) -> object:
    devices = 'devices = [{ profile = "rpi4", seconds_per_sample = 1 }]'
    path = write_profile(folder, f'strategy = "fedavg"\ntask = "edgebed_tasks:{name}"\n{devices}')
    return profile_loader.load(path, overrides).task_parameters["split"]


def test_the_split_of_a_users_task_is_written_out_with_its_defaults(tmp_path: Path) -> None:
    assert split(tmp_path, "Mine") == {"name": "iid", "identical": False}
    assert split(tmp_path, "Mine", "task.split=natural") == {"name": "natural", "least": 1}


def test_parameters_without_a_name_are_those_of_the_default_split(tmp_path: Path) -> None:
    assert split(tmp_path, "Mine", "task.split.samples=5") == {"name": "iid", "identical": False, "samples": 5}
    found = split(tmp_path, "Factory", "task.split.least=3")
    assert found == {
        "name": "dirichlet",
        "alpha": 7.0,
        "balanced": False,
        "capped": False,
        "quantity": False,
        "least": 3,
        "short": "fill",
    }


def test_a_split_may_be_declared_by_the_name_of_its_type(tmp_path: Path) -> None:
    assert split(tmp_path, "ByAlias", "task.split.per_device=2") == {"name": "labels", "per_device": 2}


def test_parameters_without_a_name_are_refused_if_there_is_no_default_split(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"task\.split\.name is missing; it must name a split"):
        split(tmp_path, "NoDefault", "task.split.alpha=1")


def test_a_split_with_a_wrong_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ProfileError, match=r"task is 'edgebed_tasks:Narrow'; its split must be declared as str \| dict"
    ):
        split(tmp_path, "Narrow")


def test_an_accuracy_cannot_end_a_run_of_a_task_without_accuracy(tmp_path: Path) -> None:
    devices = 'devices = [{ profile = "rpi4" }]'
    path = write_profile(tmp_path, f'strategy = "fedavg"\ntask = "regression"\nstop.target_accuracy = 0.9\n{devices}')
    roles = CoreRoles(aggregator=0, evaluator=0, device_cores=(1,), shareable=(1, 0))
    survey = Survey(samples=(5,), metrics=("mse", "loss"))
    with pytest.raises(ProfileError, match=r"stop.target_accuracy is set, but task regression has no accuracy"):
        planner.settled(profile_loader.load(path), survey, roles)
