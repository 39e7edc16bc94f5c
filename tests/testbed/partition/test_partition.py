"""The output of the command ``data``: counted by hand, on terminals of any width, as JSON and as a heat map."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from testbed.cli import data_command
from testbed.cli.data_command import PartitionViewOptions
from testbed.cli.options import parsed
from testbed.cli.parsers import data_parser
from testbed.common.errors import UserError
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.splits.dirichlet import Dirichlet
from testbed.learning.splits.iid import IID
from testbed.learning.splits.natural import Natural
from testbed.learning.splits.split import Split
from testbed.partition import heatmap, partition_summary
from testbed.partition.heatmap import HeatmapGrid
from testbed.partition.heterogeneity import distance, distance_at_random
from testbed.partition.partition import Partition
from testbed.partition.partition_summary import DeviceLabels, DeviceValues, LabelSummary, Moments, ValueSummary
from tests.testbed.learning.splits.parts import classes, part, rng, values

HAND = part(np.array([0, 0, 1, 2, 2, 2, 0], np.uint8))
"""Seven samples of three classes, of which device a has the first three, b the next two and no device the rest."""


def partition(
    train: Subset, shards: Sequence[Sequence[int]], names: Sequence[str] = (), test: Subset | None = None, **more: Any
) -> Partition:
    data = DataSet(train=train, test=HAND if test is None else test, **more)
    arrays = [np.array(shard, np.int64) for shard in shards]
    return Partition(title="hand", data=data, shards=arrays, names=names or [f"d{i}" for i in range(len(shards))])


def by(split: Split, train: Subset, devices: int, **more: Any) -> Partition:
    return partition(train, [shard.tolist() for shard in split.assign(train, devices, rng())], test=train, **more)


BY_HAND = partition(HAND, [[0, 1, 2], [3, 4]], ["a", "b"], classes=("cat", "dog", "eel"))


def shown(given: Partition, *arguments: object, width: int = 100, terminal: bool = True) -> str:
    parser = argparse.ArgumentParser()
    data_parser.add_view_options(parser)
    options = parsed(PartitionViewOptions, parser.parse_args([str(argument) for argument in arguments]))
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=terminal, color_system=None)
    data_command.check(options)
    assert data_command.show(given, options, console) == 0
    return text.getvalue()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# ---- the summary


def labels_of(given: Partition) -> LabelSummary:
    summary = partition_summary.summary(given)
    assert isinstance(summary, LabelSummary)
    return summary


def test_samples_are_counted_by_label_and_device() -> None:
    summary = labels_of(BY_HAND)
    assert summary.labels == ["cat", "dog", "eel"]
    assert summary.counts == [[2, 0], [1, 0], [0, 2]]
    assert summary.total == [2, 1, 2]
    assert summary.test == [3, 1, 3]
    assert summary.devices == [
        DeviceLabels(device="a", samples=3, classes=2),
        DeviceLabels(device="b", samples=2, classes=1),
    ]
    assert (summary.smallest, summary.median, summary.largest) == (2, 2.5, 3)
    assert (summary.unassigned, summary.assigned_more_than_once) == (2, 0)


def test_samples_that_several_devices_have_are_counted() -> None:
    summary = partition_summary.summary(partition(HAND, [[0, 1, 2], [1, 2, 3]]))
    assert (summary.unassigned, summary.assigned_more_than_once) == (3, 2)


def test_classes_without_names_have_numbers() -> None:
    assert labels_of(partition(HAND, [[0]])).labels == ["0", "1", "2"]


def test_only_the_test_samples_that_are_used_count() -> None:
    used = Partition(title="", data=BY_HAND.data, shards=BY_HAND.shards, names=BY_HAND.names, test=np.array([2, 3]))
    summary = labels_of(used)
    assert (summary.test_samples, summary.test) == (2, [0, 1, 1])


VALUED = partition(part(np.array([1, 3, 5, 5], np.float32)), [[0, 1], [2]], test=part(np.array([], np.float32)))


def test_values_have_moments() -> None:
    summary = partition_summary.summary(VALUED)
    assert isinstance(summary, ValueSummary)
    assert summary.devices[0] == DeviceValues(device="d0", samples=2, mean=2.0, std=1.0)
    assert summary.total.mean == 3.0
    assert summary.test == Moments(mean=None, std=None)


OWNED = part(np.array([0, 1, 1, 0]), owners=[1, 0, 1, 0])


def test_owners_are_shown_if_no_device_has_two() -> None:
    natural = by(Natural(), OWNED, 2, owners=("ann", "bob"))
    assert sorted(str(row.owner) for row in partition_summary.summary(natural).devices) == ["ann", "bob"]
    assert "ann" in shown(natural)
    assert partition_summary.summary(partition(OWNED, [[0, 1], [2, 3]])).devices[0].owner is None


# ---- how uneven


def test_the_distance_is_the_mean_total_variation() -> None:
    # of all: 2/5, 1/5, 2/5; a: 2/3, 1/3, 0 is 2/5 away; b: 0, 0, 1 is 3/5 away
    assert distance(np.array([[2, 0], [1, 0], [0, 2]])) == pytest.approx(0.5)


def test_devices_with_the_labels_of_all_have_distance_zero() -> None:
    assert distance(np.array([[2, 20, 0], [3, 30, 0]])) == pytest.approx(0)
    assert distance(np.zeros((2, 3), np.int64)) == distance_at_random(np.zeros((2, 3), np.int64)) == 0


@pytest.mark.parametrize("devices", [1, 2, 10, 100, 600])
def test_the_distance_of_a_random_partition_is_as_predicted(devices: int) -> None:
    summaries = [labels_of(by(IID(), part(rng(seed).permutation(1200) % 10), devices)) for seed in range(20)]
    expected = float(np.mean([summary.distance for summary in summaries]))
    assert summaries[0].distance_at_random == pytest.approx(expected, rel=0.06, abs=1e-12)


def test_devices_with_a_single_sample_are_distant_even_at_random() -> None:
    one_each = np.tile(np.eye(2, dtype=np.int64), 500)
    assert distance(one_each) == 0.5
    assert distance_at_random(one_each) == pytest.approx(0.5, rel=1e-3)


# ---- on a terminal


def test_a_table_has_a_row_for_each_device_and_two_for_all() -> None:
    text = shown(BY_HAND)
    assert text.startswith("hand: 7 training samples of 3 classes for 2 devices, 7 to test with\n")
    assert rows(text)[1:6] == [
        ["device", "samples", "classes", "cat", "dog", "eel"],
        ["a", "3", "2", "2", "1", "·"],
        ["b", "2", "1", "·", "·", "2"],
        ["total", "5", "3", "2", "1", "2"],
        ["test", "7", "3", "3", "1", "3"],
    ]
    assert "samples of a device: from 2 to 3, median 2.5; 2 samples are on no device\n" in text
    assert "labels from those of all: 0.500" in text


def test_labels_that_no_device_has_are_named() -> None:
    assert "labels that no device has: dog, eel" in shown(partition(HAND, [[0], [1]], classes=("cat", "dog", "eel")))


def test_shared_samples_are_noted() -> None:
    assert "some samples are on several devices" in shown(partition(HAND, [[0, 1], [1, 2]]))


NAMED = by(Dirichlet(), classes(600), 3, classes=tuple(f"a-long-name-{label}" for label in range(10)))


def test_long_names_of_labels_become_numbers_with_a_legend() -> None:
    text = shown(NAMED, width=80)
    assert rows(text)[1] == ["device", "samples", "classes", *map(str, range(10))]
    assert "labels: 0 a-long-name-0, 1 a-long-name-1, " in text
    assert max(map(len, text.splitlines()[1:7])) <= 80
    assert "labels: " not in shown(NAMED, width=250)


def test_without_room_for_all_labels_the_most_frequent_are_shown() -> None:
    wide = partition(HAND, [[0, 1, 2], [3, 4]], classes=("cat", "dog", "eel", *map(str, range(59))))
    text = shown(wide, width=80)
    assert "most frequent" in text
    assert rows(text)[2] == ["d0", "3", "2", "cat", "(2),", "dog", "(1)"]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_count_is_cut_off(width: int) -> None:
    words = set(itertools.chain.from_iterable(rows(shown(NAMED, width=width))))
    assert {"600", "3"} <= words
    assert not any("…" in word for word in words)


FLEET = by(IID(), classes(300), 50)


def test_a_large_fleet_is_cut_on_a_terminal_without_all() -> None:
    text = shown(FLEET)
    assert "d39 " in text
    assert "d40 " not in text
    assert "… 10 more" in text
    assert "the first 40 devices are shown; --all shows all 50" in text
    for full in (shown(FLEET, "--all"), shown(FLEET, terminal=False)):
        assert "d49 " in full
        assert "more" not in full


def test_names_that_look_like_markup_stay_as_they_are() -> None:
    odd = partition(HAND, [[0, 1]], ["[bold]x[/bold]"], classes=("[red]", "[/]", ":smile:"))
    assert {"[bold]x[/bold]", "[red]", "[/]", ":smile:"} <= set(itertools.chain.from_iterable(rows(shown(odd))))


def test_values_have_moments_in_the_table() -> None:
    text = shown(by(IID(), values(60), 3))
    assert rows(text)[1] == ["device", "samples", "mean", "std"]
    assert "labels of" not in text


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(FLEET, "--format", "json") == ""
    table = json.loads(capsys.readouterr().out)
    assert np.array(table["counts"]).shape == (10, 50)
    assert len(table["devices"]) == 50
    assert math.isfinite(table["distance_at_random"])


SIZES = ["title", "training_samples", "test_samples", "smallest", "median", "largest", "unassigned"]
SIZES += ["assigned_more_than_once", "devices"]


@pytest.mark.parametrize(
    ("given", "keys", "device"),
    [
        (
            BY_HAND,
            ["labels", "counts", "total", "test", "distance", "distance_at_random"],
            {"device": "a", "samples": 3, "classes": 2},
        ),
        (VALUED, ["total", "test"], {"device": "d0", "samples": 2, "mean": 2.0, "std": 1.0}),
        (
            partition(VALUED.data.train, [[], [2]]),
            ["total", "test"],
            {"device": "d0", "samples": 0, "mean": None, "std": None},
        ),
        (
            partition(OWNED, [[0, 2], [1, 3]], owners=("ann", "bob")),
            ["labels", "counts", "total", "test", "distance", "distance_at_random"],
            {"device": "d0", "samples": 2, "owner": "bob", "classes": 2},
        ),
    ],
    ids=["labels", "values", "no samples", "owners"],
)
def test_json_has_only_the_keys_that_apply(
    capsys: pytest.CaptureFixture[str], given: Partition, keys: list[str], device: dict[str, object]
) -> None:
    shown(given, "--format", "json")
    table = json.loads(capsys.readouterr().out)
    assert list(table) == SIZES + keys
    assert list(table["devices"][0].items()) == list(device.items())


# ---- a picture


@pytest.mark.parametrize(
    "given",
    [
        BY_HAND,
        FLEET,
        NAMED,
        by(IID(), values(60), 3),
        by(IID(), classes(30), 1),
        partition(HAND, [[0]], ["$x^$ 設備 [b]"]),
    ],
    ids=["by hand", "fleet", "long names", "values", "one device", "odd name"],
)
def test_a_heat_map_is_made(tmp_path: Path, given: Partition) -> None:
    png = tmp_path / "picture"
    assert f"heat map: {png}" in shown(given, "--png", png, width=200)
    assert png.read_bytes().startswith(b"\x89PNG")


def grid(labels: int, devices: int, most: int = 999) -> HeatmapGrid:
    counts = np.full((labels, devices), most)
    return HeatmapGrid(title="", counts=counts, rows=["x"] * labels, devices=["phone-1"] * devices)


@pytest.mark.parametrize(("labels", "devices", "room"), [(10, 4, True), (62, 10, True), (10, 100, False)])
def test_counts_are_written_where_there_is_room(labels: int, devices: int, room: bool) -> None:
    assert grid(labels, devices).has_room_for_counts is room


@pytest.mark.parametrize(("labels", "devices"), [(10, 4), (10, 100), (62, 10), (10, 500), (1, 1), (1000, 1000)])
def test_a_heat_map_is_neither_tiny_nor_huge(labels: int, devices: int) -> None:
    drawn = grid(labels, devices)
    assert 4 <= drawn.width * devices <= 11
    assert 1.6 <= drawn.height * labels <= 9


def test_colours_are_logarithmic_if_few_devices_have_nearly_everything(tmp_path: Path) -> None:
    assert not grid(2, 5).is_skewed
    counts = np.array([[1000, 1, 0, 3, 4], [1000, 0, 2, 3, 4]])
    skewed = HeatmapGrid(title="", counts=counts, rows=["0", "1"], devices=[*"abcde"])
    assert skewed.is_skewed
    heatmap.draw(skewed, tmp_path / "x.png")  # without a warning about the logarithm of 0


@pytest.mark.parametrize(("least", "step"), [(1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (50, 50), (51, 100)])
def test_names_are_left_out_in_round_steps(least: int, step: int) -> None:
    assert heatmap._round(least) == step


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "none" / "x.png"
    with pytest.raises(UserError, match="cannot be written: No such file or directory; choose another file"):
        shown(BY_HAND, "--png", place)


def test_without_matplotlib_the_error_has_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match="pip install matplotlib"):
        shown(BY_HAND, "--png", tmp_path / "x.png")
    shown(BY_HAND)


def test_matplotlib_is_not_loaded_without_a_picture() -> None:
    code = "import sys, testbed.cli.data_command; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
