from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.common.files.compressed import UNJUDGED_BYTES, opened

CONTENT = b"some bytes, \x1f\x8b among them" * 100


def read(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


@pytest.mark.parametrize("name", ["plain", "called.gz"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_compressed_files_are_decompressed_whatever_their_name(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(pack(CONTENT))
    assert read(tmp_path / name) == CONTENT


@pytest.mark.parametrize("content", [b"", b"\x1f", b"x"])
def test_very_short_files_are_plain(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert read(tmp_path / "file") == content


def test_an_error_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(gzip.compress(CONTENT)[:-9])
    for name, problem in (("none", "no such file"), (".", "is a folder"), ("cut", "cannot be read")):
        with pytest.raises(UserError) as caught:
            read(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: {problem}")


def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(UNJUDGED_BYTES)) * 2)
    with pytest.raises(UserError, match=r"unpacks to more than 100 times its size.*gunzip"):
        read(path)


def test_a_large_file_that_packs_well_is_read(tmp_path: Path) -> None:
    """As a trace with many equal lines: 40 times its size."""
    content, path = bytes(range(256)) * 400_000, tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(content[: len(content) // 2]) + gzip.compress(random.Random(1).randbytes(1 << 20)))
    assert len(read(path)) == len(content) // 2 + (1 << 20)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a pipe"), ("zero", "a device")):
        with pytest.raises(UserError, match=f"is {kind}, and only regular files are read"):
            read(tmp_path / name)
