"""The examples in the README run unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.runs import PATIENCE, ROOT, complete, with_this_code, write_profile

README = (ROOT / "README.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.live


def block(language: str, containing: str) -> str:
    """The only fenced block of the README in this language that contains a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    (found,) = [text for text in blocks if containing in text]
    return str(found)


@pytest.mark.parametrize(
    ("module", "containing", "changes"),
    [
        ("my_strategy", "class Patient", {"strategy": "my_strategy:Patient"}),
        (
            "my_task",
            "class Blobs",
            {"task": "my_task:Blobs", "devices": [{"profile": "rpi4", "count": 3, "seconds_per_sample": 1e-4}]},
        ),
    ],
)
def test_the_strategy_and_the_task_in_the_readme_learn(
    tmp_path: Path, module: str, containing: str, changes: dict[str, Any]
) -> None:
    (tmp_path / f"{module}.py").write_text(block("python", containing), encoding="utf-8")
    profile = write_profile(tmp_path, stop={"target_accuracy": 0.9, "seconds": 60.0}, **changes)
    outcome = complete(profile)
    assert outcome.code == 0
    assert outcome.summary["stopped"] == "accuracy 0.9 is reached"


def test_the_experiment_in_the_readme_runs(tmp_path: Path) -> None:
    profile = tmp_path / "mixed.toml"
    profile.write_text(block("toml", 'name = "mixed"'), encoding="utf-8")
    outcome = complete(profile, "--set", "stop.versions=3", "--dilation", "auto")
    assert outcome.code == 0
    assert outcome.summary["versions"] == 3


@pytest.mark.slow
def test_the_script_in_the_readme_runs(tmp_path: Path) -> None:
    text = block("python", "from testbed import compare, run")
    assert text.count("seconds=20") == 2
    (tmp_path / "script.py").write_text(text.replace("seconds=20", "seconds=2"), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=with_this_code(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert all(f"\n{name} " in f"\n{ended.stdout}" for name in ("fedasync", "fedbuff", "asyncfeded"))
    assert "mean ± half of the 95 % interval" in ended.stdout
