"""The speeds of the catalogue that were computed from FLOPs, and not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.learning.models import flops
from testbed.loading import profile_files
from testbed.profile.schema import DeviceProfile
from tests.testbed.learning.models.test_networks import made, some

PI = "rpi4"
# FLOP/s of a Pi 4 in training: images per second · 6 · multiply-adds of the forward pass, of the network that is named
RATES = {
    "resnet18": 1.47 * 6 * 1.81e9,  # ResNet-18
    "resnet18-bn": 1.47 * 6 * 1.81e9,
    "mobilenet": 1.05 * 6 * 0.30e9,  # MobileNetV2
    "mobilenet-bn": 1.05 * 6 * 0.30e9,
    "tiny-transformer": 2.63 * 6 * 1.26e9,  # ViT-Ti/16
}
OF_A_PI = {
    "jetson-nano": 0.6,
    "phone-high": 3.441,
    "phone-low": 0.274,
    "phone-mid": 1.548,
    "rpi3bplus": 0.45,
    "rpi5": 2,
}


def speeds_of(device: str) -> tuple[dict[str, float], tuple[str, ...]]:
    profile = profile_files.named(DeviceProfile, "devices", device, "test", "profile", Path())
    assert isinstance(profile.seconds_per_sample, dict)
    return profile.seconds_per_sample, profile.derived_speeds


@pytest.mark.parametrize("network", RATES)
def test_the_seconds_of_a_pi_are_training_flops_by_the_rate_of_a_similar_network(network: str) -> None:
    speeds, derived = speeds_of(PI)
    assert network in derived
    _, training = flops.per_sample(made(network), some(network, 1))
    assert speeds[network] == pytest.approx(training / RATES[network], rel=0.02)


def test_a_network_with_the_flops_of_another_has_its_speed() -> None:
    speeds, derived = speeds_of(PI)
    counted = {name: flops.per_sample(made(name), some(name, 1)) for name in ("small-cnn", "small-cnn-bn")}
    assert counted["small-cnn"] == counted["small-cnn-bn"]
    assert speeds["small-cnn"] == speeds["small-cnn-bn"]
    assert "small-cnn" not in derived


@pytest.mark.parametrize("device", OF_A_PI)
def test_other_devices_have_the_same_derived_speeds_at_their_share_of_a_pi(device: str) -> None:
    (pi, expected), (speeds, derived) = speeds_of(PI), speeds_of(device)
    assert set(derived) == set(expected) == {*RATES, "small-cnn-bn"}
    for network in derived:
        assert speeds[network] == pytest.approx(pi[network] / OF_A_PI[device], rel=0.01)
