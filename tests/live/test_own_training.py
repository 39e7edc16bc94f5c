"""Tasks that bring their own local training: paced by step or as a whole, replayed, resumed, restarted, verified."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from testbed.history import trace
from tests.live.documents import blocks
from tests.live.leftovers import nothing_left_over
from tests.live.runs import (
    Outcome,
    check_verified,
    command,
    complete,
    complete_and_verify,
    started,
    write_profile,
)

pytestmark = pytest.mark.live

TASKS = '''\
import os
from dataclasses import dataclass

import torch
from torch import nn

from testbed.common.parameters import param
from testbed.learning.tasks.digits import Digits


@dataclass(kw_only=True)
class Stepwise(Digits):
    """Digits, trained by AdamW of torch, whose state continues from job to job."""

    def network(self, data):
        first = [nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2)]
        return nn.Sequential(*first, nn.Linear(16, 10))

    def train(self, local):
        optimizer = torch.optim.AdamW(local.network.parameters(), lr=local.lr(0), foreach=False)
        if "optimizer" in local.memory:
            optimizer.load_state_dict(local.memory["optimizer"])
        for inputs, targets in local.batches():
            optimizer.zero_grad()
            loss = local.loss(local.network(inputs), targets)
            loss.backward()
            optimizer.step()
            yield loss
        local.memory["optimizer"] = optimizer.state_dict()


@dataclass(kw_only=True)
class Whole(Stepwise):
    """The same, with one deadline for each job."""

    def train(self, local):
        losses = [float(loss.detach()) for loss in super().train(local)]
        return sum(losses) / len(losses)


@dataclass(kw_only=True)
class Failing(Stepwise):
    """One device raises in its second job, another one forks."""

    def train(self, local):
        if local.number == 1 and local.device == 1:
            raise ValueError("no more data")
        if local.number == 1 and local.device == 2:
            os.fork()
        yield from super().train(local)
'''
FLEET: list[dict[str, Any]] = [
    {
        "profile": "rpi4",
        "link": "wifi",
        "count": 3,
        "seconds_per_sample": 5e-4,
        "drop": 0.2,
        "suspend": 0.3,
        "suspend_max": 0.2,
    }
]
TRAINING = {"steps": 4, "batch": 8, "lr": 0.01}


def profile_of(folder: Path, task: str, **changes: Any) -> Path:
    (folder / "own_tasks.py").write_text(TASKS, encoding="utf-8")
    changes = {"devices": FLEET, "training": TRAINING, "stop": {"versions": 12}} | changes
    return write_profile(folder, task={"name": f"own_tasks:{task}"}, **changes)


@pytest.mark.parametrize("task", ["Stepwise", "Whole"])
@pytest.mark.parametrize("throttle", ["pace", "signal"])
def test_own_training_runs_and_is_verified(task: str, throttle: str, tmp_path: Path) -> None:
    fleet = [FLEET[0] | {"name": "rpi4", "profile": {"throttle": throttle}}]
    with nothing_left_over():
        outcome = complete(profile_of(tmp_path, task, devices=fleet))
    check_verified(outcome)
    assert {event.steps for event in outcome.of_kind(trace.Trained)} == {1 if task == "Whole" else 4}


@pytest.mark.parametrize("task", ["Stepwise", "Whole"])
def test_own_training_is_replayed_strictly_with_the_same_model(task: str, tmp_path: Path) -> None:
    profile = profile_of(tmp_path, task)
    recorded = complete_and_verify(profile)
    replayed = complete(profile, "--replay", str(recorded.folder), "--replay-mode", "strict")
    assert replayed.summary["model_sha256"] == recorded.summary["model_sha256"]


def test_own_training_that_was_killed_rejoined_and_resumed_is_verified(tmp_path: Path) -> None:
    events = [{"at": 1.0, "device": "rpi4-1", "do": "kill"}, {"at": 2.5, "device": "rpi4-1", "do": "rejoin"}]
    changes: dict[str, Any] = {"events": events, "stop": {"seconds": 600.0}, "checkpoint": {"versions": 4}}
    with started(profile_of(tmp_path, "Stepwise", **changes)) as run:
        run.wait_until_traced("joined", 4)
        run.wait_until_traced("aggregated", 12)
        run.interrupt()
        folder = run.folder
    done = command("resume", str(folder), "--no-report", "--no-admission", "--seconds", "6")
    assert done.returncode == 0, done.stderr
    check_verified(Outcome(code=0, stdout=done.stdout, stderr=done.stderr, folder=folder))


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_kept_state_of_an_optimiser_and_local_statistics_are_verified(optimizer: str, tmp_path: Path) -> None:
    (tmp_path / "default_loop.py").write_text(TASKS.replace("    def train", "    def unused"), encoding="utf-8")
    training = TRAINING | {
        "optimizer": optimizer,
        "optimizer_state": "kept",
        "weight_decay": 0.01,
        "clip_gradient": 1.0,
    }
    changes: dict[str, Any] = {"devices": FLEET, "stop": {"versions": 12}}
    changes["training"] = training | ({"momentum": 0.9} if optimizer == "sgd" else {})
    complete_and_verify(write_profile(tmp_path, task={"name": "default_loop:Stepwise", "buffers": "local"}, **changes))


def test_a_device_whose_training_fails_is_reported_with_its_job_and_line_and_the_others_continue(
    tmp_path: Path,
) -> None:
    with started(profile_of(tmp_path, "Failing", stop={"seconds": 600.0})) as run:
        run.wait_until_traced("left", 2)
        outcome = run.interrupt()
    assert outcome.code == 130
    line = TASKS.splitlines().index('            raise ValueError("no more data")') + 1
    assert f"job 1: own_tasks.py:{line}, in train: ValueError: no more data" in outcome.stderr
    assert f"job 1: own_tasks.py:{line + 2}, in train: local training forks" in outcome.stderr
    assert {event.device for event in outcome.of_kind(trace.Left)} >= {"rpi4-2", "rpi4-3"}


def test_training_that_always_fails_is_reported_before_the_run_begins(tmp_path: Path) -> None:
    always = TASKS.replace("if local.number == 1 and local.device == 1:", "if True:")
    profile = profile_of(tmp_path, "Failing")
    (tmp_path / "own_tasks.py").write_text(always, encoding="utf-8")
    outcome = complete(profile)
    assert outcome.code == 1
    assert "in train: ValueError: no more data" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_the_example_in_the_document_runs(tmp_path: Path) -> None:
    (code,) = blocks("docs/own-training.md", "python")
    (settings,) = blocks("docs/own-training.md", "toml", "[training]")
    (tmp_path / "noisy.py").write_text(code, encoding="utf-8")
    changes: dict[str, Any] = {"devices": FLEET, "stop": {"versions": 6}}
    complete_and_verify(write_profile(tmp_path, task="noisy:Noisy", **changes))
    complete_and_verify(write_profile(tmp_path, **changes, **tomllib.loads(settings)))
