"""Flower projects of both styles in real runs with eight devices, each verified from its folder."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is in an environment of its own: make test-flower")

from testbed.history import trace
from tests.flower.projects_of_tests import PROJECTS, write_project
from tests.live.documents import blocks
from tests.live.runs import command, complete, complete_and_verify, write_profile

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def own_folder_for_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimisers of torch import its compiler, which makes a folder."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))


FLEET: list[dict[str, Any]] = [
    {"name": "fast", "count": 6, "profile": {"throttle": "pace", "seconds_per_sample": 0.002}, "link": "wifi"},
    {"name": "slow", "count": 2, "profile": {"throttle": "pace", "seconds_per_sample": 0.006}, "link": "lte"},
]
SMALL: dict[str, Any] = {"devices": FLEET, "stop": {"versions": 16}, "training": {}}


@pytest.mark.parametrize("strategy", ["fedasync", "fedbuff", "asyncfeded"])
@pytest.mark.parametrize("project", ["least_squares", "torch_messages", "torch_clients"])
def test_a_project_runs_under_this_strategy_and_is_verified(project: str, strategy: str, tmp_path: Path) -> None:
    profile = write_profile(tmp_path, task=f"flower:{PROJECTS / project}", strategy=strategy, **SMALL)
    outcome = complete_and_verify(profile)
    assert outcome.summary["versions"] >= 16
    assert "is replaced by the strategy of this profile" in outcome.stdout
    survey = outcome.json("meta.json")["calibration"]
    assert "is replaced by the strategy of this profile" in survey["notes"][0]
    assert survey["device_bytes"] <= 20e6 + 2 * 4 * survey["parameters"]


def test_a_project_with_state_is_verified_although_updates_are_lost_and_devices_restart(tmp_path: Path) -> None:
    fleet = [group | {"drop": 0.2, "suspend": 0.3, "suspend_max": 0.2, "on_drop": "give_up"} for group in FLEET]
    profile = write_profile(
        tmp_path,
        task=f"flower:{PROJECTS / 'least_squares'}",
        **SMALL | {"devices": fleet, "stop": {"versions": 40}},
        events=[{"at": 0.5, "device": "fast-1", "do": "kill"}, {"at": 1.0, "device": "fast-1", "do": "rejoin"}],
    )
    outcome = complete_and_verify(profile)
    assert outcome.of_kind(trace.Lost)


def test_a_run_of_a_project_is_replayed_and_its_report_says_what_is_replaced(tmp_path: Path) -> None:
    task = f"flower:{PROJECTS / 'least_squares'}"
    first = complete_and_verify(write_profile(tmp_path, task=task, **SMALL))
    page = command("report", str(first.folder))
    assert page.returncode == 0, page.stderr
    assert "about the task" in (first.folder / "report.html").read_text(encoding="utf-8")
    again = complete(
        write_profile(tmp_path, task=task, **SMALL), "--replay", str(first.folder), "--replay-mode", "strict"
    )
    assert again.summary["model_sha256"] == first.summary["model_sha256"]


def test_the_example_in_the_document_runs(tmp_path: Path) -> None:
    (example,) = blocks("docs/flower.md", "toml")
    changes = tomllib.loads(example) | {"task": f"flower:{PROJECTS / 'least_squares'}", "stop": {"versions": 16}}
    complete_and_verify(write_profile(tmp_path, **{"training": {}} | changes))


def test_the_path_is_relative_to_the_profile_and_plan_says_what_is_replaced(tmp_path: Path) -> None:
    write_project(tmp_path / "own")
    profile = write_profile(tmp_path, task="flower:own", **SMALL)
    done = command("plan", str(profile), "--format", "text")
    assert "its strategy FedAvg is replaced" in done.stdout, done.stderr


def test_a_project_that_cannot_run_ends_in_one_line(tmp_path: Path) -> None:
    write_project(tmp_path / "own", train="raise ValueError('bad luck')")
    done = command("run", str(write_profile(tmp_path, task="flower:own", **SMALL)))
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].endswith("in train: ValueError: bad luck")
    assert "Traceback" not in done.stderr


def test_a_client_that_fails_later_is_told_with_its_device_and_its_line(tmp_path: Path) -> None:
    wrong = "if context.node_config['partition-id'] == 1:\n        raise ValueError('bad luck')\n    "
    write_project(tmp_path / "own", train=f"{wrong}return reply(msg, [model + 1], **{{'num-examples': 5}})")
    task = {"name": "flower:own", "samples": [5]}
    profile = write_profile(tmp_path, task=task, **SMALL)
    outcome = complete(profile)
    assert outcome.summary["versions"] >= 16
    log = "".join(path.read_text(encoding="utf-8") for path in (outcome.folder / "logs").iterdir())
    assert "ValueError: bad luck" in log
    assert json.dumps("fast-2") in (outcome.folder / "trace.jsonl").read_text(encoding="utf-8")
