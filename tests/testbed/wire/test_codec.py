"""The codec: every message survives encoding and decoding, and everything else is refused.

The headers are packed and unpacked by the msgpack package: the format is plain msgpack, which any language can read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.history import trace
from testbed.wire import codec
from testbed.wire.codec import SCHEMA, BadMessage, Buffer, decode, encode
from testbed.wire.compression import compress, decompress
from testbed.wire.messages import Grant, Message, PayloadShape, Stop, Train, Update
from testbed.wire.training_job import Job
from tests.properties import examples
from tests.testbed.examples import MESSAGES, SIZE, vector

BY_KIND = {type(message).__name__: message for message in MESSAGES}
UPDATE = next(message for message in MESSAGES if isinstance(message, Update))
METHODS = ("float16", "int8", "topk:0.5")
fuzzed = examples(1500)


def frames_of(kind: str) -> list[bytes]:
    return [bytes(frame) for frame in encode(BY_KIND[kind])]


def header_of(kind: str) -> dict[str, Any]:
    schema, header = unpacked(frames_of(kind)[0])
    assert schema == SCHEMA
    return header


def unpacked(header: bytes) -> tuple[int, dict[str, Any]]:
    """The two msgpack objects of a header: the schema number, and the message as a map."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(header)
    schema, message = unpacker
    return schema, message


def packed(header: Any) -> bytes:
    return bytes([SCHEMA]) + msgpack.packb(header)


def with_header(kind: str, header: Any) -> list[bytes]:
    return [packed(header), *frames_of(kind)[1:]]


def assert_same(one: Message, other: Message) -> None:
    assert type(one) is type(other)
    for name in one.__struct_fields__:
        np.testing.assert_equal(getattr(one, name), getattr(other, name))


def refusal(frames: Sequence[Buffer], size: int = SIZE) -> str:
    with pytest.raises(BadMessage) as caught:
        decode(frames, size)
    return str(caught.value)


def test_there_is_an_example_of_every_message() -> None:
    assert {type(message) for message in MESSAGES} == set(Message.__subclasses__())


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_message_survives_encoding_and_decoding(kind: str) -> None:
    assert_same(decode(frames_of(kind), SIZE), BY_KIND[kind])


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_message_is_decoded_from_read_only_buffers(kind: str) -> None:
    assert_same(decode([memoryview(frame) for frame in frames_of(kind)], SIZE), BY_KIND[kind])


def test_a_message_with_an_empty_vector_survives_encoding_and_decoding() -> None:
    message = Train(ticket=1, version=0, sent=0.0, job=Job(), model=vector())
    assert_same(decode(encode(message), 0), message)


def test_a_final_model_without_a_job_survives_encoding_and_decoding() -> None:
    message = Train(ticket=1, version=0, sent=0.0, job=None, model=vector(1.0, 2.0, 3.0))
    assert_same(decode(encode(message), SIZE), message)


def test_a_vector_travels_as_raw_little_endian_float32_in_a_frame_of_its_own() -> None:
    _, frame = encode(Train(ticket=1, version=0, sent=0.0, job=Job(), model=vector(1.0, -2.0)))
    assert bytes(frame) == bytes.fromhex("0000803f 000000c0")


def test_a_vector_is_not_copied() -> None:
    model = vector(1.0, 2.0, 3.0)
    sent = encode(Train(ticket=1, version=0, sent=0.0, job=Job(), model=model))
    model[0] = 9.0
    received = decode(sent, SIZE)
    assert isinstance(received, Train)
    assert received.model[0] == 9.0


def test_a_decoded_vector_is_read_only() -> None:
    received = decode([memoryview(bytearray(frame)) for frame in frames_of("Update")], SIZE)
    assert isinstance(received, Update)
    assert not received.delta.flags.writeable


def test_a_vector_that_is_not_contiguous_cannot_be_sent() -> None:
    with pytest.raises(TypeError, match="contiguous"):
        encode(msgspec.structs.replace(UPDATE, delta=vector(1.0, 2.0, 3.0, 4.0)[::2]))


def test_a_vector_of_another_type_is_refused_by_the_receiver() -> None:
    update = msgspec.structs.replace(UPDATE, delta=np.zeros(SIZE))  # float64
    assert "vector frame of 24 bytes" in refusal(encode(update))


def test_numbers_of_a_vector_need_not_be_finite_to_be_decoded() -> None:
    # the engine judges a delta, since it must settle the ticket
    update = msgspec.structs.replace(UPDATE, delta=vector(math.nan, math.inf, 0.0))
    assert_same(decode(encode(update), SIZE), update)


def test_a_missing_loss_survives_encoding_and_decoding() -> None:
    update = msgspec.structs.replace(UPDATE, loss=None)
    assert_same(decode(encode(update), SIZE), update)


def test_a_number_of_numpy_is_sent_as_a_plain_one() -> None:
    assert_same(decode(encode(Grant(ticket=1, rate=np.float64(1.5), sent=0.0)), 0), Grant(ticket=1, rate=1.5, sent=0.0))


@pytest.mark.parametrize("value", [np.int64(1), object(), {1, 2}.__iter__()], ids=lambda value: type(value).__name__)
def test_a_value_that_no_message_may_contain_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        encode(Stop(reason=value))


# ---- compressed updates


def compressed(method: str, *numbers: float) -> Update:
    payload = compress(method, vector(*numbers))
    return msgspec.structs.replace(
        UPDATE, delta=decompress(method, payload.data, len(numbers)), payload=payload, events=()
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_compressed_update_is_decoded_as_the_delta_that_its_device_computed(method: str) -> None:
    update = compressed(method, 0.1, -5.0, 3.0)
    header, frame = encode(update)
    assert update.payload is not None
    assert len(frame) == update.nbytes == update.payload.nbytes
    assert unpacked(bytes(header))[1]["payload"] == [method, len(frame)]
    received = decode([header, frame], SIZE)
    assert isinstance(received, Update)
    np.testing.assert_array_equal(received.delta, update.delta)
    assert not received.delta.flags.writeable
    assert received.payload == PayloadShape(method, len(frame))
    assert received.nbytes == update.nbytes


def test_the_bytes_of_an_update_without_compression_are_those_of_its_delta() -> None:
    assert UPDATE.nbytes == 4 * SIZE


def test_an_update_that_was_received_compressed_cannot_be_sent_again() -> None:
    received = decode(encode(compressed("int8", 1.0, 2.0, 3.0)), SIZE)
    with pytest.raises(TypeError, match="cannot be sent again"):
        encode(received)


def test_a_compressed_delta_that_is_not_finite_is_decoded() -> None:
    received = decode(encode(compressed("int8", math.nan, 1.0, 2.0)), SIZE)
    assert isinstance(received, Update)
    assert np.isnan(received.delta).all()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (["topk:0.5", 15], "vector frame of 16 bytes; the header announces 15"),
        (["topk:0.5", 2**53], f"vector frame of 16 bytes; the header announces {2**53}"),
        (["topk:1", 16], "topk:1: 16 bytes, but 3 numbers have 24"),
        (["float16", 16], "float16: 16 bytes, but 3 numbers have 6"),
        (["none", 16], "none is no method of compression"),
        (["gzip", 16], "unknown method of compression"),
        (["topk:1e-999999999", 16], "unknown method of compression"),
        (None, "vector frame of 16 bytes; the header announces 12"),
        (["topk:0.5", -1], "$.payload[1]"),
        (["topk:0.5"], "$.payload"),
        (["topk:0.5", 16, b""], "$.payload"),
        (["x" * 1001, 16], "$.payload[0]"),
        (b"\0" * 16, "$.payload"),
    ],
)
def test_a_header_that_lies_about_its_payload_is_refused(payload: object, reason: str) -> None:
    header, frame = encode(compressed("topk:0.5", 1.0, 2.0, 3.0))
    assert reason in refusal([packed(unpacked(bytes(header))[1] | {"payload": payload}), frame])


def test_a_damaged_payload_is_refused_with_its_reason() -> None:
    header, frame = encode(compressed("topk:0.5", 1.0, 2.0, 3.0))
    assert "the indices do not increase" in refusal([header, bytes(frame)[::-1]])


@fuzzed
@given(st.sampled_from(METHODS), st.data())
def test_damaged_payloads_are_decoded_or_refused(method: str, data: st.DataObject) -> None:
    header, frame = encode(compressed(method, 1.0, -2.0, 3.0))
    survive([bytes(header), data.draw(st.binary(min_size=len(frame), max_size=len(frame)))])


# ---- plain msgpack


def test_any_reader_of_msgpack_reads_an_update() -> None:
    schema, header = unpacked(frames_of("Update")[0])
    assert schema == 2
    assert header == {
        "kind": "Update",
        "device": "rpi4-1",
        "ticket": 7,
        "version": 3,
        "delta": ["<f4", 3],
        "samples": 120,
        "steps": 4,
        "started": 1.5,
        "finished": 2.75,
        "due": 3.5,
        "loss": 0.125,
        "since": 0,
        "payload": None,
        "trains": 0,
        "merged": [[6, 0.5, 1]],
        "events": [json.loads(msgspec.json.encode(event)) for event in UPDATE.events],
    }


def test_any_writer_of_msgpack_can_write_an_update() -> None:
    header = {
        "ticket": 7,
        "events": [
            {"kind": "suspended", "t": 2, "device": "a", "ticket": 7, "asked": 0.5, "obtained": 0.75},
            {"obtained": 1.5, "asked": 1.0, "ticket": 7, "device": "a", "t": 4.0, "away": True, "kind": "suspended"},
        ],
        "delta": ["<f4", 2],
        "device": "a",
        "version": 3,
        "samples": 5,
        "steps": 4,
        "started": 1,
        "finished": 2.5,
        "due": 3.5,
        "loss": None,
        "kind": "Update",
    }
    frames = [msgpack.packb(2) + msgpack.packb(header), np.array([1.5, -2.0], dtype="<f4").tobytes()]
    update = Update(
        device="a",
        version=3,
        samples=5,
        steps=4,
        started=1.0,
        finished=2.5,
        due=3.5,
        ticket=7,
        delta=vector(1.5, -2.0),
        loss=None,
        events=(
            trace.Suspended(t=2.0, device="a", ticket=7, asked=0.5, obtained=0.75),
            trace.Suspended(t=4.0, device="a", ticket=7, asked=1.0, obtained=1.5, away=True),
        ),
    )
    assert_same(decode(frames, 2), update)


def test_of_a_field_that_is_there_twice_the_last_one_counts() -> None:
    pairs = [("kind", "Stop"), ("reason", "one"), ("reason", "two")]
    header = bytes([SCHEMA, 0x80 + len(pairs)]) + b"".join(msgpack.packb(text) for pair in pairs for text in pair)
    assert decode([header], 0) == Stop(reason="two")


# ---- malformed


@pytest.mark.parametrize("count", [0, 3, 4])
def test_a_message_with_no_frame_or_more_than_two_is_refused(count: int) -> None:
    assert f"{count} frames" in refusal([frames_of("Stop")[0]] * count)


def test_a_header_that_is_too_large_is_refused_without_reading_it() -> None:
    assert "header of 1048577 bytes" in refusal([b"\xc1" * (codec.MAX_HEADER + 1)])


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xc1",
        b"\x81",
        frames_of("Stop")[0][1:-1],
        frames_of("Stop")[0][1:] + b"\0",
        frames_of("Stop")[0][1:] * 2,
        b"\x83\xa4kind\xa4Stop\xa6reason\x01\xa1x",
        b"\x82\xa1x" + b"\x91" * 200_000 + b"\0" + b"\xa4kind\xa4Stop",
        b"\x82\xa1x" + b"\x81\xa1k" * 200_000 + b"\0" + b"\xa4kind\xa4Stop",
        b"\x81\xa4kind\xa4\xff\xff\xff\xff",
        b"\x82\xa4kind\xa4Stop\xa6reason\xa1\xff",
        b"\x82\xa4kind\xa4Stop\xa1\xff\0",
    ],
    ids=[
        "empty",
        "reserved byte",
        "map without entry",
        "cut off",
        "surplus byte",
        "two maps",
        "cut off after a wrong value",
        "200,000 lists deep",
        "200,000 maps deep",
        "a kind that is not utf-8",
        "a text that is not utf-8",
        "a key that is not utf-8",
    ],
)
def test_a_header_that_is_not_msgpack_is_refused(header: bytes) -> None:
    assert "not msgpack" in refusal([bytes([SCHEMA]) + header])


@pytest.mark.parametrize("header", [[], 5, "Stop", None, b"x", [[[[]]]]])
def test_a_header_that_is_not_a_map_is_refused(header: object) -> None:
    assert "Expected `object`" in refusal([packed(header)])


def test_a_map_with_keys_that_are_not_text_is_refused() -> None:
    assert refusal([packed({1: 2})])
    assert refusal([packed({b"kind": "Stop", b"reason": ""})])
    assert refusal([packed({"kind": "Stop", "reason": "", 1: 2})])


@pytest.mark.parametrize("schema", [0, 1, 3, 255, -1, True, 2.0, "2", None, [2], {"schema": 2}])
def test_another_schema_is_refused_before_the_rest_is_read(schema: object) -> None:
    assert refusal([msgpack.packb(schema) + b"\xc1"]) == "unknown schema; this side uses 2"
    assert refusal([msgpack.packb(schema) + msgpack.packb(header_of("Stop"))]) == "unknown schema; this side uses 2"


@pytest.mark.parametrize("frame", [b"", msgpack.packb({"schema": 1, "kind": "Stop", "reason": ""})])
def test_a_header_without_a_schema_or_of_the_first_one_is_refused(frame: bytes) -> None:
    assert "unknown schema" in refusal([frame])


@pytest.mark.parametrize("kind", ["stop", "", "Job", "Message", "trained", "x" * 5000])
def test_an_unknown_kind_is_refused(kind: str) -> None:
    assert refusal(with_header("Stop", header_of("Stop") | {"kind": kind})) == "unknown kind of message"


@pytest.mark.parametrize("kind", [None, 1, [], {}, b"Stop"])
def test_a_kind_that_is_not_text_is_refused(kind: object) -> None:
    assert "$.kind" in refusal(with_header("Stop", header_of("Stop") | {"kind": kind}))


def test_a_second_kind_is_refused() -> None:
    header = b"\x83" + b"".join(map(msgpack.packb, ("kind", "Stop", "reason", "", "kind", "Refused")))
    assert refusal([bytes([SCHEMA]) + header])


def test_a_refusal_names_the_kind_of_message() -> None:
    assert refusal(with_header("Stop", header_of("Stop") | {"reason": 1})) == (
        "Stop: Expected `str`, got `int` - at `$.reason`"
    )


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_missing_field_is_refused(kind: str) -> None:
    header = header_of(kind)
    optional = {field.name for field in msgspec.structs.fields(type(BY_KIND[kind])) if not field.required}
    for name in header.keys() - optional:
        assert refusal(with_header(kind, {key: value for key, value in header.items() if key != name}))


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_surplus_field_is_refused(kind: str) -> None:
    assert "unknown field `extra`" in refusal(with_header(kind, header_of(kind) | {"extra": 1}))


def test_a_field_under_another_name_is_refused() -> None:
    assert "raeson" in refusal(with_header("Stop", {"kind": "Stop", "raeson": "over"}))


@pytest.mark.parametrize(
    "model", [[1.0, 2.0, 3.0], [1.0, 2.0], bytes(12), msgpack.ExtType(5, bytes(12)), ["<f4", 3, [1.0, 2.0, 3.0]]]
)
def test_a_vector_inside_the_header_is_refused(model: object) -> None:
    header = header_of("Snapshot") | {"model": model}
    assert "$.model" in refusal([packed(header)])
    assert "$.model" in refusal(with_header("Snapshot", header))


WRONG_VALUES: list[tuple[str, str, Any]] = [
    ("Hello", "pid", True),
    ("Hello", "pid", -1),
    ("Hello", "pid", 1.0),
    ("Hello", "pid", "1"),
    ("Hello", "pid", None),
    ("Hello", "device", 5),
    ("Hello", "device", b"rpi4-1"),
    ("Hello", "device", "x" * 1001),
    ("Hello", "pid", 0),  # a signal to pid 0 would reach the whole process group
    ("Hello", "pid", 2**31),
    ("Hello", "samples", 2**31),
    ("Hello", "cores", 1),
    ("Hello", "cores", [True]),
    ("Hello", "cores", [-1]),
    ("Hello", "cores", {"0": 1}),
    ("Welcome", "origin", "12"),
    ("Welcome", "origin", False),
    ("Welcome", "origin", math.nan),
    ("Welcome", "origin", math.inf),
    ("Welcome", "origin", 1e13),
    ("Train", "job", []),
    ("Train", "job", "final"),
    ("Update", "loss", -math.inf),
    ("Update", "ticket", False),
    ("Update", "ticket", 2**53 + 1),
    ("Grant", "rate", 5e-324),
    ("JoinCluster", "ticket_range", 2**29),  # its tickets would not fit into a message
    ("JoinCluster", "members", [["a", 0, 0]]),
    ("HeadReport", "ticket_range", 2**29),
    ("Update", "events", {}),
    ("Update", "events", [1]),
    ("Update", "events", None),
    ("HeadReport", "events", [{}]),
    ("CanaryReport", "event", None),
    ("CanaryReport", "event", []),
    ("Heartbeat", "progress", "1"),
    ("Score", "metrics", []),
    ("Score", "metrics", {"accuracy": "1"}),
    ("Score", "metrics", {"loss": math.nan}),
    ("Score", "metrics", {"x" * 1001: 1.0}),
    ("Stop", "reason", None),
]


@pytest.mark.parametrize(("kind", "field", "value"), WRONG_VALUES)
def test_a_field_of_the_wrong_type_is_refused_by_name(kind: str, field: str, value: object) -> None:
    message = refusal(with_header(kind, header_of(kind) | {field: value}))
    assert f"$.{field}" in message


WRONG_JOBS = [
    ("steps", True),
    ("steps", 0),
    ("epochs", 2**22),
    ("batch", -1),
    ("lr", math.nan),
    ("lr", "1"),
    ("lr", 1e31),
    ("lr_decay", 1.5),
    ("momentum", -0.5),
    ("proximal", 1e31),
]


@pytest.mark.parametrize(("field", "value"), WRONG_JOBS)
def test_a_wrong_field_of_a_job_is_refused_by_name(field: str, value: object) -> None:
    header = header_of("Train")
    header["job"][field] = value
    assert field in refusal(with_header("Train", header))


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "float32", None, 4, ["<f4"]])
def test_another_dtype_is_refused(dtype: object) -> None:
    assert "$.delta[0]" in refusal(with_header("Update", header_of("Update") | {"delta": [dtype, SIZE]}))


@pytest.mark.parametrize("size", [2, 4, 0, 2**53])
def test_another_announced_size_is_refused(size: int) -> None:
    assert "wrong shape" in refusal(with_header("Update", header_of("Update") | {"delta": ["<f4", size]}))


@pytest.mark.parametrize("size", [-3, 2**53 + 1, 2**63, True, 3.0, "3", None])
def test_an_announced_size_that_is_no_count_is_refused(size: object) -> None:
    assert "$.delta[1]" in refusal(with_header("Update", header_of("Update") | {"delta": ["<f4", size]}))


@pytest.mark.parametrize("shape", [None, [], ["<f4"], 3, {"dtype": "<f4", "size": 3}])
def test_a_vector_that_is_not_announced_as_dtype_and_size_is_refused(shape: object) -> None:
    assert "$.delta" in refusal(with_header("Update", header_of("Update") | {"delta": shape}))


def test_a_vector_of_another_model_is_refused() -> None:
    assert "the model has 4 numbers" in refusal(frames_of("Update"), size=4)


@pytest.mark.parametrize("length", [0, 8, 11, 13, 16])
def test_a_vector_that_is_too_short_or_too_long_is_refused(length: int) -> None:
    assert f"{length} bytes" in refusal([frames_of("Update")[0], bytes(length)])


def test_a_message_without_its_vector_is_refused() -> None:
    assert "missing" in refusal(frames_of("Update")[:1])


def test_a_vector_with_a_message_that_carries_none_is_refused() -> None:
    assert "carries no vector" in refusal([*frames_of("Stop"), bytes(12)])


def test_the_transport_accepts_twice_a_large_model_and_any_header() -> None:
    assert codec.largest_frame(10_000_000) == 80_000_000
    assert codec.largest_frame(1) >= codec.MAX_HEADER


# ---- fuzzing


def survive(frames: Sequence[bytes]) -> None:
    """Decoding returns a message or raises BadMessage; any other exception is a bug."""
    try:
        message = decode(frames, SIZE)
    except BadMessage:
        return
    assert isinstance(message, Message)


@fuzzed
@given(st.lists(st.binary(max_size=64), max_size=3))
def test_random_bytes_are_decoded_or_refused(frames: list[bytes]) -> None:
    survive(frames)


@fuzzed
@given(st.sampled_from(sorted(BY_KIND)), st.data())
def test_damaged_messages_are_decoded_or_refused(kind: str, data: st.DataObject) -> None:
    frames = frames_of(kind)
    number = data.draw(st.integers(0, len(frames) - 1), "frame")
    frame = frames[number]
    start = data.draw(st.integers(0, len(frame)), "start")
    end = data.draw(st.integers(start, min(len(frame), start + 4)), "end")
    frames[number] = frame[:start] + data.draw(st.binary(max_size=4), "patch") + frame[end:]
    survive(frames)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@examples(600)
@given(st.sampled_from(sorted(BY_KIND)), st.data())
def test_headers_with_any_value_in_any_field_are_decoded_or_refused(kind: str, data: st.DataObject) -> None:
    header = header_of(kind)
    field = data.draw(st.sampled_from(sorted(header)), "field")
    survive(with_header(kind, header | {field: data.draw(values, "value")}))


@examples(300)
@given(st.lists(st.floats(width=32), min_size=SIZE, max_size=SIZE), st.integers(0, 2**53), st.text(max_size=20))
def test_any_update_survives_encoding_and_decoding(numbers: list[float], ticket: int, device: str) -> None:
    update = Update(
        device=device,
        ticket=ticket,
        version=0,
        delta=vector(*numbers),
        samples=1,
        steps=1,
        started=0.0,
        finished=0.0,
        due=0.0,
        loss=0.0,
    )
    assert_same(decode(encode(update), SIZE), update)
