"""Tasks and strategies that no file has, in real runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import Run
from testbed.errors import UserError
from tests.live.runs import PATIENCE, ROOT, SMALL, command, with_this_code

pytestmark = pytest.mark.live

SCRIPT = f"""
import numpy as np
from torch import nn
from aggregator import EveryUpdate
from testbed import run
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks.recipe import Recipe

PROFILE = {SMALL!r} | {{"devices": [{{"profile": "rpi4", "count": 3, "seconds_per_sample": 1e-4}}]}}
PROFILE["stop"] = {{"versions": 6}}


def made(width):
    class Mine(Recipe):
        def __init__(self, inputs):
            super().__init__()
            self.inputs, self.targets = inputs, (inputs.sum(axis=1) > 0).astype(np.int64)
            self.first = lambda: nn.Linear(inputs.shape[1], width)

        def data(self, setting):
            part = Subset(inputs=self.inputs, targets=self.targets)
            return DataSet(train=part, test=part, classes=("below", "above"))

        def network(self, data):
            return nn.Sequential(self.first(), nn.ReLU(), nn.Linear(width, 2))

    return Mine


class Half(EveryUpdate):
    def weight(self, update, server):
        return SHARE


SHARE = 0.5
INPUTS = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
Mine = made(8)
found = run(PROFILE, task=Mine(INPUTS), strategy=Half, report=False, quiet=True)
print(found.path)
print(found.verify(task=Mine(INPUTS), strategy=Half).verdict)
for given in ({{"task": Mine(-INPUTS), "strategy": Half}}, {{"task": Mine(INPUTS)}}):
    try:
        found.verify(**given)
    except Exception as error:
        print(error)
Mine, sizes = made(16), [found.meta.calibration.parameters]
again = run(PROFILE, task=Mine(INPUTS), strategy=Half, replay=found, report=False, quiet=True)
print(sizes + [again.meta.calibration.parameters])
"""


def script(folder: Path, text: str) -> list[str]:
    """Run a script, and return the lines that it prints."""
    (folder / "my-script.py").write_text(text, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "my-script.py"],
        cwd=folder,
        env=with_this_code(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_task_of_a_function_and_a_strategy_of_a_script_run_and_are_verified(tmp_path: Path) -> None:
    folder, verdict, other_data, no_strategy, sizes = script(tmp_path, SCRIPT)
    assert verdict == "verified"
    assert "data of task __main__:made.<locals>.Mine has changed" in other_data
    assert "its strategy __main__:Half was a Python object; verify it in Python: testbed.Run.open(" in no_strategy
    assert sizes == "[58, 114]", "the class that was defined again is used"
    stored = Run.open(tmp_path / folder)
    assert stored.summary.strategy == "__main__:Half"
    assert stored.profile is not None
    assert stored.profile.task_name == "__main__:made.<locals>.Mine"
    with pytest.raises(UserError, match=r"verify\(task=…\)"):
        stored.verify()
    refused = command("verify", str(stored.path))
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    resumed = command("resume", str(stored.path))
    assert "a Python object of the process that made it: give it again in Python" in resumed.stderr


def test_the_object_in_the_readme_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [block] = [each for each in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "class Noisy" in each]
    assert len([line for line in block.splitlines() if line]) <= 12
    assert script(tmp_path, block.replace("seconds=5", 'seconds=3, dilation="auto"'))[-1] == "verified"
