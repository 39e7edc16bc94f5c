"""FEMNIST and Shakespeare as LEAF's JSON, and FEMNIST as arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.learning.data.loader import load
from tests.testbed.learning.data.files import images, leaf


def grey(*values: int) -> list[list[float]]:
    """Return images of one grey level each, in LEAF's format."""
    return [[value / 255.0] * 784 for value in values]


def femnist(folder: Path, **train: Any) -> None:
    leaf(folder / "femnist/train/a.json", {"f1": (grey(0, 255), [0, 61])} | train)
    leaf(folder / "femnist/train/b.json", {"f2": (grey(7), [10])})
    leaf(folder / "femnist/test/a.json", {"f2": (grey(1), [36]), "f3": (grey(2), [35])})


def test_femnist_keeps_bytes_and_writers(folder: Path) -> None:
    femnist(folder)
    data = load("femnist", folder)
    assert np.asarray(data.train.inputs)[:, 0, 3, 3].tolist() == [0, 255, 7]
    assert [data.classes[label] for label in data.train.targets] == ["0", "z", "A"]
    assert [data.classes[label] for label in data.test.targets] == ["a", "Z"]
    assert data.train.owners is not None
    assert data.test.owners is not None
    assert [data.owners[owner] for owner in data.train.owners] == ["f1", "f1", "f2"]
    assert [data.owners[owner] for owner in data.test.owners] == ["f2", "f3"]


def test_every_byte_is_restored_from_leafs_numbers(folder: Path) -> None:
    femnist(folder, f9=([[value / 255.0 for value in range(256)] * 3 + [0.0] * 16], [1]))
    pixels = np.asarray(load("femnist", folder).train.inputs)[2].ravel()
    assert pixels[:256].tolist() == list(range(256))


def test_the_network_gets_bright_ink_for_femnist(folder: Path) -> None:
    femnist(folder)
    data = load("femnist", folder)
    inputs = (np.array([255.0, 0.0]) - data.mean[0]) / data.std[0]
    assert inputs.tolist() == [0.0, 1.0]


def test_the_files_may_be_in_leafs_own_subfolder(folder: Path) -> None:
    leaf(folder / "femnist/data/train/a.json", {"f1": (grey(0), [0])})
    leaf(folder / "femnist/data/test/a.json", {"f1": (grey(0), [0])})
    assert len(load("femnist", folder).test) == 1


def test_a_user_without_samples_is_skipped(folder: Path) -> None:
    femnist(folder, f0=([], []))
    assert "f0" not in load("femnist", folder).owners


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        ((grey(1), [62]), "label 62 of sample 0 is not in 0 to 61"),
        ((grey(1), [-1]), "label -1"),
        ((grey(1), [10**20]), "a label of user 'bad' is not in 0 to 61"),
        (([], [1]), "user 'bad': has 1 labels for 0 samples"),
        ((grey(1), []), "user 'bad': has 0 labels for 1 samples"),
        (([[1e300] * 784], [1]), "a pixel of user 'bad' is not between 0 and 1"),
        ((grey(1, 2), [1]), "has 1 labels for 2 samples"),
        (([[0.5] * 783], [1]), "does not have 784 pixels"),
        (([[1.5] * 784], [1]), "a pixel of user 'bad' is not between 0 and 1"),
        (([["x"] * 784], [1]), "is not LEAF's JSON of user 'bad'"),
        (([[float("nan")] * 784], [1]), "is not LEAF's JSON"),
    ],
)
def test_bad_samples_are_refused_with_file_and_user(folder: Path, samples: Any, problem: str) -> None:
    femnist(folder, bad=samples)
    with pytest.raises(UserError, match=rf"a\.json: .*{problem}.*; the file is damaged"):
        load("femnist", folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"users": ["a"], "user_data": {}}', '{"users": 3}'])
def test_json_of_another_structure_is_refused(folder: Path, content: str) -> None:
    femnist(folder)
    (folder / "femnist/train/b.json").write_text(content)
    with pytest.raises(UserError, match=r"train/b\.json: "):
        load("femnist", folder)


def test_a_missing_part_is_named(folder: Path) -> None:
    leaf(folder / "femnist/train/a.json", {"f1": (grey(0), [0])})
    with pytest.raises(UserError, match=r"given/femnist: test/\*\.json of femnist is missing"):
        load("femnist", folder)


def arrays(folder: Path, **changed: Any) -> None:
    (folder / "femnist").mkdir()
    good: dict[str, Any] = {
        "x": images(4),
        "y": [0, 1, 61, 3],
        "writer": [0, 0, 1, 1],
        "split": [0, 1, 0, 1],
        "writer_ids": ["a", "b"],
    }
    np.savez(folder / "femnist/femnist_leaf_sub.npz", **(good | changed))


def test_arrays_are_split_as_they_say(folder: Path) -> None:
    arrays(folder)
    data = load("femnist", folder)
    assert np.array_equal(np.asarray(data.test.inputs)[:, 0], images(4)[[1, 3]])
    assert data.train.targets.tolist() == [0, 61]
    assert data.train.owners is not None
    assert data.train.owners.tolist() == [0, 1]
    assert data.owners == ("a", "b")


@pytest.mark.parametrize(
    "changed",
    [
        {"x": images(3)},
        {"y": [0, 1, 62, 3]},
        {"writer": [0, 0, 1, 2]},
        {"writer": [0, 0, 1]},
        {"split": [0, 0, 0, 0]},
        {"split": [0, 1, 2, 1]},
        {"x": images(4).astype(float)},
        {"writer_ids": "a"},
        {"writer": [0.0, 0.0, np.nan, 1.0]},
        {"writer_ids": np.array(["a", None], object)},
    ],
)
def test_inconsistent_arrays_are_refused(folder: Path, changed: dict[str, Any]) -> None:
    arrays(folder, **changed)
    with pytest.raises(UserError, match=r"femnist_leaf_sub\.npz: "):
        load("femnist", folder)


TEXT = "".join(chr(ord("a") + (7 * place) % 23) for place in range(90))


def plays(folder: Path, **more: Any) -> None:
    pairs = [(TEXT[place : place + 80], TEXT[place + 80]) for place in range(5)]
    windows, following = [list(column) for column in zip(*pairs, strict=True)]
    leaf(folder / "shakespeare/train/a.json", {"HAMLET": (windows, following), "GHOST": (["z" * 80], ["!"])} | more)
    leaf(folder / "shakespeare/test/a.json", {"GHOST": (["y" * 80, "x" * 80], ["x", "w"])})


def test_leafs_windows_of_shakespeare_are_restored(folder: Path) -> None:
    plays(folder)
    data = load("shakespeare", folder)
    letters = np.array(data.classes)
    rows = ["".join(letters[row]) for row in data.train.inputs[np.arange(6)]]
    assert rows == [*(TEXT[place : place + 80] for place in range(5)), "z" * 80]
    assert "".join(letters[data.train.targets]) == TEXT[80:85] + "!"
    assert ["".join(letters[row]) for row in data.test.inputs[np.arange(2)]] == ["y" * 80, "x" * 80]
    assert "".join(letters[data.test.targets]) == "xw"
    assert data.train.owners is not None
    assert [data.owners[owner] for owner in data.train.owners] == ["HAMLET"] * 5 + ["GHOST"]


def test_overlapping_windows_are_stored_as_one_text(folder: Path) -> None:
    plays(folder)
    inputs: Any = load("shakespeare", folder).train.inputs
    assert len(inputs.text) == 85 + 81


@pytest.mark.parametrize(
    "samples",
    [
        (["short"], ["x"]),
        (["x" * 80], ["xy"]),
        (["x" * 80], []),
        ([], ["x"]),
        ([3], ["x"]),
        (["x" * 80], [10**20]),
    ],
)
def test_invalid_windows_are_refused(folder: Path, samples: Any) -> None:
    plays(folder, BAD=samples)
    with pytest.raises(UserError, match=r"a\.json: .*user 'BAD'"):
        load("shakespeare", folder)


def test_num_samples_is_not_needed(folder: Path) -> None:
    plays(folder)
    path = folder / "shakespeare/test/a.json"
    content = json.loads(path.read_text())
    del content["num_samples"]
    path.write_text(json.dumps(content))
    assert len(load("shakespeare", folder).test) == 2
