"""FedLab in an environment of its own: builds it (``make bench-fedlab``), and runs the work of the race in it.

FedLab is installed without its dependencies: it asks for torchvision, which has no CPU build for every torch and which
its distributed part only imports. ``fedlab_run.py`` keeps that import away.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from testbed.learning.tasks.setting import Setting
from tests.benchmarks.floor import JOB, WARM_UP_UPDATES
from tests.benchmarks.records.provenance import ROOT
from tests.benchmarks.task import SharedDigits

FOLDER = ROOT / ".venv-fedlab"
_CONSTRAINTS = Path(__file__).parent / "fedlab-constraints.txt"
_READY = FOLDER / ".ready"
_NEEDS = ("numpy", "pandas", "scikit-learn", "pillow", "pynvml", "tqdm", "munch")
_PATIENCE_SECONDS = 120.0


class FedLabMissing(Exception):
    """Why FedLab cannot be measured here."""


def build() -> None:
    """Make the environment if it does not exist or its versions have changed. Raises FedLabMissing if it cannot."""
    wanted = _CONSTRAINTS.read_text(encoding="utf-8")
    if _READY.exists() and _READY.read_text(encoding="utf-8") == wanted:
        return
    pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--constraint", str(_CONSTRAINTS)]
    commands = (
        [sys.executable, "-m", "venv", str(FOLDER)],
        [*pip, "torch"],
        [*pip, *_NEEDS],
        [*pip, "--no-deps", "fedlab"],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise FedLabMissing(f"{' '.join(command[-2:])}: {last}")
    _READY.write_text(wanted, encoding="utf-8")


def check() -> None:
    """Raise FedLabMissing if the environment is not there."""
    if not _READY.exists():
        raise FedLabMissing("FedLab is not installed; `make bench-fedlab` makes an environment for it")


def updates_per_second(*, clients: int, mode: str, network: str, seconds: float) -> float:
    """One run of FedLab. Raises FedLabMissing if it is not installed or fails."""
    check()
    with tempfile.TemporaryDirectory(prefix="fedlab-") as name:
        folder = Path(name)
        result = folder / "result.json"
        _write_data(folder / "data.npz", clients, network)
        command = [str(FOLDER / "bin" / "python"), "-m", "tests.benchmarks.rivals.fedlab_run"]
        command += ["--clients", str(clients), "--mode", mode, "--network", network, "--seconds", str(seconds)]
        command += ["--batch", str(JOB.batch), "--lr", str(JOB.lr), "--warm-up", str(WARM_UP_UPDATES)]
        command += ["--data", str(folder / "data.npz"), "--result", str(result)]
        with subprocess.Popen(command, cwd=ROOT, env=_environment(), stderr=subprocess.PIPE, process_group=0) as run:
            try:
                _, errors = run.communicate(timeout=seconds + _PATIENCE_SECONDS)
            except BaseException as error:
                os.killpg(run.pid, 9)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise FedLabMissing(f"FedLab with {clients} clients did not end within its time") from None
                raise
        if not result.exists():
            lines = errors.decode(errors="replace").strip().splitlines() or [f"exit code {run.returncode}"]
            raise FedLabMissing(f"FedLab with {clients} clients failed: {lines[-1][:150]}")
        found = json.loads(result.read_text(encoding="utf-8"))
        return float(found["updates"] / found["seconds"])


def _write_data(path: Path, clients: int, network: str) -> None:
    """The samples and shards of our own runs."""
    recipe, setting = SharedDigits(model=network), Setting(devices=clients, data_seed=1, model_seed=1)
    data = recipe.data(setting)
    shards, _ = recipe.assign(data, setting)
    np.savez(path, inputs=np.asarray(data.train.inputs), targets=data.train.targets, shards=np.stack(shards))


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return own | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def main() -> None:
    try:
        build()
    except FedLabMissing as why:
        raise SystemExit(f"error: FedLab cannot be installed: {why}") from None
    print(f"FedLab is ready in {FOLDER.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
