"""``task = "flower:PATH"`` in a profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.common.errors import ProfileError
from testbed.loading import profile_loader
from testbed.profile.schema import Experiment

PROFILE = """
strategy = "fedasync"
{head}
[[devices]]
profile = "rpi4"
seconds_per_sample = 0.01
[stop]
seconds = 1.0
"""


def load(folder: Path, head: str, *overrides: str) -> Experiment:
    path = folder / "profile.toml"
    path.write_text(PROFILE.format(head=head), encoding="utf-8")
    return profile_loader.load(path, overrides)


@pytest.mark.parametrize(
    "head",
    ['task = "flower:apps/mine"', 'task = { name = "flower:apps/mine" }', '[task]\nname="flower"\nproject="apps/mine"'],
)
def test_the_path_is_relative_to_the_profile(head: str, tmp_path: Path) -> None:
    experiment = load(tmp_path, head)
    assert experiment.task_name == "flower"
    assert experiment.task_parameters["project"] == str((tmp_path / "apps/mine").resolve())


def test_a_job_is_one_call_of_the_client_unless_the_profile_says_otherwise(tmp_path: Path) -> None:
    assert load(tmp_path, 'task = "flower:mine"').training.batches_over(50) == 1
    assert load(tmp_path, 'task = "flower:mine"', "training.steps=3").training.batches_over(50) == 3
    assert load(tmp_path, 'task = "flower:mine"', "training.epochs=2").training.batches_over(50) == 2
    assert load(tmp_path, 'task = "flower:mine"').training.samples_per_step(50) == 50


def test_the_task_may_be_given_and_changed_on_the_command_line(tmp_path: Path) -> None:
    changes = ("task=flower:mine", "task.samples=[10]", "task.run_config.lr=0.5")
    parameters = load(tmp_path, "", *changes).task_parameters
    assert (list(parameters["samples"]), parameters["run_config"]) == ([10], {"lr": 0.5})


def test_the_resolved_experiment_is_a_profile_itself(tmp_path: Path) -> None:
    from testbed.common.parameters import as_table

    experiment = load(tmp_path, 'task = "flower:mine"')
    again = profile_loader.load_table(as_table(experiment), [], source="again", folder=Path("/"), name="again")
    assert (again.task, again.training) == (experiment.task, experiment.training)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("training.batch=32", r"training.batch must be 0 for a Flower project"),
        ("training.momentum=0.5", r"training.momentum has no effect on a Flower project; set task.run_config"),
        ("training.patience=5", r"training.patience has no effect on a Flower project; set task.patience"),
        ("task.split=iid", r"task.split is not a known key"),
        ("task.samples=[0]", r"task.samples\[0\] is 0; it must be at least 1"),
    ],
)
def test_a_key_without_effect_is_refused(change: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=told):
        load(tmp_path, 'task = "flower:mine"', change)


def test_without_a_path_the_project_is_in_the_folder_of_the_profile(tmp_path: Path) -> None:
    assert load(tmp_path, 'task = "flower"').task_parameters["project"] == str(tmp_path.resolve())
