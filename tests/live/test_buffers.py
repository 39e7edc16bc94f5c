"""Networks with batch normalisation in real processes: statistics in the model, or on each device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from testbed.history import trace
from tests.live.runs import complete, complete_and_verify, write_profile

pytestmark = pytest.mark.live

STATISTICS = {"1.running_mean", "1.running_var", "5.running_mean", "5.running_var"}
ONE_SAMPLE = '''
import torch
from torch import nn
from torch.utils.data import TensorDataset
from testbed.learning.tasks.recipe import Recipe


class Mine(Recipe):
    """Batch normalisation of vectors, which needs two samples in a batch."""

    def data(self, setting):
        part = TensorDataset(torch.arange(14.0).reshape(7, 2), torch.tensor([0, 1, 0, 1, 0, 1, 0]))
        return part, part

    def network(self, data):
        return nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
'''


@pytest.mark.parametrize("strategy", ["fedavg", "fedasync"])
@pytest.mark.parametrize("buffers", ["average", "local"])
def test_a_network_with_batch_normalisation_learns_and_is_verified(buffers: str, strategy: str, tmp_path: Path) -> None:
    fleet: list[dict[str, Any]] = [
        {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.2, "on_drop": "give_up"},
        {"profile": "phone-mid", "name": "phone", "link": "5g", "count": 2, "suspend": 0.3, "suspend_max": 0.2},
    ]
    profile = write_profile(
        tmp_path,
        task={"name": "digits", "model": "small-cnn-bn", "buffers": buffers},
        training={"steps": 8, "batch": 16, "lr": 0.05},
        strategy=strategy,
        devices=fleet,
        stop={"versions": 12},
    )
    outcome = complete_and_verify(profile)
    scores = [event.metrics for event in outcome.of_kind(trace.Scored)]
    assert scores[-1]["loss"] < scores[0]["loss"]
    tensors = load_file(outcome.folder / "checkpoints" / "final.safetensors")
    found = {name for name in tensors if "running" in name}
    assert found == (STATISTICS if buffers == "average" else set())
    assert sum(tensor.size for tensor in tensors.values()) == 6_186 + (96 if buffers == "average" else 0)
    if buffers == "average":
        assert np.abs(tensors["1.running_mean"]).max() > 0.01
        assert all(tensors[name].min() > 0 for name in STATISTICS if name.endswith("var"))


def test_a_device_with_one_sample_and_batch_normalisation_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "norm_task.py").write_text(ONE_SAMPLE, encoding="utf-8")
    profile = write_profile(
        tmp_path, task="norm_task:Mine", devices=[{"profile": "host", "link": "ethernet", "count": 5}]
    )
    outcome = complete(profile)
    assert outcome.code == 2
    assert "3 devices have one training sample, and batch normalisation needs two samples in a batch" in outcome.stderr
    assert "Traceback" not in outcome.stderr
