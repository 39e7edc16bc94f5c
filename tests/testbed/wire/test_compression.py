"""Compression: the bytes of each method worked out by hand, bounds of its error, and payloads that are refused."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.wire.compression import BadPayload, compress, decompress
from testbed.wire.compression_method import BLOCK, method_of
from testbed.wire.messages import Vector
from tests.properties import examples
from tests.testbed.examples import vector

METHODS = ("float16", "int8", "topk:0.3", "topk:1")
finite = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=40)
any_number = st.lists(st.floats(width=32), max_size=40)


def there_and_back(method: str, numbers: Vector) -> Vector:
    payload = compress(method, numbers)
    assert payload.nbytes == method_of(method).nbytes(numbers.size)
    return decompress(method, payload.data, numbers.size)


# ---- worked out by hand


def test_float16_by_hand() -> None:
    # float16 has 10 fraction bits: 1 = 3c00, −2 = c000. 1 + 3/2048 lies exactly in the middle between 1 + 1/1024 (3c01)
    # and 1 + 2/1024 (3c02): the even one is taken. 1e6 is above the largest number, 65504 = 7bff.
    numbers = vector(1.0, -2.0, 1 + 3 / 2048, 1e6, -1e6)
    assert compress("float16", numbers).data == bytes.fromhex("003c 00c0 023c ff7b fffb")
    assert there_and_back("float16", numbers).tolist() == [1.0, -2.0, 1 + 2 / 1024, 65504.0, -65504.0]


def test_int8_by_hand() -> None:
    # M = 254, s = 254/127 = 2 = 40000000. 254/2 = 127 = 7f, −3/2 = −1.5 → −2 = fe, 1/2 → 0 (even), 5/2 = 2.5 → 2 (even)
    numbers = vector(254.0, -3.0, 1.0, 5.0)
    assert compress("int8", numbers).data == bytes.fromhex("00000040 7ffe0002")
    assert there_and_back("int8", numbers).tolist() == [254.0, -4.0, 0.0, 4.0]


def test_int8_has_a_scale_for_each_block_of_1024_numbers() -> None:
    # first block: 1024 numbers, M = 127, s = 1; second block: one number, M = 0.5, s = 0.5/127
    numbers = np.full(BLOCK + 1, 127.0, np.float32)
    numbers[BLOCK] = 0.5
    payload = compress("int8", numbers)
    assert payload.nbytes == 1025 + 2 * 4
    assert struct.unpack("<2f", payload.data[:8]) == (1.0, np.float32(0.5) / np.float32(127))
    assert payload.data[8:] == bytes([127]) * 1025
    np.testing.assert_array_equal(there_and_back("int8", numbers), numbers)


def test_topk_by_hand() -> None:
    # k = ⌈0.3 · 6⌉ = 2: −4 at index 3 and 3 at index 1, in the order of their indices; 3 = 40400000, −4 = c0800000
    numbers = vector(0.5, 3.0, -1.0, -4.0, 2.0, 0.0)
    assert compress("topk:0.3", numbers).data == bytes.fromhex("01000000 03000000 00004040 000080c0")
    assert there_and_back("topk:0.3", numbers).tolist() == [0.0, 3.0, 0.0, -4.0, 0.0, 0.0]


def test_topk_takes_the_lowest_index_of_equal_magnitudes() -> None:
    assert there_and_back("topk:0.4", vector(1.0, -2.0, 2.0, -2.0, 5.0)).tolist() == [0.0, -2.0, 0.0, 0.0, 5.0]
    assert there_and_back("topk:0.5", vector(0.0, 0.0, 0.0, 1.0)).tolist() == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("method", "size", "nbytes"),
    [
        ("none", 21_840, 87_360),
        ("float16", 21_840, 43_680),
        ("int8", 21_840, 21_840 + 4 * 22),  # 21,840 numbers are 21.3 blocks
        ("int8", 1024, 1024 + 4),
        ("topk:0.01", 21_840, 8 * 219),  # 218.4 numbers
        ("topk:0.07", 100, 8 * 7),  # in binary arithmetic, 0.07 · 100 is above 7
        ("topk:1e-9", 10, 8),
        ("topk:1", 3, 24),
        *((method, 0, 0) for method in METHODS),
    ],
)
def test_the_bytes_follow_from_the_method_and_the_size(method: str, size: int, nbytes: int) -> None:
    assert method_of(method).nbytes(size) == nbytes
    if method != "none":
        assert compress(method, np.zeros(size, np.float32)).nbytes == nbytes


# ---- names


@pytest.mark.parametrize("text", ["topk:0.01", "topk:1", "topk:1.0", "topk:5e-3", "topk:1.25e-4", "topk:0.5"])
def test_a_share_is_read_exactly(text: str) -> None:
    assert float(method_of(text).share) == float(text.removeprefix("topk:"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "None", "int7", "float32", "gzip", "topk", "topk:", "topk:0", "topk:0.0", "topk:1.5", "topk:-0.1"),
        *("topk:nan", "topk:inf", "topk: 0.1", "topk:0.1 ", "topk:0.1\n", "topk:1e9", "topk:1e-999999999", "topk:1/2"),
        *("topk:0_1", "topk:0." + "1" * 500, "topk:٠.١", "INT8"),
    ],
)
def test_another_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it must be none, float16, int8, or topk:F"):
        method_of(text)
    with pytest.raises(BadPayload):
        decompress(text, bytes(8), 2)


def test_none_compresses_nothing() -> None:
    with pytest.raises(ValueError, match="does not compress"):
        compress("none", vector(1.0))
    with pytest.raises(BadPayload):
        decompress("none", bytes(4), 1)


# ---- properties


@examples(400)
@given(finite)
def test_float16_is_off_by_at_most_half_a_unit_of_its_last_place(numbers: list[float]) -> None:
    given_, back = vector(*numbers), there_and_back("float16", vector(*numbers))
    bound = np.maximum(np.abs(given_) * 2.0**-11, 2.0**-25)  # relative, or of a number below the smallest normal one
    fits = np.abs(given_) <= 65504
    assert (np.abs(back.astype(np.float64) - given_)[fits] <= bound[fits]).all()
    np.testing.assert_array_equal(back[~fits], np.copysign(np.float32(65504), given_[~fits]))


@examples(400)
@given(finite)
def test_int8_is_off_by_at_most_half_a_scale(numbers: list[float]) -> None:
    given_, back = vector(*numbers), there_and_back("int8", vector(*numbers))
    scale = max(np.abs(given_).max(initial=0.0) / 127, np.finfo(np.float32).tiny)
    assert np.isfinite(back).all()
    assert (np.abs(back.astype(np.float64) - given_) <= 0.5001 * scale).all()


@examples(400)
@given(finite, st.sampled_from(["topk:0.1", "topk:0.34", "topk:1"]))
def test_topk_sends_its_numbers_exactly_and_none_is_larger_than_those(numbers: list[float], method: str) -> None:
    given_ = vector(*numbers)
    data = compress(method, given_).data
    count = method_of(method).kept(len(numbers))
    indices = np.frombuffer(data, "<u4", count)
    np.testing.assert_array_equal(np.frombuffer(data, "<f4", count, offset=4 * count), given_[indices])
    others = np.delete(np.abs(given_), indices)
    if count and others.size:
        assert others.max() <= np.abs(given_[indices]).min()
    # a sort that keeps the order of equal magnitudes chooses the same
    assert indices.tolist() == sorted(np.argsort(-np.abs(given_), kind="stable")[:count].tolist())


@examples(300)
@given(any_number, st.sampled_from(METHODS))
def test_numbers_that_are_not_finite_stay_so(numbers: list[float], method: str) -> None:
    given_ = vector(*numbers)
    back = there_and_back(method, given_)
    assert np.isfinite(back).all() == np.isfinite(given_).all()
    assert not back.flags.writeable
    assert (back.dtype, back.size) == (np.float32, given_.size)


# ---- payloads that no device makes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("more", [-8, -1, 1, 8, 1 << 16])
def test_a_payload_of_another_length_is_refused(method: str, more: int) -> None:
    data = compress(method, np.ones(10, np.float32)).data
    with pytest.raises(BadPayload, match=f"{method}: {len(data) + more} bytes, but 10 numbers have {len(data)}"):
        decompress(method, bytes(len(data) + more), 10)


@pytest.mark.parametrize("indices", [(1, 1), (2, 1), (0, 3), (3, 4), (0, 2**32 - 1), (2**32 - 1, 0)])
def test_indices_out_of_range_or_not_increasing_are_refused(indices: tuple[int, int]) -> None:
    with pytest.raises(BadPayload, match="the indices do not increase, or one is not below 3"):
        decompress("topk:0.5", struct.pack("<2I2f", *indices, 1.0, 2.0), 3)


@pytest.mark.parametrize("scale", [-1.0, -math.inf, -1e-40])
def test_a_scale_below_0_is_refused(scale: float) -> None:
    with pytest.raises(BadPayload, match="a scale is below 0"):
        decompress("int8", struct.pack("<f3b", scale, 1, 2, 3), 3)


@pytest.mark.parametrize("scale", [math.nan, math.inf])
def test_a_scale_that_is_not_finite_makes_a_delta_that_the_engine_rejects(scale: float) -> None:
    assert not np.isfinite(decompress("int8", struct.pack("<f3b", scale, 0, 0, 0), 3)).any()


def test_a_level_that_is_never_sent_is_refused() -> None:
    with pytest.raises(BadPayload, match="a number is below -127"):
        decompress("int8", struct.pack("<f3b", 1.0, 0, -128, 0), 3)


@examples(600)
@given(st.sampled_from(METHODS), st.integers(0, 20), st.data())
def test_any_bytes_are_a_vector_or_refused(method: str, size: int, data: st.DataObject) -> None:
    length = method_of(method).nbytes(size)
    try:
        found = decompress(method, data.draw(st.binary(min_size=length, max_size=length)), size)
    except BadPayload:
        return
    assert (found.dtype, found.size) == (np.float32, size)
