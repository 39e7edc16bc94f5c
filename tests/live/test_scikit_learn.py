"""Estimators of scikit-learn on real devices."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devices.compute.job_steps import steps_of_job
from devices.compute.kept_memory import JobTickets, KeptMemory
from devices.compute.trainer import Stepwise, complete
from testbed import Run
from testbed.learning import setup
from tests.live import runs
from tests.live.documents import blocks
from tests.live.runs import write_profile

pytestmark = pytest.mark.live

FLEET = [
    {"profile": "rpi4", "link": "wifi", "count": 3, "of_host": 0.2},
    {"profile": "jetson-nano", "seconds_per_sample": 1e-3},
]
TRAINING = {"steps": 4, "batch": 32, "lr": 0.05}


def profile(folder: Path, **changes: Any) -> Path:
    task = {"name": "sklearn", "estimator": "sklearn.linear_model:SGDClassifier", "parameters": {"loss": "log_loss"}}
    return write_profile(folder, **{"task": task, "training": TRAINING, "devices": FLEET} | changes)


@pytest.mark.parametrize("strategy", ["fedasync", "fedavg"])
def test_a_classifier_learns_and_the_run_is_verified(tmp_path: Path, strategy: str) -> None:
    made = profile(tmp_path, strategy=strategy, stop={"target_accuracy": 0.85, "seconds": 120.0})
    outcome = runs.complete_and_verify(made)
    assert outcome.summary["stopped"] == "accuracy 0.85 is reached", outcome.stderr


def test_the_example_in_the_document_runs(tmp_path: Path) -> None:
    (example,) = blocks("docs/scikit-learn.md", "toml")
    runs.complete_and_verify(write_profile(tmp_path, **tomllib.loads(example) | {"stop": {"versions": 6}}))


def test_a_count_of_steps_that_is_kept_is_verified(tmp_path: Path) -> None:
    task = {"name": "sklearn", "parameters": {"learning_rate": "optimal", "alpha": 0.01}}
    training = TRAINING | {"optimizer_state": "kept"}
    runs.complete_and_verify(profile(tmp_path, task=task, training=training, stop={"versions": 12}))


def test_a_perceptron_with_layers_and_a_regressor_are_verified(tmp_path: Path) -> None:
    tasks = (
        {"estimator": "sklearn.neural_network:MLPRegressor", "data_from": "regression"},
        {"estimator": "sklearn.neural_network:MLPClassifier", "parameters": {"hidden_layer_sizes": [16]}},
    )
    for number, task in enumerate(tasks):
        folder = tmp_path / str(number)
        folder.mkdir()
        training = TRAINING | {"lr": 0.005, "optimizer_state": "kept"}
        made = profile(folder, task={"name": "sklearn"} | task, training=training, stop={"versions": 6})
        outcome = runs.complete_and_verify(made)
        assert outcome.summary["versions"] == 6


def test_a_round_of_two_devices_is_the_mean_of_their_estimators(tmp_path: Path) -> None:
    devices = [{"profile": "host", "link": "ethernet", "count": 2}]
    outcome = runs.complete(profile(tmp_path, strategy="fedavg", devices=devices, stop={"versions": 1}))
    run = Run.open(outcome.folder)
    experiment = run.profile
    assert experiment is not None
    task = setup.entry(experiment.task_name, experiment.task_parameters, "test").open(setup.setting(experiment))
    base, mean = task.initial(), np.zeros(task.size)
    for device, shard in enumerate(task.shards):
        tickets = JobTickets(ticket=device + 1, arrived=0)
        steps = steps_of_job(task, experiment.seed, device, experiment.training, base, 0, tickets, KeptMemory())
        delta, _ = complete(Stepwise(steps), experiment.training.steps_over(len(shard)))
        mean += len(shard) / task.training_samples * delta
    final = np.concatenate([array.ravel() for array in run.model().values()])
    assert np.allclose(final, base + mean, atol=1e-6)
    assert np.abs(mean).max() > 0.01


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"task": {"name": "sklearn", "parameters": {"alpah": 1}}}, "task.parameters.alpah is not a parameter"),
        ({"training": TRAINING | {"momentum": 0.9}}, "training.momentum is 0.9; SGDClassifier trains itself"),
        ({"devices": [{"profile": "rpi4"}]}, "has no speed for task 'sklearn'"),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    outcome = runs.complete(profile(tmp_path, **changes))
    assert outcome.code == 2
    assert problem in outcome.stderr
    [line] = outcome.stderr.splitlines()
    assert line.startswith("error: ")
    assert not list(tmp_path.glob("runs/*"))
