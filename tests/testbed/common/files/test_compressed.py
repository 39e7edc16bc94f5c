from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.common.files.compressed import opened

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
