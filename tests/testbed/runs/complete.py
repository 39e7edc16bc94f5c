"""A run folder with every file that a run can leave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from testbed.history import trace
from testbed.host.core_plan import CorePlan
from testbed.host.rapl import HostEnergy
from testbed.host.survey import StepTime, Survey
from testbed.loading import profile_loader
from testbed.planning import planner
from testbed.profile.schema import Replay
from tests.testbed.analysis import histories
from tests.testbed.analysis.test_metrics_doc import EVENTS as EVERY
from tests.testbed.examples import device_spec, write_profile
from tests.testbed.runs.folders import new_folder, write_results, write_trace

PROFILE = """
name = "demo"
strategy = "fedavg"
seed = 7
stop = { seconds = 8, target_accuracy = 0.75 }
devices = [{ profile = "rpi4" }]
"""
SCORES = {"accuracy": 0.5, "loss": 1.25, "bytes": 7.0, "version": 3.0, "scores": 9.0, "größe": 1e-5}
"""Some have the names of other columns."""
EVENTS = [*EVERY[:-1], trace.Scored(t=7.5, version=2, made=7.0, metrics=SCORES), histories.stopped(8.0)]
MODEL = {"weight": np.array([[1.0, -2.0], [0.5, 3.0]], dtype=np.float32), "bias": np.zeros(2, dtype=np.float32)}
ENERGY = HostEnergy(joules={"intel-rapl:0": 1.5}, seconds=16.0, what="measured")
RESULTS = (
    "summary.json",
    "metrics.csv",
    "versions.csv",
    "devices.csv",
    "rounds.csv",
    "fidelity.json",
    "replay.json",
)


def complete_run(place: Path) -> Path:
    """Write a run that replayed another, and return its folder."""
    place.mkdir(parents=True, exist_ok=True)
    experiment = profile_loader.load(write_profile(place, PROFILE))
    recording = write_trace(place / "recorded.jsonl", EVENTS)
    folder = new_folder(place / "runs", EVENTS)
    step = StepTime(samples=32, seconds=0.002, alone=0.0015, slow=0.003)
    survey = Survey(parameters=6, samples=(100,), steps=(step,), crowd={1: 1}, governor="powersave")
    cores = CorePlan(aggregator=1, evaluator=1, devices=(0,))
    folder.write_profile(experiment)
    pids = {"aggregator": 41, "rpi4-1": 42}
    folder.write_meta(experiment, planner.plan(experiment, survey, cores, 2.0), pids, place / "mine.toml")
    (folder.path / "checkpoints").mkdir()
    save_file(MODEL, folder.path / "checkpoints" / "final.safetensors")
    write_results(
        folder,
        [device_spec("a")],
        Replay(trace=str(recording)),
        target=experiment.stop.target_accuracy,
        host_energy=ENERGY,
    )
    return folder.path
