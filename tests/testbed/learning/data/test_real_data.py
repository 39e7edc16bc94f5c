"""Real data sets, if present: set EDGEBED_DATA to a folder that contains mnist, cifar10, femnist, shakespeare.

Fashion-MNIST is also read from the folder of Debian's package dataset-fashion-mnist.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from testbed.learning.data import folders
from testbed.learning.data.data_sources import SOURCES
from testbed.learning.data.dataset import DataSet
from testbed.learning.data.loader import load
from testbed.learning.data.windows import every

PLACES = [Path(place) for place in (os.environ.get(folders.FOLDER), folders.SYSTEM) if place]
"""Read at import: a fixture hides both from the tests."""


def real(name: str, file: str) -> DataSet:
    """Return the data set. Skip the test if this file does not exist."""
    for place in PLACES:
        if any((place / folder / file).is_file() for folder in SOURCES[name].folders):
            return load(name, place)
    pytest.skip(f"there is no {file} of {name} in {' or '.join(map(str, PLACES))}; EDGEBED_DATA may name a folder")


def test_mnist_is_complete() -> None:
    data = real("mnist", "train-images-idx3-ubyte.gz")
    inputs = np.asarray(data.train.inputs)
    assert inputs.shape == (60_000, 1, 28, 28)
    assert np.asarray(data.test.inputs).shape == (10_000, 1, 28, 28)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.train.labels).tolist() == counts
    assert np.bincount(data.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert inputs.mean() == pytest.approx(data.mean[0], abs=0.02)
    assert inputs.std() == pytest.approx(data.std[0], abs=0.02)


def test_mnist_has_different_writers_in_training_and_test() -> None:
    data = real("mnist", "qmnist_writers.npz")
    assert data.train.owners is not None
    assert data.test.owners is not None
    train, test = set(data.train.owners.tolist()), set(data.test.owners.tolist())
    assert (len(train), len(test), len(train & test)) == (539, 297, 0)
    assert len(data.owners) == 836


def test_fashion_mnist_is_complete() -> None:
    data = real("fashion_mnist", "train-images-idx3-ubyte.gz")
    assert np.bincount(data.train.labels).tolist() == [6000] * 10
    assert np.asarray(data.train.inputs).mean() == pytest.approx(data.mean[0], abs=0.02)


@pytest.mark.slow
def test_the_subset_of_cifar10_is_balanced() -> None:
    data = real("cifar10", "train_labels.npz")
    inputs = np.asarray(data.train.inputs)
    assert inputs.shape == (20_000, 3, 32, 32)
    assert np.bincount(data.train.labels).tolist() == [2000] * 10
    assert np.bincount(data.test.labels).tolist() == [400] * 10
    assert inputs.mean(axis=(0, 2, 3)) == pytest.approx(data.mean, abs=1.5)
    assert inputs.std(axis=(0, 2, 3)) == pytest.approx(data.std, abs=1.5)


def test_femnist_has_its_writers() -> None:
    data = real("femnist", "femnist_leaf_sub.npz")
    assert np.asarray(data.train.inputs).shape == (14_708, 1, 28, 28)
    assert len(data.test) == 1_685
    assert data.train.owners is not None
    assert data.test.owners is not None
    assert len(np.unique(data.train.owners)) == len(np.unique(data.test.owners)) == len(data.owners) == 105
    assert len(np.unique(data.train.labels)) == len(data.classes) == 62
    inputs = (np.asarray(data.train.inputs) - data.mean[0]) / data.std[0]
    assert inputs.min() == 0
    assert inputs.max() == 1
    assert inputs.mean() < 0.3, "ink is bright, and most pixels are paper"


def test_shakespeare_has_roles() -> None:
    data = real("shakespeare", "tinyshakespeare.txt")
    assert len(data.classes) == 65
    assert len(data.train) + len(data.test) == 989_415
    assert {"GLOUCESTER", "ROMEO", "First Citizen"} <= set(data.owners)
    letters = np.array(data.classes)
    first = "".join(letters[data.train.inputs[np.array([0])][0]])
    assert first.startswith("Before we proceed any further, hear me speak.\nYou are all resolved")
    few = every(data.train, 80)
    assert few.owners is not None
    assert len(np.unique(few.owners)) == len(data.owners)
