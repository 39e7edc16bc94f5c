"""Pickles of plain data are read; a pickle that calls anything is refused before it can."""

from __future__ import annotations

import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.common.files import unpickle
from tests.testbed.traces.files import write

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
DATA = {1: {"a": 1.5, "b": [1, -2, 2**70], "c": "ä", "d": (True, None)}, 2: {"a": 0.25}}


class Hostile:
    """Creates a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_containers_numbers_and_strings_are_read(tmp_path: Path, protocol: int) -> None:
    assert unpickle.load(write(tmp_path / "x", pickle.dumps(DATA, protocol))) == DATA


def test_a_compressed_pickle_is_read(tmp_path: Path) -> None:
    assert unpickle.load(write(tmp_path / "x.gz", pickle.dumps(DATA))) == DATA


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.uint8, np.dtype(">f8").type])
def test_numpy_scalars_become_plain_numbers(tmp_path: Path, protocol: int, kind: Any) -> None:
    value = unpickle.load(write(tmp_path / "x", pickle.dumps({"a": kind(5.0)}, protocol)))["a"]
    assert value == 5
    assert type(value) in (int, float)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("buried", [False, True])
def test_a_hostile_pickle_is_refused_and_does_nothing(tmp_path: Path, protocol: int, buried: bool) -> None:
    mark = tmp_path / "it-ran"
    bomb: Any = {1: {"computation": [Hostile(mark)]}} if buried else Hostile(mark)
    path = write(tmp_path / "x", pickle.dumps(bomb, protocol))
    with pytest.raises(UserError) as caught:
        unpickle.load(path)
    assert str(caught.value).startswith(f"{path}: this pickle names ")
    assert ".mkdir" in str(caught.value)
    assert not mark.exists()
    pickle.loads(path.read_bytes())  # without the restriction, it does harm
    assert mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"(S'ls'\nios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
        b"\x80\x02cbuiltins\nobject\n)\x81.",
        b"\x80\x02cnumpy\nndarray\n.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n.",
        b"Pname\n.",
        b"\x80\x02K\x01Q.",
    ],
)
def test_a_pickle_that_names_anything_else_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(UserError, match=r"this pickle (names|refers to)"):
        unpickle.load(write(tmp_path / "x", data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04",
        b"no pickle",
        pickle.dumps(DATA)[:-5],
        b"\x80\x02cnumpy.core.multiarray\nscalar\n(K\x01K\x02tR.",  # a scalar without a dtype
        b"\x80\x02cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R.",  # a dtype of objects
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x04\x00\x00\x00zlib\x86R.",  # another codec
        b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.",  # changes a stand-in
        b"\x80\x02c_codecs\nencode\n)\x81.",  # creates a stand-in
        b"\x82\x01.",  # an extension of copyreg
    ],
)
def test_a_broken_pickle_is_refused_with_its_path(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "x", data)
    with pytest.raises(UserError) as caught:
        unpickle.load(path)
    assert str(caught.value).startswith(f"{path}: is not a pickle of numbers and strings")


def test_a_pickle_that_asks_for_all_memory_is_refused(tmp_path: Path) -> None:
    """Nine bytes: an entry at index 0x0fffffff of the memo, for which the unpickler allocates memory first."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(UserError, match="is not a pickle of numbers and strings: MemoryError"):
        unpickle.load(write(tmp_path / "x", b"\x80\x04Nr\xff\xff\xff\x0f."))
    assert resource.getrlimit(resource.RLIMIT_AS) == before
