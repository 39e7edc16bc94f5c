from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.learning.data.loader import load
from tests.testbed.learning.data.files import TEST, TRAIN, any_checksum, digits, idx, images, labels, write


@pytest.mark.parametrize("compressed", [False, True])
def test_four_files_are_a_data_set(folder: Path, compressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    any_checksum(monkeypatch)
    write(folder / "mnist", digits(), compressed)
    data = load("mnist", folder)
    assert np.array_equal(np.asarray(data.train.inputs)[:, 0], images(TRAIN))
    assert np.array_equal(np.asarray(data.test.inputs)[:, 0], images(TEST, 1))
    assert data.train.targets.tolist() == labels(TRAIN).tolist()
    assert data.classes == tuple("0123456789")
    assert data.train.owners is None
    assert data.owners == ()
    assert data.mean == pytest.approx((33.3285,))
    assert data.std == pytest.approx((78.5655,))


def test_fashion_has_its_own_names_and_mean(folder: Path) -> None:
    write(folder / "fashion_mnist", digits())
    data = load("fashion_mnist", folder)
    assert data.classes[9] == "Ankle boot"
    assert data.mean == pytest.approx((72.93,))


@pytest.mark.parametrize("place", ["MNIST/raw", "mnist"])
def test_files_may_be_where_torchvision_puts_them(folder: Path, place: str) -> None:
    write(folder / place, digits())
    assert len(load("mnist", folder).train) == TRAIN


def test_a_compressed_file_with_another_checksum_is_refused(folder: Path) -> None:
    write(folder / "mnist", digits(), compressed=True)
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte\.gz: its md5 is .* f68b3c2d.* decompress the file"):
        load("mnist", folder)


def test_a_truncated_compressed_file_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    any_checksum(monkeypatch)
    path = write(folder / "mnist", digits(), compressed=True) / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte\.gz: cannot be read.*get a new copy"):
        load("mnist", folder)


def test_a_compressed_file_with_a_changed_byte_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    any_checksum(monkeypatch)
    path = write(folder / "mnist", digits(), compressed=True) / "t10k-images-idx3-ubyte.gz"
    content = bytearray(path.read_bytes())
    content[-6] ^= 1  # gzip's own checksum
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte\.gz: cannot be read"):
        load("mnist", folder)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("train-images-idx3-ubyte", b"\0\0\x08\x01" + bytes(20), "begins with 00000801 instead of 00000803"),
        ("train-images-idx3-ubyte", b"", "begins with  instead"),
        ("train-images-idx3-ubyte", b"\0\0\x08\x03\0\0", "ends in its header, after 6 bytes"),
        ("train-images-idx3-ubyte", idx(images(TRAIN))[:-1], "has 5503 bytes, but 7 × 28 × 28 values need 5504"),
        ("train-images-idx3-ubyte", idx(images(TRAIN)) + b"x", "has 5505 bytes"),
        ("train-images-idx3-ubyte", idx(images(TRAIN)[:, :27]), "must be bytes, N × 28 × 28"),
        ("train-labels-idx1-ubyte", idx(labels(TRAIN + 1)), "has 8 labels for 7 samples"),
        ("t10k-labels-idx1-ubyte", idx(np.array([0, 10, 1], np.uint8)), "label 10 of sample 1 is not in 0 to 9"),
    ],
)
def test_a_damaged_file_is_refused_with_the_problem(folder: Path, name: str, content: bytes, problem: str) -> None:
    write(folder / "mnist", digits() | {name: content})
    with pytest.raises(UserError, match=f"{name}: .*{problem}.*get a new copy"):
        load("mnist", folder)


def test_a_damaged_data_set_leaves_nothing_in_the_cache(folder: Path, tmp_path: Path) -> None:
    write(folder / "mnist", digits() | {"t10k-labels-idx1-ubyte": b"no"})
    with pytest.raises(UserError):
        load("mnist", folder)
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_a_data_set_without_samples_is_refused(folder: Path) -> None:
    empty = {"t10k-images-idx3-ubyte": idx(images(0)), "t10k-labels-idx1-ubyte": idx(labels(0))}
    write(folder / "mnist", digits() | empty)
    with pytest.raises(UserError, match="has no samples"):
        load("mnist", folder)


def test_writers_of_both_parts_are_numbered_from_zero(folder: Path) -> None:
    write(folder / "mnist", digits())
    np.savez(folder / "mnist/qmnist_writers.npz", train_writer=[30, 30, 2, 2, 2, 30, 5], test_writer=[900, 5, 900])
    data = load("mnist", folder)
    assert data.owners == ("2", "5", "30", "900")
    assert data.train.owners is not None
    assert data.test.owners is not None
    assert data.train.owners.tolist() == [2, 2, 0, 0, 0, 2, 1]
    assert data.test.owners.tolist() == [3, 1, 3]


def qmnist(folder: Path, part: str, classes: np.ndarray[Any, Any], writers: list[int]) -> None:
    rows = np.zeros((len(writers), 8), np.int32)
    rows[:, 0], rows[:, 2] = classes, writers
    (folder / f"mnist/qmnist-{part}-labels-idx2-int.gz").write_bytes(gzip.compress(idx(rows)))


def test_writers_may_come_from_qmnists_labels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    any_checksum(monkeypatch)
    write(folder / "mnist", digits())
    qmnist(folder, "train", labels(TRAIN), [4, 4, 4, 8, 8, 8, 8])
    qmnist(folder, "test", labels(TEST + 2), [9, 9, 4, 77, 77])  # more than MNIST has, after MNIST's images
    data = load("mnist", folder)
    assert data.owners == ("4", "8", "9")
    assert data.test.owners is not None
    assert data.test.owners.tolist() == [2, 2, 0]


def test_without_writers_a_hint_names_files_and_folder(folder: Path) -> None:
    write(folder / "mnist", digits())
    (folder / "mnist/qmnist-test-labels-idx2-int.gz").write_bytes(b"one of both is there")
    assert load("mnist", folder).train.owners_from == (
        "put qmnist-train-labels-idx2-int.gz (from https://raw.githubusercontent.com/facebookresearch/qmnist/master/)"
        f" into {folder}/mnist to know who wrote each digit"
    )


def test_there_is_no_hint_if_writers_are_known_or_do_not_exist(folder: Path) -> None:
    write(folder / "mnist", digits())
    write(folder / "fashion_mnist", digits())
    np.savez(folder / "mnist/qmnist_writers.npz", train_writer=[1] * TRAIN, test_writer=[2] * TEST)
    assert load("mnist", folder).train.owners_from == ""
    assert load("fashion_mnist", folder).train.owners_from == ""


def test_writers_of_other_images_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    any_checksum(monkeypatch)
    write(folder / "mnist", digits())
    qmnist(folder, "train", labels(TRAIN)[::-1], [4] * TRAIN)
    qmnist(folder, "test", labels(TEST), [4] * TEST)
    with pytest.raises(UserError, match=r"qmnist-train-labels-idx2-int\.gz: row 0 is for a 6, but image 0 is a 0"):
        load("mnist", folder)


def test_writers_of_too_few_images_are_refused(folder: Path) -> None:
    write(folder / "mnist", digits())
    np.savez(folder / "mnist/qmnist_writers.npz", train_writer=[1] * TRAIN, test_writer=[1])
    with pytest.raises(UserError, match=r"qmnist_writers\.npz: test_writer is not a list of 3 whole numbers"):
        load("mnist", folder)


def test_a_damaged_file_of_writers_is_refused(folder: Path) -> None:
    write(folder / "mnist", digits() | {"qmnist_writers.npz": b"PK\x03\x04 and nothing more"})
    with pytest.raises(UserError, match=r"qmnist_writers\.npz: has no readable arrays train_writer, test_writer"):
        load("mnist", folder)
