"""Experiments from files, tables and objects, with keyword arguments."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed import run
from testbed.api import experiments
from testbed.api.run import Run
from testbed.errors import ProfileError, UserError
from tests.testbed.api.own_strategy import Half

TABLE: dict[str, Any] = {
    "name": "mine",
    "devices": [{"profile": "rpi4", "link": "wifi", "count": 2}],
    "strategy": "fedavg",
    "stop": {"seconds": 5},
}


def test_a_shipped_profile_is_found_by_its_name() -> None:
    experiment, source = experiments.load("quickstart.toml", {})
    assert experiment.name == "quickstart"
    assert source is not None
    assert source.name == "quickstart.toml"


def test_a_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('strategy = "fedavg"\ndevices = [{ profile = "rpi4", link = "wifi" }]\nstop.seconds = 3\n')
    experiment, source = experiments.load(path, {"seconds": 9.0})
    assert (experiment.name, experiment.stop.seconds, source) == ("own", 9.0, path)


def test_a_table_is_a_profile_and_is_not_changed() -> None:
    before = repr(TABLE)
    experiment, source = experiments.load(TABLE, {"seed": 7, "set": {"training.lr": 0.3, "stop.seconds": 6}})
    assert (experiment.name, experiment.seed, experiment.training.lr, experiment.stop.seconds) == ("mine", 7, 0.3, 6.0)
    assert source is None
    assert repr(TABLE) == before


def test_numbers_of_numpy_are_numbers() -> None:
    changes = {"seed": np.int64(3), "set": {"training.lr": np.float32(0.5), "stop": {"seconds": np.arange(4)[2]}}}
    experiment, _ = experiments.load(TABLE, changes)  # type: ignore[arg-type]
    assert (experiment.seed, experiment.training.lr, experiment.stop.seconds) == (3, 0.5, 2.0)


def test_an_experiment_is_a_profile() -> None:
    first, _ = experiments.load(TABLE, {"seed": 3})
    assert experiments.load(first, {}) == (first, None)


def test_every_keyword_changes_its_key() -> None:
    experiment, _ = experiments.load(
        TABLE,
        {
            "strategy": Half(share=0.25),
            "task": "digits",
            "seed": 4,
            "seconds": 2.0,
            "dilation": "auto",
            "compress": True,
        },
    )
    assert experiment.strategy == {"name": "tests.testbed.api.own_strategy:Half", "share": 0.25}
    assert (experiment.task_name, experiment.seed, experiment.stop.seconds) == ("digits", 4, 2.0)
    assert (experiment.dilation, experiment.compress) == ("auto", True)


def test_a_run_may_be_replayed_by_its_object(tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "trace.jsonl").touch()
    experiment, _ = experiments.load(TABLE, {"replay": Run.open(folder)})
    assert experiment.replay.trace == str(folder)


@pytest.mark.parametrize(
    ("profile", "changes", "text"),
    [
        (TABLE, {"strategy": "fedbuf"}, "strategy=: strategy is 'fedbuf'; did you mean 'fedbuff'"),
        (
            TABLE,
            {"set": {"training.lrr": 1}},
            r"set\['training.lrr'\]: training.lrr is not a known key",
        ),
        (TABLE, {"set": {"training.lr": -1.0}}, r"set\['training.lr'\]: training.lr is -1.0; it must be above 0"),
        (TABLE, {"stategy": "fedbuff"}, "stategy=: is not an argument; did you mean 'strategy'"),
        (TABLE, {"lr": 0.1}, r"lr=: is not an argument; .* can be changed by set="),
        (TABLE, {"set": ["training.lr"]}, "must be a table"),
        (TABLE, {"set": {"trainng.lr": 0.1}}, r"set\['trainng.lr'\]: trainng is not a known key"),
        (TABLE, {"seconds": -1.0}, "seconds=: stop.seconds is -1.0"),
        ({}, {}, "profile: strategy is missing"),
        (3, {}, "profile: is 3; it must be a file, a table"),
        ("no-such.toml", {}, "no-such.toml: no such file"),
    ],
)
def test_wrong_input_is_one_line_with_a_type(profile: Any, changes: Any, text: str) -> None:
    with pytest.raises(UserError, match=text) as caught:
        experiments.load(profile, changes)
    assert "\n" not in str(caught.value)


def test_an_error_about_a_key_has_its_parts() -> None:
    with pytest.raises(ProfileError) as caught:
        experiments.load(TABLE, {"seed": "one"})  # type: ignore[typeddict-item]
    assert (caught.value.source, caught.value.key) == ("seed=", "seed")


def test_a_run_is_started_in_the_main_thread() -> None:
    caught: list[UserError] = []

    def start() -> None:
        with pytest.raises(UserError, match="in the main thread") as raised:
            run(TABLE)
        caught.append(raised.value)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert len(caught) == 1
