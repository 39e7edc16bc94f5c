"""Every data set trains in real processes; without its files, the test is skipped."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from testbed.history import trace
from testbed.learning.data import folders
from tests.files import present
from tests.live.runs import Outcome, command, complete, started, write_profile

pytestmark = pytest.mark.live

FROM_FILES = ("mnist", "fashion_mnist", "cifar10", "femnist", "shakespeare")
GENERATED = ("digits", "synthetic", "regression", "svm")
METRICS = {"regression": {"mse", "loss"}, "shakespeare": {"accuracy", "loss", "perplexity"}}
RATES = {"shakespeare": 0.5, "regression": 0.005, "svm": 0.005, "synthetic": 0.02}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse each data set once for all tests of a worker, outside of the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv(folders.OFFLINE, "1")


def need(data_set: str) -> None:
    """Skip the test if the files of a data set are missing."""
    if data_set in FROM_FILES and not present(data_set):
        pytest.skip(f"the files of {data_set} are missing")


def trained(folder: Path, task: dict[str, Any] | str, *, lr: float) -> Outcome:
    """A few rounds of FedAvg on devices as fast as this host."""
    profile = write_profile(
        folder,
        task=task,
        strategy="fedavg",
        training={"steps": 4, "batch": 16, "lr": lr, "momentum": 0.5},
        devices=[{"profile": "host", "link": "ethernet", "count": 3}],
        evaluation={"every": 0.0},
        stop={"versions": 5},
    )
    outcome = complete(profile)
    assert outcome.code == 0, outcome.stderr
    return outcome


@pytest.mark.parametrize("name", [*GENERATED, *FROM_FILES])
def test_a_data_set_trains_for_a_few_rounds(tmp_path: Path, name: str) -> None:
    need(name)
    few = {"test_samples": 200} if name in FROM_FILES else {}
    outcome = trained(tmp_path, {"name": name, **few}, lr=RATES.get(name, 0.05))
    assert outcome.summary["versions"] == 5
    scores = [event.metrics for event in outcome.of_kind(trace.Scored)]
    assert all(score.keys() == METRICS.get(name, {"accuracy", "loss"}) for score in scores)
    assert scores[-1]["loss"] < scores[0]["loss"]
    # all metrics of the task are in the files of the run
    assert set(outcome.csv("metrics.csv")[0]) >= set(scores[0])


def test_fifty_devices_share_the_pages_of_mnist(tmp_path: Path) -> None:
    need("mnist")
    profile = write_profile(
        tmp_path,
        task={"name": "mnist", "split": "dirichlet", "test_samples": 500},
        dilation=5.0,
        devices=[{"profile": "rpi4", "link": "wifi", "count": 50}],
        training={"steps": 4, "batch": 32, "lr": 0.05},
    )
    with started(profile, "--no-admission", own_templates=True) as run:
        run.wait_until_traced("trained", 100)  # about two jobs of each device
        names = {name: process for name, process in run.members().items() if name.startswith("rpi4-")}
        assert len(names) == 50
        unique = {name: process.memory_full_info().uss / 1e6 for name, process in names.items()}
        run.process.send_signal(2)
        assert run.finish().code == 130
    assert max(unique.values()) <= 40.0, unique


def test_a_metric_other_than_accuracy_is_in_the_report(tmp_path: Path) -> None:
    outcome = trained(tmp_path, "regression", lr=0.005)
    assert command("report", str(outcome.folder)).returncode == 0
    page = (outcome.folder / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "Mse over time" in page
    result = command("compare", str(outcome.folder), "--metric", "mse", "--out", str(tmp_path / "compared"))
    assert result.returncode == 0
    assert "mse" in (tmp_path / "compared" / "compare.md").read_text(encoding="utf-8")


# ---- errors that are reported before any process is forked for the run


def refused(folder: Path, task: dict[str, Any] | str, devices: int = 3) -> str:
    fleet = [{"profile": "rpi4", "count": devices, "seconds_per_sample": 1e-3}]
    profile = write_profile(folder, task=task, devices=fleet)
    with started(profile, own_templates=True) as run:
        children: set[int] = set()
        while run.process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                children |= {child.pid for child in psutil.Process(run.process.pid).children(recursive=True)}
        outcome = run.finish()
    assert outcome.code == 2
    assert len(children) <= 1  # the root template, which imports torch meanwhile
    [line] = outcome.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("split", "devices", "problem"),
    [
        ({"name": "iid", "samples": 600}, 3, "task.split.samples is 600; 3 devices can have at most 479 each of 1438"),
        ({"name": "labels", "per_device": 11}, 3, "task.split.per_device is 11; the data has 10 classes: at most 10"),
        ({"name": "dirichlet", "alpha": 0.01, "short": "error"}, 40, "task.split.least is 1; counted from 0, device"),
        ("natural", 3, "this data set does not contain the owners of its samples; use another split"),
        ({"name": "sizes", "sizes": [5, 6]}, 3, "task.split.sizes has 2 numbers for 3 devices; give one for each"),
    ],
)
def test_an_impossible_split_is_refused_before_any_process_is_forked(
    tmp_path: Path, split: dict[str, Any] | str, devices: int, problem: str
) -> None:
    assert problem in refused(tmp_path, {"name": "digits", "split": split}, devices)


OWN = """
from dataclasses import dataclass
import torch
from torch.utils.data import TensorDataset
from testbed.learning.tasks.recipe import Recipe

@dataclass(kw_only=True)
class Spoilt(Recipe):
    def data(self, setting):
        points = torch.zeros(30, 2)
        points[7, 1] = float("nan")
        own = TensorDataset(points, torch.arange(30) % 2)
        return own, own

    def network(self, data):
        return torch.nn.Linear(2, 2)

@dataclass(kw_only=True)
class Broken(Spoilt):
    def data(self, setting):
        raise LookupError("no such shelf")
"""


def test_own_data_that_is_not_finite_is_refused_before_any_process_is_forked(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    assert "the training data: the input of sample 7 is not finite" in refused(tmp_path, "own:Spoilt")


def test_own_code_that_fails_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    fleet = [{"profile": "rpi4", "count": 3, "seconds_per_sample": 1e-3}]
    outcome = complete(write_profile(tmp_path, task="own:Broken", devices=fleet))
    assert outcome.code == 1
    assert "LookupError: no such shelf" in outcome.stderr.splitlines()[-1]
    assert "own.py" in (outcome.folder / "logs" / "template.log").read_text(encoding="utf-8")


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv(folders.FOLDER, str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    line = refused(tmp_path, {"name": "mnist"})
    for file in ("train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", str(tmp_path / "data" / "mnist")):
        assert file in line


def test_a_missing_data_dir_is_refused(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    result = command("data", "mnist.toml", "--data-dir", str(nowhere))
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{nowhere}: --data-dir names this folder, but it does not exist" in result.stderr


def test_files_are_found_in_the_data_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.environ.get(folders.FOLDER, "")
    if not Path(folder, "mnist", "qmnist_writers.npz").is_file():
        pytest.skip("EDGEBED_DATA names no folder with MNIST and its writers")
    monkeypatch.delenv(folders.FOLDER)
    result = command("data", "mnist.toml", "--data-dir", folder, "--set", "task.split=natural")
    assert result.returncode == 0, result.stderr
    assert "10000 to test with" in result.stdout
