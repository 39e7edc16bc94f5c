"""A user's folder of images: classes by subfolder, and what is refused with the name of the file."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from testbed.common.errors import UserError
from testbed.learning.data.own_files import image_folder
from testbed.learning.data.own_files.image_decoding import ImageShape
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed
from tests.testbed.learning.data.files import RecordedProgress


def image(path: Path, colour: Any = (200, 100, 0), size: tuple[int, int] = (6, 5), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, (name, colour) in enumerate({"sit": (255, 0, 0), "run": (0, 0, 255)}.items()):
        for count in range(2):
            image(tmp_path / "own" / name / f"{number}{count}.png", colour)
    return tmp_path / "own"


def read(folder: Path, size: int | None = None, grey: bool = False, most_mb: int = 10) -> Parsed:
    limit = SizeLimit(path=folder, most_mb=most_mb)
    return image_folder.parse(image_folder.find(folder), ImageShape(size=size, grey=grey), limit, RecordedProgress())


def refusal(folder: Path, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, **more)
    text = str(caught.value)
    assert "\n" not in text
    assert text.isprintable()
    assert text.startswith(str(folder))
    return text.removeprefix(str(folder))


# ---- what is read


def test_subfolders_are_classes_in_the_order_of_their_names(folder: Path) -> None:
    found = read(folder)
    assert found.classes == ("run", "sit")
    assert found.arrays["train_targets"].tolist() == [0, 0, 1, 1]
    assert found.arrays["train_inputs"].shape == (4, 3, 5, 6)
    assert found.arrays["train_inputs"][:, :, 0, 0].tolist() == [[0, 0, 255]] * 2 + [[255, 0, 0]] * 2


def test_images_may_be_scaled_and_grey(folder: Path) -> None:
    found = read(folder, size=4, grey=True).arrays["train_inputs"]
    assert found.shape == (4, 1, 4, 4)
    assert found[:, 0, 0, 0].tolist() == [29, 29, 76, 76]  # ITU-R 601-2 luma


def test_train_and_test_are_parts(folder: Path) -> None:
    folder.rename(folder.parent / "train")
    (folder.parent / "test").mkdir()
    image(folder.parent / "test" / "sit" / "1.png")
    found = read(folder.parent)
    assert found.arrays["test_targets"].tolist() == [1]
    assert len(found.arrays["train_targets"]) == 4


def test_classes_that_are_numbers_are_in_the_order_of_the_numbers(tmp_path: Path) -> None:
    for name in ("10", "9"):
        image(tmp_path / "own" / name / "1.png")
    assert read(tmp_path / "own").classes == ("9", "10")


@pytest.mark.parametrize(
    ("name", "mode", "colour", "expected"),
    [
        ("a.png", "L", 77, [77] * 3),
        ("a.png", "1", 1, [255] * 3),
        ("a.png", "RGBA", (9, 8, 7, 0), [9, 8, 7]),
        ("a.png", "LA", (9, 0), [9] * 3),
        ("a.png", "I;16", 513, [2] * 3),
        ("a.gif", "P", 0, [0] * 3),
        ("a.bmp", "RGB", (1, 2, 3), [1, 2, 3]),
        ("a.tif", "RGB", (1, 2, 3), [1, 2, 3]),
        ("a.webp", "RGB", (0, 0, 0), [0, 0, 0]),
        ("a.PPM", "RGB", (1, 2, 3), [1, 2, 3]),
        ("a.jpeg", "L", 50, [50] * 3),
        ("a.jpg", "CMYK", (0, 0, 0, 255), [0, 0, 0]),
    ],
)
def test_other_formats_and_modes_are_converted(
    folder: Path, name: str, mode: str, colour: Any, expected: list[int]
) -> None:
    image(folder / "a" / name, colour, mode=mode)
    assert read(folder).arrays["train_inputs"][0, :, 2, 2].tolist() == pytest.approx(expected, abs=1)


def test_hidden_files_and_those_of_file_managers_are_ignored(folder: Path) -> None:
    for name in (".DS_Store", "sit/Thumbs.db", "sit/.hidden.png", "sit/desktop.ini"):
        (folder / name).write_bytes(b"?")
    assert len(read(folder).arrays["train_targets"]) == 4


# ---- bad input


def test_a_missing_folder_and_a_file_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "own") == ": there is no such folder; task.folder is relative to the profile"
    (tmp_path / "own").touch()
    assert refusal(tmp_path / "own").startswith(": is no folder;")


def test_an_empty_folder_and_an_empty_class_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    assert refusal(tmp_path / "none").startswith(": is empty; it needs a subfolder for each class")
    (folder / "walk").mkdir()
    assert refusal(folder) == "/walk: has no images; add some, or remove the folder"


def test_one_class_is_refused(tmp_path: Path) -> None:
    image(tmp_path / "own" / "sit" / "1.png")
    assert refusal(tmp_path / "own").startswith(": all labels are 'sit'; a classification needs two classes")


def test_images_outside_of_a_class_and_folders_within_one_are_refused(folder: Path) -> None:
    image(folder / "sit" / "more" / "1.png")
    assert refusal(folder).startswith("/sit/more: is a folder in that of a class")
    image(folder / "a.png")
    assert refusal(folder).startswith("/a.png: is a file; a folder of images has a subfolder for each class")


def test_a_class_of_the_test_part_without_training_images_is_refused(folder: Path) -> None:
    folder.rename(folder.parent / "train")
    image(folder.parent / "test" / "walk" / "1.png")
    assert refusal(folder.parent).startswith("/test/walk: there is no training folder of this class")


@pytest.mark.parametrize("place", ["sit/link.png", "walk"])
def test_links_are_not_followed(folder: Path, tmp_path: Path, place: str) -> None:
    target = image(tmp_path / "elsewhere" / "1.png")
    (folder / place).symlink_to(target if place.endswith(".png") else target.parent)
    assert refusal(folder) == f"/{place}: is a link, which is not followed; replace it by what it leads to"


def test_a_name_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9")).mkdir()
    assert refusal(folder) == ": the name of b'caf\\xe9' is not UTF-8; rename it"


def test_a_name_with_control_characters_is_not_a_class_name_on_the_terminal(folder: Path) -> None:
    (folder / "sit" / "a.txt").touch()
    assert refusal(folder).startswith("/sit/a.txt: is no image by its name (.bmp, .gif")


def test_images_of_different_sizes_need_a_size(folder: Path) -> None:
    image(folder / "sit" / "z.png", size=(7, 5))
    problem = "/sit/z.png: has 7 × 5 pixels, and 10.png has 6 × 5; give the side of all by task.size"
    assert refusal(folder) == problem
    assert read(folder, size=5).arrays["train_inputs"].shape == (5, 3, 5, 5)


@pytest.mark.parametrize(
    "content", [b"", b"GIF89a", b"%!PS-Adobe\n", b"\x89PNG\r\n\x1a\n" + bytes(40), bytes(range(99))]
)
def test_a_file_that_is_no_image_is_refused(folder: Path, content: bytes) -> None:
    (folder / "sit" / "z.png").write_bytes(content)
    assert refusal(folder).startswith(("/sit/z.png: is no image of a known format", "/sit/z.png: cannot be decoded"))


@pytest.mark.parametrize("name", ["z.png", "z.jpg", "z.gif", "z.webp", "z.tif"])
def test_a_truncated_image_is_refused(folder: Path, name: str) -> None:
    path = folder / "sit" / name
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:700])
    assert refusal(folder, size=6).startswith(f"/sit/{name}: ")


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(folder: Path) -> None:
    chunk = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    header = struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (folder / "sit" / "z.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + b"\x00\x00\x00\x00IDAT\x00\x00\x00\x00")
    assert "/sit/z.png: has more than 67,108,864 pixels: make it smaller" in refusal(folder)
    small = chunk[:4] + struct.pack(">IIBBBBB", 9_000, 9_000, 8, 2, 0, 0, 0)
    header = struct.pack(">I", 13) + small + struct.pack(">I", zlib.crc32(small))
    (folder / "sit" / "z.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + b"\x00\x00\x00\x00IDAT\x00\x00\x00\x00")
    assert "/sit/z.png: has 9,000 × 9,000 pixels; at most 67,108,864 are read" in refusal(folder)


def test_a_pipe_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "sit" / "z.png")
    assert refusal(folder).startswith("/sit/z.png: is a pipe, and only regular files are read")


def test_images_that_need_too_much_memory_are_refused_before_they_are_decoded(folder: Path) -> None:
    found = refusal(folder, size=1000)
    assert found.startswith(": its samples need 12 MB as arrays, and task.most_mb is 10: raise it, or set a smaller")
