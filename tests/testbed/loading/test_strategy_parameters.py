"""Strategy parameters in a profile: errors name the source, the key, the value and what is allowed."""

from __future__ import annotations

import inspect
from datetime import datetime
from pathlib import Path

import pytest

from aggregator.pacing import EveryK, EveryTick
from aggregator.strategies import STRATEGIES
from testbed.common.errors import UserError
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.profile import fleet
from testbed.profile.schema import Experiment
from testbed.runs.run_folder import RunFolder
from tests.testbed.examples import write_profile

DEVICES = 'devices = [{ profile = "rpi4", count = 2 }, { profile = "rpi5" }]'
K_STRATEGIES = sorted(name for name, cls in STRATEGIES.items() if issubclass(cls, EveryK))
BUFFERED = ["ca2fl", "fadas", "fedbuff"]
WAITING = [name for name in K_STRATEGIES if name not in BUFFERED]
"""Those whose devices wait for the version with their update, so that K devices are needed."""


def load(folder: Path, strategy: str, *overrides: str) -> Experiment:
    """Load an experiment with three devices."""
    return profile_loader.load(write_profile(folder, f"strategy = {strategy}\n{DEVICES}"), overrides)


def refusal(folder: Path, strategy: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load(folder, strategy, *overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---- K


def test_the_strategies_that_wait_for_k_are_known() -> None:
    assert K_STRATEGIES == [
        "ca2fl",
        "fadas",
        "fedbuff",
        "krum",
        "median",
        "safl",
        "safl-sc",
        "safl-weighted",
        "trimmed-mean",
        "twafl",
        "wkafl",
    ]


@pytest.mark.parametrize("strategy", WAITING)
def test_k_may_not_exceed_the_fleet(tmp_path: Path, strategy: str) -> None:
    assert load(tmp_path, f'{{ name = "{strategy}", k = 3 }}').strategy_parameters["k"] == 3
    message = refusal(tmp_path, f'{{ name = "{strategy}", k = 4 }}')
    assert message.startswith(f"{tmp_path}/mine.toml: strategy.k is 4; it must be at most 3, the devices of the fleet")


@pytest.mark.parametrize("strategy", WAITING)
def test_an_error_about_a_k_from_the_command_line_names_the_option(tmp_path: Path, strategy: str) -> None:
    message = refusal(tmp_path, f'{{ name = "{strategy}", k = 3 }}', "strategy.k=9")
    assert message.startswith("--set strategy.k=9: strategy.k is 9; it must be at most 3, the devices of the fleet")


def test_k_is_compared_with_the_fleet_after_all_overrides(tmp_path: Path) -> None:
    assert load(tmp_path, '{ name = "safl", k = 6 }', "devices[1].count=4").strategy_parameters["k"] == 6
    message = refusal(tmp_path, '{ name = "safl", k = 3 }', "devices[0].count=1")
    assert "strategy.k is 3; it must be at most 2, the devices of the fleet" in message


def test_a_default_k_that_is_larger_than_the_fleet_is_refused_too(tmp_path: Path) -> None:
    message = refusal(tmp_path, '"safl"', 'devices=[{profile="rpi4"}]')
    assert "strategy.k is 2; it must be at most 1, the devices of the fleet" in message


@pytest.mark.parametrize("strategy", BUFFERED)
def test_k_of_a_buffer_that_no_device_waits_for_may_exceed_the_fleet(tmp_path: Path, strategy: str) -> None:
    assert load(tmp_path, f'{{ name = "{strategy}", k = 10 }}').strategy_parameters["k"] == 10


# ---- devices in flight


@pytest.mark.parametrize("strategy", ["asyncfeded", "fedbuff", "fedavg", "afl", "safl"])
def test_the_devices_in_flight_may_be_a_number_or_a_fraction_up_to_the_fleet(tmp_path: Path, strategy: str) -> None:
    most = load(tmp_path, f'{{ name = "{strategy}", in_flight = 3, sampling = "round-robin" }}')
    assert most.strategy_parameters["in_flight"] == 3
    assert load(tmp_path, f'{{ name = "{strategy}", in_flight = 0.7 }}').strategy_parameters["in_flight"] == 0.7
    message = refusal(tmp_path, f'{{ name = "{strategy}", in_flight = 4 }}')
    assert "strategy.in_flight is 4; it must be at most 3, the devices of the fleet: lower it, or add devi" in message


@pytest.mark.parametrize("strategy", WAITING)
def test_k_may_not_exceed_the_devices_in_flight(tmp_path: Path, strategy: str) -> None:
    message = refusal(tmp_path, f'{{ name = "{strategy}", k = 3, in_flight = 2 }}')
    assert "strategy.k is 3; it must be at most 2, the devices in flight: lower it, or raise in_flight" in message


def test_k_of_a_buffer_that_no_device_waits_for_may_exceed_the_devices_in_flight(tmp_path: Path) -> None:
    assert load(tmp_path, '{ name = "fedbuff", k = 10, in_flight = 2 }').strategy_parameters["k"] == 10


def test_a_sampling_without_a_number_in_flight_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, '{ name = "fedasync", sampling = "by_samples" }')
    assert "strategy.sampling is by_samples, but all devices are in flight: set in_flight" in message


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("asafl", "asafl selects the devices of each round itself: leave it out"),
        ("eafl", "eafl lets the heads of clusters select devices: leave it out"),
        ("fedat", "fedat chooses the devices of each tier itself: leave it out"),
        ("fedcompass", "fedcompass gives every device a place in a group: leave it out"),
        ("gsgm", "gsgm waits in turn for every device: leave it out"),
    ],
)
def test_a_strategy_with_a_selection_of_its_own_refuses_the_key(tmp_path: Path, strategy: str, why: str) -> None:
    assert f"strategy.in_flight is 2; {why}" in refusal(tmp_path, f'{{ name = "{strategy}", in_flight = 2 }}')
    message = refusal(tmp_path, f'{{ name = "{strategy}", sampling = "uniform" }}')
    assert f"strategy.sampling is uniform; {why}" in message


def test_krum_needs_more_updates_than_its_byzantine_devices_allow_for(tmp_path: Path) -> None:
    assert load(tmp_path, '{ name = "krum", k = 3, f = 0, m = 3 }').strategy_parameters["f"] == 0
    message = refusal(tmp_path, '{ name = "krum", k = 3, f = 1 }')
    assert "strategy.f is 1; 2f + 2 must be below k, which is 3: lower f, or raise k" in message
    message = refusal(tmp_path, '{ name = "krum", k = 3, m = 4 }')
    assert "strategy.m is 4; it must be at most k, which is 3: lower m, or raise k" in message


def test_there_may_be_no_more_tiers_than_devices(tmp_path: Path) -> None:
    assert load(tmp_path, '"fedat"').strategy_parameters["tiers"] == 3
    message = refusal(tmp_path, '{ name = "fedat", tiers = 4 }')
    assert "strategy.tiers is 4; it must be at most 3, the devices of the fleet: lower it" in message


def test_the_most_steps_of_fedcompass_may_not_be_below_the_fewest(tmp_path: Path) -> None:
    message = refusal(tmp_path, '{ name = "fedcompass", q_min = 30 }')
    assert "strategy.q_max is 25; it must be at least q_min, which is 30: raise it" in message


@pytest.mark.parametrize("strategy", ["asyncfeded", "fedcompass"])
def test_epochs_are_refused_for_a_strategy_that_sets_the_steps_itself(tmp_path: Path, strategy: str) -> None:
    message = refusal(tmp_path, f'"{strategy}"', "training.epochs=2")
    assert f"training.epochs is 2; {strategy} sets the local steps of each job itself: use training.steps" in message
    assert load(tmp_path, '"fedasync"', "training.epochs=2").training.epochs == 2


def test_clusters_may_not_exceed_the_devices(tmp_path: Path) -> None:
    assert load(tmp_path, '{ name = "eafl", clusters = 3 }').strategy_parameters["clusters"] == 3
    message = refusal(tmp_path, '{ name = "eafl", clusters = 4 }')
    assert message.startswith(
        f"{tmp_path}/mine.toml: strategy.clusters is 4; it must be at most 3, the devices of the fleet"
    )


def test_a_strategy_with_cluster_heads_is_not_replayed_strictly(tmp_path: Path) -> None:
    replay = f'replay={{ trace = "{tmp_path}", mode = "strict" }}'
    message = refusal(tmp_path, '"eafl"', replay)
    assert "replay.mode is strict; eafl cannot be replayed strictly: it has cluster heads" in message
    assert "use replay.mode = 'schedule'" in message


def test_a_device_that_keeps_its_own_gradients_waits_for_a_lost_download(tmp_path: Path) -> None:
    group = 'devices=[{ profile = "rpi4", count = 3, on_lost_download = "old_base" }]'
    light = '{ name = "asafl", control = "fixed", degree = 2, memory = "light" }'
    message = refusal(tmp_path, light, group, "cell={}")
    assert "devices[0].on_lost_download is old_base; with asafl, a device waits" in message
    assert "cell" in refusal(tmp_path, light.replace("light", "full"), group)  # refused for another reason only


def test_members_of_a_cluster_wait_for_a_lost_download(tmp_path: Path) -> None:
    message = refusal(tmp_path, '"eafl"', 'devices=[{ profile = "rpi4", count = 3, on_lost_download = "old_base" }]')
    assert "devices[0].on_lost_download is old_base; with eafl, a device waits" in message


# ---- ranges


@pytest.mark.parametrize(
    ("strategy", "key", "value", "allowed"),
    [
        ("ace", "eta", "0", "above 0"),
        ("aced", "tau_algo", "-1", "at least 0"),
        ("ca2fl", "eta", "0", "above 0"),
        ("fadas", "tau_c", "0", "at least 1"),
        ("fadas", "slower", "'scale'", "did you mean 'scaled'?"),
        ("fadas", "epsilon", "0", "above 0"),
        ("afl", "fraction", "0", "above 0 and at most 1"),
        ("afl", "fraction", "1.5", "above 0 and at most 1"),
        ("afl", "tau_max", "-1", "at least 0"),
        ("afl", "alpha", "1.5", "at least 0 and at most 1"),
        ("sync-fl", "fraction", "0", "above 0 and at most 1"),
        ("sync-fl", "fraction", "-0.5", "above 0 and at most 1"),
        ("sync-fl", "deadline", "0", "at least 0.001"),
        ("fedprox", "mu", "-0.5", "at least 0"),
        ("fedbuff", "k", "0", "at least 1"),
        ("fedbuff", "k", "1.5", "a whole number"),
        ("fedbuff", "eta", "0", "above 0"),
        ("fedbuff", "optimizer", "'adm'", "did you mean 'adam'?"),
        ("fedbuff", "tau", "0", "above 0"),
        ("fedopt", "beta1", "1", "at least 0 and below 1"),
        ("fedopt", "beta2", "-0.5", "at least 0 and below 1"),
        ("audg", "interval", "0", "at least 0.001"),
        ("audg", "interval", "'soon'", "a number"),
        ("audg", "weighting", "'size'", "known: equal, samples"),
        ("psurdg", "interval", "-1", "at least 0.001"),
        ("psurdg", "weighting", "'sample'", "did you mean 'samples'?"),
        ("safl", "k", "0", "at least 1"),
        ("safl-sc", "tau_0", "-1", "at least 0"),
        ("safl-sc", "tau_0", "1.5", "a whole number"),
        ("safl-weighted", "alpha", "0", "above 0 and at most 1"),
        ("twafl", "alpha", "1.5", "above 0 and at most 1"),
        ("wkafl", "alpha", "1", "at least 0 and below 1"),
        ("wkafl", "theta", "2", "at least -1 and at most 1"),
        ("wkafl", "theta", "-1.5", "at least -1 and at most 1"),
        ("wkafl", "clip", "0", "above 0"),
        ("wkafl", "beta", "-1", "at least 0"),
        ("wkafl", "c", "-1", "at least 0"),
        ("eafl", "clusters", "0", "at least 1"),
        ("eafl", "every", "0", "at least 1"),
        ("eafl", "phi", "0", "above 0 and at most 1"),
        ("eafl", "phi", "1.5", "above 0 and at most 1"),
        ("eafl", "patience", "0", "at least 0.001"),
        ("gsgm", "beta", "1", "at least 0 and below 1"),
        ("fedat", "tiers", "0", "at least 1"),
        ("fedat", "mu", "-1", "at least 0"),
        ("fedat", "fraction", "0", "above 0 and at most 1"),
        ("fedcompass", "q_min", "0", "at least 1"),
        ("fedcompass", "lam", "0.9", "at least 1"),
        ("fedcompass", "mu", "0", "above 0 and at most 1"),
        ("fedcompass", "alpha", "0", "above 0"),
        ("trimmed-mean", "beta", "0.5", "at least 0 and below 0.5"),
        ("trimmed-mean", "beta", "-0.1", "at least 0 and below 0.5"),
        ("median", "k", "0", "at least 1"),
        ("krum", "f", "-1", "at least 0"),
        ("krum", "m", "0", "at least 1"),
        ("gsgm", "s", "0", "at least 1"),
        ("gsgm", "eta", "0", "above 0"),
        ("fedasync", "in_flight", "0", "above 0"),
        ("fedbuff", "in_flight", "-0.5", "above 0"),
        ("fedavg", "in_flight", "'all'", "a number"),
        ("audg", "sampling", "'random'", "known: by_samples, round-robin, uniform"),
        ("safl", "sampling", "'by-samples'", "did you mean 'by_samples'?"),
    ],
)
def test_a_parameter_out_of_range_is_refused(tmp_path: Path, strategy: str, key: str, value: str, allowed: str) -> None:
    interval = "" if key == "interval" or strategy not in ("audg", "psurdg") else "interval = 1, "
    message = refusal(tmp_path, f'{{ name = "{strategy}", {interval}{key} = {value} }}')
    assert message.startswith(f"{tmp_path}/mine.toml: strategy.{key} is {value}")
    assert allowed in message
    override = f"strategy.{key}={value}"
    message = refusal(tmp_path, f'{{ name = "{strategy}", interval = 1 }}' if interval else f'"{strategy}"', override)
    assert message.startswith(f"--set {override}: strategy.{key} is {value}")


@pytest.mark.parametrize(
    ("strategy", "key", "hint"),
    [
        ("afl", "fractoin", "did you mean 'fraction'?"),
        ("safl", "tau_0", "known: in_flight, k, sampling"),
        ("fedbuff", "K", "known: beta1, beta2, eta, in_flight, k, optimizer, sampling, tau"),
        ("gsgm", "betta", "did you mean 'beta'?"),
        ("wkafl", "thetha", "did you mean 'theta'?"),
        ("audg", "intervall", "did you mean 'interval'?"),
        # state of a strategy is not a parameter
        ("psurdg", "_sum", "known: in_flight, interval, normalised, sampling, weighting"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_known_ones(
    tmp_path: Path, strategy: str, key: str, hint: str
) -> None:
    message = refusal(tmp_path, f'{{ name = "{strategy}", {key} = 1 }}')
    assert message.startswith(f"{tmp_path}/mine.toml: strategy.{key} is not a known key; ")
    assert hint in message


@pytest.mark.parametrize("strategy", ["audg", "psurdg"])
def test_a_strategy_with_ticks_needs_an_interval(tmp_path: Path, strategy: str) -> None:
    message = refusal(tmp_path, f'"{strategy}"')
    assert message.startswith(f"{tmp_path}/mine.toml: strategy.interval is missing: seconds per iteration")
    assert load(tmp_path, f'"{strategy}"', "strategy.interval=2").strategy_parameters["interval"] == 2.0


# ---- stored profiles


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_stored_profile_with_all_its_parameters_loads_to_the_same_experiment(tmp_path: Path, strategy: str) -> None:
    cls = STRATEGIES[strategy]
    interval = ["strategy.interval=2.5", "devices[1].phi=0.5"] if issubclass(cls, EveryTick) else []
    cell = ["cell.radius=250", "strategy.degree=3"] if cls.grants else []
    experiment = load(tmp_path, f'"{strategy}"', "devices[0].count=5", *interval, *cell)
    unset = {name for name, each in inspect.signature(cls).parameters.items() if each.default is None}
    assert experiment.strategy_parameters.keys() == inspect.signature(cls).parameters.keys() - unset
    folder = RunFolder.new(tmp_path, experiment.name, datetime(2024, 1, 2, 3, 4, 5))
    folder.write_profile(experiment)
    assert profile_loader.load(folder.path / "profile.toml") == experiment


# ---- the bound on updates


def test_differences_of_devices_may_be_refused_but_not_scaled_down(tmp_path: Path) -> None:
    light, cell = '{ name = "asafl", memory = "light" }', "cell={}"
    assert load(tmp_path, light, cell, "aggregator.clip=1", "aggregator.on_clip=refuse").aggregator.clip == 1
    message = refusal(tmp_path, light, cell, "aggregator.clip=1")
    assert "aggregator.on_clip is scale; devices upload differences to what the aggregator has" in message
    assert load(tmp_path, '"asafl"', cell, "aggregator.clip=1").aggregator.on_clip == "scale"


@pytest.mark.parametrize("clip", ["0", "-1", "nan", "inf", "1e19"])
def test_a_bound_on_updates_is_a_positive_number(tmp_path: Path, clip: str) -> None:
    assert "aggregator.clip is " in refusal(tmp_path, '"fedasync"', f"aggregator.clip={clip}")


# ---- compression of updates


def test_a_group_may_compress_its_updates_in_another_way_than_the_fleet(tmp_path: Path) -> None:
    experiment = load(tmp_path, '"fedasync"', "compress_updates=int8", "devices[1].compress_updates=topk:0.01")
    assert [experiment.compression_of(group) for group in experiment.devices] == ["int8", "topk:0.01"]
    devices = fleet.concrete(experiment, Survey(parameters=10, samples=(5, 5, 5)))
    assert [device.compress_updates for device in devices] == ["int8", "int8", "topk:0.01"]
    assert experiment.compresses_updates
    assert not load(tmp_path, '"fedasync"').compresses_updates


@pytest.mark.parametrize("key", ["compress_updates", "devices[0].compress_updates"])
@pytest.mark.parametrize("text", ["int7", "topk", "topk:0", "topk:2", ""])
def test_another_method_of_compression_is_refused_with_those_that_exist(tmp_path: Path, key: str, text: str) -> None:
    message = refusal(tmp_path, '"fedasync"', f'{key}="{text}"')
    assert f"{key} is {text!r}; it must be none, float16, int8, or topk:F with 0 < F ≤ 1, such as topk:0.01" in message


@pytest.mark.parametrize("key", ["compress_updates", "devices[0].compress_updates"])
def test_differences_of_devices_are_not_compressed(tmp_path: Path, key: str) -> None:
    light, cell = '{ name = "asafl", memory = "light" }', "cell={}"
    message = refusal(tmp_path, light, cell, f"{key}=int8")
    assert f"{key} is int8; devices upload differences to what the aggregator has" in message
    assert load(tmp_path, '"asafl"', cell, f"{key}=int8").compresses_updates
