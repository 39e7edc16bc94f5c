"""The profiles in docs/data.md train on a user's own files, and such runs are verified."""

from __future__ import annotations

import csv
import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from testbed.history import trace
from tests.live.documents import blocks
from tests.live.runs import Outcome, check_verified, command, complete, write_profile

pytestmark = pytest.mark.live

TASKS: list[dict[str, Any]] = [tomllib.loads(text)["task"] for text in blocks("docs/data.md", "toml")]
ACTIVITIES = ("run", "sit", "walk")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the document names: three classes that differ in their first feature, or in bright rows."""
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 3, 240)
    points = rng.normal(size=(240, 3)) + 3 * classes[:, None]
    with (tmp_path / "measurements.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "y", "z", "heart_rate", "activity"])
        for kind, point in zip(classes, points, strict=True):
            writer.writerow([*point.round(3), round(60 + 10 * point[0], 1), ACTIVITIES[kind]])
    np.savez(tmp_path / "signals.npz", x=points, y=classes)
    pixels = rng.integers(0, 60, (240, 12, 12)).astype(np.uint8)
    for kind, image in zip(classes, pixels, strict=True):
        image[4 * kind : 4 * kind + 4] += 150
    for number, (kind, image) in enumerate(zip(classes[:90], pixels, strict=False)):
        place = tmp_path / "photos" / ACTIVITIES[kind] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place)
    if importlib.util.find_spec("datasets") is not None:
        save(tmp_path / "saved", [Image.fromarray(image) for image in pixels], classes.tolist())
    return tmp_path


def save(folder: Path, images: list[Image.Image], labels: list[int]) -> None:
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(ACTIVITIES))})
    datasets.Dataset.from_dict({"image": images, "label": labels}, features=features).save_to_disk(str(folder))


def trained(folder: Path, task: dict[str, Any], stop: dict[str, float] | None = None) -> Outcome:
    profile = write_profile(
        folder,
        task=task,
        strategy="fedavg",
        training={"steps": 8, "batch": 16, "lr": 0.05},
        devices=[{"profile": "rpi4", "link": "wifi", "count": 3}],
        evaluation={"every": 0.0},
        stop=stop or {"versions": 4},
    )
    outcome = complete(profile)
    assert outcome.code == 0, outcome.stderr
    return outcome


def test_the_document_has_an_example_of_each_source() -> None:
    assert [task["name"] for task in TASKS] == ["csv", "npz", "images", "huggingface", "csv"]


@pytest.mark.parametrize(
    "number", range(len(TASKS)), ids=[f"{number}-{task['name']}" for number, task in enumerate(TASKS)]
)
def test_a_profile_of_the_document_learns_and_is_verified(folder: Path, number: int) -> None:
    if TASKS[number]["name"] == "huggingface" and importlib.util.find_spec("datasets") is None:
        pytest.skip("the package datasets is missing (make test-hf)")
    outcome = trained(folder, TASKS[number])
    scores = [event.metrics for event in outcome.of_kind(trace.Scored)]
    assert scores[-1]["loss"] < scores[0]["loss"]
    assert set(scores[0]) == ({"mse", "loss"} if TASKS[number].get("target") == "value" else {"accuracy", "loss"})
    assert len(outcome.json("meta.json")["calibration"]["data_sha256"]) == 64
    check_verified(outcome)


def test_a_change_of_the_data_is_noticed_by_verify_and_resume(folder: Path) -> None:
    outcome = trained(folder, TASKS[0], stop={"seconds": 3.0})
    path = folder / "measurements.csv"
    before = path.read_text()
    header, first, rest = before.split("\n", 2)
    path.write_text("\n".join([header, first.replace(first[0], "9", 1), rest]))
    for words in (("verify", str(outcome.folder)), ("resume", str(outcome.folder), "--seconds", "900")):
        done = command(*words)
        assert done.returncode == 2, done.stdout
        assert f"the data of task csv ({path}) has changed since the run began (SHA-256 " in done.stderr
        assert len(done.stderr.splitlines()) == 1
    path.write_text(before)
    check_verified(outcome)


def test_the_command_data_shows_classes_and_refuses_a_bad_line(folder: Path) -> None:
    profile = write_profile(folder, task=TASKS[0])
    done = command("data", str(profile), "--png", str(folder / "labels.png"))
    assert done.returncode == 0, done.stderr
    assert "192 training samples of 3 classes for 3 devices, 48 to test with" in done.stdout
    assert "run  sit  walk" in done.stdout
    assert (folder / "labels.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "measurements.csv").open("a") as file:
        file.write("1,2,3\n")
    done = command("data", str(profile))
    assert (done.returncode, done.stdout) == (2, "")
    line = "measurements.csv, line 242: has 3 cells, and the header has 5: correct it"
    assert done.stderr.strip().endswith(line)
