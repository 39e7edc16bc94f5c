"""A user's .npz: which arrays are read, and damaged and hostile files."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from testbed.common.errors import UserError
from testbed.learning.data.own_files import npz_file
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed
from tests.testbed.learning.data.files import RecordedProgress

X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = np.array([5, 0, 5, 7, 0, 7])


def written(folder: Path, **arrays: Any) -> Path:
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return path


def read(path: Path, most_mb: int = 10, **choice: Any) -> Parsed:
    chosen = npz_file.NpzChoice(**{"is_value": False} | choice)
    return npz_file.parse(path, chosen, SizeLimit(path=path, most_mb=most_mb), RecordedProgress())


def refusal(path: Path, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(path, **more)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text.removeprefix(str(path))


# ---- what is read


def test_x_and_y_are_samples_and_labels(tmp_path: Path) -> None:
    found = read(written(tmp_path, x=X, y=Y))
    assert found.classes == ("0", "5", "7")
    assert found.arrays["train_targets"].tolist() == [1, 0, 1, 2, 0, 2]
    assert np.array_equal(found.arrays["train_inputs"], X)
    assert found.arrays["train_inputs"].dtype == np.float32


@pytest.mark.parametrize(
    "names", [("x_train", "y_train", "x_test", "y_test"), ("X_train", "y_train", "X_test", "y_test")]
)
def test_test_samples_are_found_by_the_usual_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = read(written(tmp_path, **dict(zip(names, (X, Y, X[:2], Y[:2]), strict=True))))
    assert found.arrays["test_targets"].tolist() == [1, 0]
    assert found.arrays["test_inputs"].shape == (2, 2)


def test_arrays_may_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, signals=X, kinds=Y, people=np.array(["b", "a"] * 3))
    found = read(path, inputs="signals", label="kinds", owner="people")
    assert found.owners == ("a", "b")
    assert found.arrays["train_owners"].tolist() == [1, 0] * 3


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array(["run", "sit", "run", "run", "sit", "run"]), ("run", "sit")),
        (np.array([b"run", b"sit"] * 3), ("run", "sit")),
        (np.array([1.0, 0.0] * 3), ("0", "1")),
        (np.array([True, False] * 3), ("False", "True")),
        (np.array([[1], [10]] * 3), ("1", "10")),
        (np.array([-1, 1] * 3), ("-1", "1")),
    ],
)
def test_labels_may_be_texts_or_numbers(tmp_path: Path, labels: npt.NDArray[Any], classes: tuple[str, ...]) -> None:
    assert read(written(tmp_path, x=X, y=labels)).classes == classes


@pytest.mark.parametrize(
    ("shape", "channels", "expected"),
    [
        ((6, 8, 9), "auto", (6, 1, 8, 9)),
        ((6, 3, 8, 9), "auto", (6, 3, 8, 9)),
        ((6, 8, 9, 3), "auto", (6, 3, 8, 9)),
        ((6, 3, 8, 3), "auto", (6, 3, 8, 3)),
        ((6, 3, 8, 3), "last", (6, 3, 3, 8)),
        ((6, 8, 9, 3), "first", (6, 8, 9, 3)),
    ],
)
def test_images_get_their_channels_in_front(
    tmp_path: Path, shape: tuple[int, ...], channels: str, expected: tuple[int, ...]
) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    found = read(written(tmp_path, x=images, y=Y), channels=channels).arrays["train_inputs"]
    assert (found.shape, found.dtype) == (expected, np.uint8)


def test_values_to_predict_are_numbers(tmp_path: Path) -> None:
    found = read(written(tmp_path, x=X, y=Y / 2), is_value=True)
    assert (found.classes, found.arrays["train_targets"].tolist()) == ((), (Y / 2).tolist())


def test_an_array_in_the_order_of_fortran_and_a_compressed_file_are_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "own.npz", x=np.asfortranarray(X), y=Y)
    assert np.array_equal(read(tmp_path / "own.npz").arrays["train_inputs"], X)


# ---- bad input


def changed(position: int, value: float) -> npt.NDArray[np.float64]:
    array = X.copy()
    array[position, 1] = value
    return array


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no known names": (
        {"a": X, "b": Y},
        {},
        ": has no arrays x and y, nor x_train and y_train (it has a, b); name them",
    ),
    "unknown name": ({"x": X, "y": Y}, {"inputs": "xs"}, ": there is no array 'xs'; did you mean 'x'?"),
    "test without labels": (
        {"x": X, "y": Y, "x_test": X},
        {},
        ": has test samples in x_test only, without their labels or inputs; name task.test_label",
    ),
    "objects": (
        {"x": np.array([[1, "a"]] * 6, object), "y": Y},
        {},
        ", array 'x': contains Python objects, which are not",
    ),
    "objects as labels": ({"x": X, "y": np.array(["a"] * 6, object)}, {}, ", array 'y': contains Python objects"),
    "dates": ({"x": X.astype("datetime64[s]"), "y": Y}, {}, ", array 'x': is of type datetime64[s]; store numbers"),
    "complex": ({"x": X.astype(complex), "y": Y}, {}, ", array 'x': is of type complex128; store numbers"),
    "texts": ({"x": X.astype(str), "y": Y}, {}, ", array 'x': contains <U32; samples must be numbers"),
    "texts as values": (
        {"x": X, "y": Y.astype(str)},
        {"is_value": True},
        ", array 'y': contains <U21; values to predict",
    ),
    "one number": ({"x": np.array(3.0), "y": Y}, {}, ", array 'x': has the shape (); it must be samples × features"),
    "empty": ({"x": X[:0], "y": Y[:0]}, {}, ", array 'x': has the shape (0, 2), which has no samples"),
    "too few labels": ({"x": X, "y": Y[:5]}, {}, ", array 'y': has 5 entries for 6 samples in 'x'; each needs one"),
    "one-hot labels": (
        {"x": X, "y": np.eye(6)},
        {},
        ", array 'y': has the shape (6, 6); it must have one entry for each",
    ),
    "NaN": (
        {"x": changed(3, np.nan), "y": Y},
        {},
        ", array 'x': sample 3 is not finite (NaN, infinite, or above 3e38)",
    ),
    "too large": ({"x": changed(4, 1e39), "y": Y}, {}, ", array 'x': sample 4 is not finite"),
    "NaN as value": ({"x": X, "y": X[:, 0] * np.nan}, {"is_value": True}, ", array 'y': sample 0 is not finite"),
    "one class": ({"x": X, "y": np.zeros(6, int)}, {}, ", array 'y': all labels are '0'; a classification needs two"),
    "halves as labels": (
        {"x": X, "y": Y / 2},
        {},
        ", array 'y': the label of sample 0 is 2.5, which is no whole number",
    ),
    "unknown test label": (
        {"x": X, "y": Y, "x_test": X, "y_test": Y + 1},
        {},
        ", array 'y': the test part has the label '1', of which there is no training sample",
    ),
    "other test shape": (
        {"x": X, "y": Y, "x_test": X[:, :1], "y_test": Y},
        {},
        ", array 'x_test': its samples have the shape (1,), and those for training (2,); they must be equal",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_array_is_refused_in_one_line_with_its_name(tmp_path: Path, name: str) -> None:
    arrays, choice, problem = BAD[name]
    assert refusal(written(tmp_path, **arrays), **choice).startswith(problem)


class Evil:
    """Unpickling it would leave a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.trace,))


def member(header: dict[str, Any] | str, content: bytes) -> bytes:
    """Return a .npy file with any header."""
    text = (repr(header) if isinstance(header, dict) else header).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def zipped(folder: Path, method: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(folder / "own.npz", "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return folder / "own.npz"


def npy(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_a_pickle_is_refused_and_not_executed(tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    content = pickle.dumps(np.array([Evil(trace)], object))
    hostile = member({"descr": "|O", "fortran_order": False, "shape": (6, 2)}, content)
    assert "contains Python objects" in refusal(zipped(tmp_path, x=hostile, y=npy(Y)))
    (tmp_path / "own.npz").write_bytes(pickle.dumps(Evil(trace)))
    assert refusal(tmp_path / "own.npz").startswith(": is not a readable .npz file (File is not a zip file)")
    assert not trace.exists()


@pytest.mark.parametrize("shape", [(6, 3), (10**9, 10**9), (6, -2), (5, 2)])
def test_a_header_that_lies_about_the_size_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    lying = member({"descr": "<f8", "fortran_order": False, "shape": shape}, X.tobytes())
    found = refusal(zipped(tmp_path, x=lying, y=npy(Y)))
    assert "bytes, and it has 96" in found or "has the shape (6, -2)" in found


@pytest.mark.parametrize("header", ["{}", "__import__('os')", "{'descr': '<f8'}", "(" * 5000, "\x00"])
def test_a_damaged_header_is_refused(tmp_path: Path, header: str) -> None:
    damaged = member(header, X.tobytes())
    assert refusal(zipped(tmp_path, x=damaged, y=npy(Y))).startswith(": is not a readable .npz file (")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    size = 50_000_000
    bomb = member({"descr": "|u1", "fortran_order": False, "shape": (size, 1)}, bytes(size))
    path = zipped(tmp_path, zipfile.ZIP_DEFLATED, x=bomb, y=npy(Y))
    assert path.stat().st_size < 100_000
    found = refusal(path)
    assert found.startswith(": its samples need 51 MB as arrays, and task.most_mb is 10: raise it, or store fewer")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("hostile", ["x", "y"])
def test_a_member_that_is_not_deflated_is_refused_before_it_is_unpacked(
    tmp_path: Path, method: int, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    unpacked = zipfile.ZipFile.open

    def noted(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *more: Any, **options: Any) -> Any:
        opened.append(info.filename)
        return unpacked(archive, info, *more, **options)

    with zipfile.ZipFile(tmp_path / "own.npz", "w") as archive:
        for each, array in (("x", X), ("y", Y)):
            archive.writestr(f"{each}.npy", npy(array), method if each == hostile else zipfile.ZIP_DEFLATED)
    monkeypatch.setattr(zipfile.ZipFile, "open", noted)
    found = refusal(tmp_path / "own.npz")
    assert found.startswith(f", array {hostile!r}: is compressed by method {method} of zip files, and only 8 (deflate)")
    assert found.endswith("write the file by numpy.savez or numpy.savez_compressed")
    assert f"{hostile}.npy" not in opened


@pytest.mark.parametrize("harm", ["cut", "flip", "empty"])
def test_a_damaged_file_is_refused(tmp_path: Path, harm: str) -> None:
    path = written(tmp_path, x=X, y=Y)
    content = path.read_bytes()
    place = content.index(X.tobytes()) + 8
    flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    path.write_bytes({"cut": content[: len(content) // 2], "flip": flipped, "empty": b""}[harm])
    assert refusal(path).startswith(": is not a readable .npz file (")


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as archive:
        for _ in range(2):
            with pytest.warns(UserWarning, match="Duplicate") if archive.namelist() else _nothing():
                archive.writestr("x.npy", npy(X))
    assert refusal(tmp_path / "own.npz").startswith(": has two arrays of one name")


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_names_that_lead_out_of_the_file_are_only_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as archive:
        archive.writestr("../../x.npy", npy(X))
        archive.writestr("y.npy", npy(Y))
    assert "has no arrays x and y" in refusal(tmp_path / "own.npz")
