"""Arguments of a sweep, checked before anything runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed import sweep
from testbed.api.sweeping import SweepRuns, _seeds
from testbed.errors import ProfileError, UserError
from tests.testbed.api.test_experiments import TABLE


@pytest.mark.parametrize(
    ("given", "text"), [(3, "3"), (np.int64(2), "2"), ((), None), ([4, 7], "4,7,"), (np.arange(1, 3), "1,2,")]
)
def test_seeds_are_a_number_or_which(given: Any, text: str | None) -> None:
    assert _seeds(given) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"strategies": "fedbuff"}, r"strategies='fedbuff': takes a list; write \['fedbuff'\]"),
        ({"vary": {"training.lr": "0.1"}}, "takes a list"),
        ({"vary": {"training.lr": 0.1}}, "takes a list"),
        ({"seeds": "3"}, "takes a list"),
        ({"strategies": [{"name": "fedbuff", "k": 3}]}, "has parameters"),
        ({"strategies": ["fedbuf"]}, "did you mean 'fedbuff'"),
        ({"vary": {"training.lr": [object()]}}, "is not a value of a profile"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=text):
        sweep(TABLE, out=tmp_path / "sweep", **changes)


def test_a_profile_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "profile.toml").write_text("name = 'another'\n")
    with pytest.raises(UserError, match=r"has another profile\.toml; choose another folder"):
        sweep(TABLE, out=tmp_path)
    assert (tmp_path / "profile.toml").read_text() == "name = 'another'\n"


def test_a_wrong_profile_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ProfileError):
        sweep({"strategy": "fedavg"}, out=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_is_started_in_the_main_thread(tmp_path: Path) -> None:
    problems: list[str] = []

    def start() -> None:
        with pytest.raises(UserError) as caught:
            sweep(TABLE, out=tmp_path / "sweep")
        problems.append(str(caught.value))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "in the main thread" in problems[0]
    assert not (tmp_path / "sweep").exists()


def test_its_runs_can_be_iterated(tmp_path: Path) -> None:
    assert list(SweepRuns(folder=tmp_path, runs=(), failed={})) == []
