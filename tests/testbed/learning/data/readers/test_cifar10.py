from __future__ import annotations

import lzma
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.learning.data.loader import load
from testbed.learning.data.readers import cifar10
from tests.testbed.learning.data.files import archive, batches, labels, records, write


@pytest.fixture
def any_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept any checksum for the official files."""
    monkeypatch.setattr(cifar10, "KNOWN", {})


def pickles(protocol: int = 2, key: Any = str) -> dict[str, bytes]:
    """Return the same images as in the records, as pickles of Python 3."""
    found = {}
    for name, content in batches("").items():
        rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
        table = {key("data"): rows[:, 1:].copy(), key("labels"): rows[:, 0].tolist(), key("filenames"): ["a.png", "b"]}
        found[name] = pickle.dumps(table, protocol)
    return found


def one_pickled_image() -> bytes:
    return pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [1]}, 2)


def as_python_2_wrote_it(content: bytes) -> bytes:
    """Return a pickle with the opcodes of the official files: strings and images are byte strings."""
    rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    data, count = rows[:, 1:].tobytes(), bytes([len(rows)])
    return b"".join(
        (
            b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05(",
            b"".join(b"K" + bytes([label]) for label in rows[:, 0]),
            b"eU\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\tU\x01b\x87Rq\n",
            b"(K\x01K" + count + b"M\x00\x0c\x86cnumpy\ndtype\nq\x0bU\x02u1K\x00K\x01\x87Rq\x0c(K\x03U\x01|NNN",
            b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + len(data).to_bytes(4, "little") + data + b"tb",
            b"U\tfilenamesq\r]q\x0e(U\x05a.pngq\x0fU\x01bq\x10eu.",
        )
    )


def check(folder: Path) -> None:
    data = load("cifar10", folder)
    rows = [np.frombuffer(content, np.uint8).reshape(-1, 3073) for content in batches().values()]
    train = np.concatenate(rows[:5])
    assert np.array_equal(np.asarray(data.train.inputs), train[:, 1:].reshape(-1, 3, 32, 32))
    assert np.array_equal(data.train.targets, train[:, 0])
    assert np.array_equal(np.asarray(data.test.inputs), rows[5][:, 1:].reshape(-1, 3, 32, 32))
    assert data.classes[3] == "cat"
    assert data.mean == pytest.approx((125.307, 122.961, 113.8575))


@pytest.mark.usefixtures("any_batches")
class TestOfficialFiles:
    @pytest.mark.parametrize("place", ["cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"])
    def test_unpacked_records_are_read(self, folder: Path, place: str) -> None:
        write(folder / place, batches())
        check(folder)

    @pytest.mark.parametrize("place", ["cifar10", "cifar-10-batches-py"])
    def test_unpacked_pickles_are_read(self, folder: Path, place: str) -> None:
        write(folder / place, pickles())
        check(folder)

    @pytest.mark.parametrize("place", ["cifar10", "."])
    def test_the_archive_of_records_is_read(self, folder: Path, place: str) -> None:
        archive(folder / place / "cifar-10-binary.tar.gz", batches() | {"readme.html": b"hello"})
        check(folder)

    @pytest.mark.parametrize("protocol", [2, 4])
    @pytest.mark.parametrize("key", [str, str.encode])
    def test_the_archive_of_pickles_is_read(self, folder: Path, protocol: int, key: Any) -> None:
        archive(folder / "cifar10/cifar-10-python.tar.gz", pickles(protocol, key))
        check(folder)

    def test_pickles_of_python_2_are_read(self, folder: Path) -> None:
        write(folder / "cifar10", {name: as_python_2_wrote_it(content) for name, content in batches("").items()})
        check(folder)

    def test_a_pickle_that_calls_a_function_is_refused_before_it_can(self, folder: Path, tmp_path: Path) -> None:
        proof = tmp_path / "proof"

        class Hostile:
            def __reduce__(self) -> tuple[Any, ...]:
                return os.mkdir, (str(proof),)

        archive(folder / "cifar10/cifar-10-python.tar.gz", pickles() | {"data_batch_3": pickle.dumps(Hostile())})
        with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz/data_batch_3: this pickle names posix\.mkdir"):
            load("cifar10", folder)
        assert not proof.exists()

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"no pickle",
            pickle.dumps([1, 2]),
            pickle.dumps({"data": [1], "labels": [1]}),
            pickle.dumps({"data": np.zeros((2, 3072)), "labels": [1, 2]}, 2),
            pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": ["a", []]}, 2),
            pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, 2),
            pickle.dumps({"data": np.zeros((2, 3071), np.uint8), "labels": [1, 2]}, 2),
            pickles()["data_batch_2"][:-2000],
            b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x87R}(U\x01ab.",
        ],
    )
    def test_a_pickle_of_other_content_is_refused(self, folder: Path, content: bytes) -> None:
        write(folder / "cifar10", pickles() | {"data_batch_2": content})
        with pytest.raises(UserError, match="data_batch_2: "):
            load("cifar10", folder)

    def test_an_archive_without_a_batch_is_refused(self, folder: Path) -> None:
        some = batches()
        del some["data_batch_4.bin"]
        archive(folder / "cifar10/cifar-10-binary.tar.gz", some)
        with pytest.raises(UserError, match=r"cifar-10-binary\.tar\.gz: does not contain data_batch_4\.bin"):
            load("cifar10", folder)

    def test_a_truncated_archive_is_refused(self, folder: Path) -> None:
        path = archive(folder / "cifar10/cifar-10-binary.tar.gz", batches())
        path.write_bytes(path.read_bytes()[:-9000])
        with pytest.raises(UserError, match=r"cifar-10-binary\.tar\.gz: cannot be unpacked"):
            load("cifar10", folder)

    def test_truncated_records_are_refused(self, folder: Path) -> None:
        some = batches()
        write(folder / "cifar10", some | {"data_batch_5.bin": some["data_batch_5.bin"][:-1]})
        with pytest.raises(UserError, match=r"data_batch_5\.bin: has 6145 bytes"):
            load("cifar10", folder)

    @pytest.mark.parametrize("number", [1, 3, 5])
    def test_records_that_are_truncated_between_two_records_are_refused(self, folder: Path, number: int) -> None:
        write(folder / "cifar10", batches() | {f"data_batch_{number}.bin": records(1)})
        problem = rf"data_batch_{number}\.bin: has 1 images, but the other training batches have 2;"
        with pytest.raises(UserError, match=problem):
            load("cifar10", folder)

    def test_a_pickle_with_fewer_images_than_the_others_is_refused(self, folder: Path) -> None:
        archive(folder / "cifar10/cifar-10-python.tar.gz", pickles() | {"data_batch_2": one_pickled_image()})
        with pytest.raises(UserError, match=r"gz/data_batch_2: has 1 images, but the other training batches have 2;"):
            load("cifar10", folder)

    def test_the_error_names_all_counts_if_several_batches_differ(self, folder: Path) -> None:
        write(folder / "cifar10", batches() | {"data_batch_4.bin": records(1), "data_batch_5.bin": records(3)})
        with pytest.raises(UserError, match=r"data_batch_4\.bin: has 1 images, but the other .* have 2, 3;"):
            load("cifar10", folder)

    def test_the_test_batch_of_a_subset_may_have_any_length(self, folder: Path) -> None:
        write(folder / "cifar10", batches() | {"test_batch.bin": records(1)})
        assert len(load("cifar10", folder).test) == 1

    def test_a_truncated_test_batch_with_official_training_batches_is_refused(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cifar10, "_OFFICIAL", 2)
        write(folder / "cifar10", batches() | {"test_batch.bin": records(1)})
        with pytest.raises(UserError, match=r"test_batch\.bin: has 1 images, but the training batches have 2 each"):
            load("cifar10", folder)

    def test_a_missing_batch_is_named(self, folder: Path) -> None:
        some = batches()
        del some["test_batch.bin"], some["data_batch_2.bin"]
        write(folder / "cifar10", some)
        with pytest.raises(UserError, match=r"data_batch_2\.bin, test_batch\.bin of cifar10 are missing"):
            load("cifar10", folder)


@pytest.mark.parametrize("name", ["cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"])
def test_an_archive_with_another_checksum_is_refused_before_it_is_opened(folder: Path, name: str) -> None:
    archive(folder / "cifar10" / name, batches() | pickles())
    with pytest.raises(UserError, match=rf"{name}: its md5 is"):
        load("cifar10", folder)


def test_a_pickle_with_another_checksum_is_refused(folder: Path) -> None:
    write(folder / "cifar10", pickles())
    with pytest.raises(UserError, match=r"data_batch_1: its md5 is .* c99cafc1"):
        load("cifar10", folder)


def shards(folder: Path) -> Path:
    base = folder / "cifar10"
    base.mkdir(exist_ok=True)
    for part, count in (("train", 3), ("test", 1)):
        for number in range(count):
            pixels = np.full((4, 32, 32, 3), 10 * number, np.uint8)
            pixels[..., 1] += 1
            with lzma.open(base / f"{part}_x_{number:02}.npy.xz", "wb") as file:
                np.save(file, pixels)
        np.savez(base / f"{part}_labels.npz", y=labels(4 * count), index=np.arange(4 * count))
    return base


def test_shards_are_read_in_order_with_channels_first(folder: Path) -> None:
    shards(folder)
    data = load("cifar10", folder)
    inputs = np.asarray(data.train.inputs)
    assert inputs.shape == (12, 3, 32, 32)
    assert inputs[:, 0, 5, 5].tolist() == [0] * 4 + [10] * 4 + [20] * 4
    assert inputs[4, :, 7, 9].tolist() == [10, 11, 10]
    assert len(data.test) == 4


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0], "train_x_00.npy.xz of cifar10 is missing; put it there"),
        ([1], "train_x_01.npy.xz of cifar10 is missing; put it there"),
        ([0, 1], "train_x_00.npy.xz, train_x_01.npy.xz of cifar10 are missing; put them there"),
        ([0, 1, 2], "train_x_00.npy.xz … of cifar10 is missing; put it there"),
    ],
)
def test_shards_that_are_missing_before_others_are_named(folder: Path, numbers: list[int], problem: str) -> None:
    base = shards(folder)
    for number in numbers:
        (base / f"train_x_{number:02}.npy.xz").unlink()
    with pytest.raises(UserError, match=problem):
        load("cifar10", folder)


def test_a_missing_last_shard_is_noticed_by_the_labels(folder: Path) -> None:
    (shards(folder) / "train_x_02.npy.xz").unlink()
    with pytest.raises(UserError) as caught:
        load("cifar10", folder)
    assert str(caught.value) == (
        f"{folder}/cifar10/train_x_02.npy.xz: is missing: train_labels.npz has 12 labels, but the shards before it have"
        " 8 images; put it there, or get a new copy of all shards"
    )


def test_too_few_labels_for_the_shards_are_an_error_of_the_labels(folder: Path) -> None:
    np.savez(shards(folder) / "train_labels.npz", y=labels(11))
    with pytest.raises(UserError, match=r"train_labels\.npz: has 11 labels for 12 samples"):
        load("cifar10", folder)


def test_labels_that_are_not_an_array_are_refused(folder: Path) -> None:
    with zipfile.ZipFile(shards(folder) / "test_labels.npz", "w") as file:
        file.writestr("y.npy", b"no array")
    with pytest.raises(UserError, match=r"test_labels\.npz: has no readable arrays y "):
        load("cifar10", folder)


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_truncated_shard_is_refused(folder: Path, cut: int) -> None:
    path = shards(folder) / "train_x_01.npy.xz"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(UserError, match=r"train_x_01\.npy\.xz: is not an array compressed by xz"):
        load("cifar10", folder)


def test_missing_labels_are_named(folder: Path) -> None:
    (shards(folder) / "test_labels.npz").unlink()
    with pytest.raises(UserError, match=r"test_labels\.npz of cifar10 is missing; put it there"):
        load("cifar10", folder)
