"""Batches: written, read, and refused byte by byte. kafka-python, which knows nothing of us, reads along."""

from __future__ import annotations

import gzip
import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from quorate.errors import Corrupt
from quorate.wire.batch import (
    CONTROL,
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES_MAX,
    BatchHeader,
    ControlType,
    batches,
    check_batch,
    control_batch,
    data_batch,
    data_values,
    fetched_batches,
    peek_header,
    read_header,
    records,
)
from quorate.wire.primitives import varint

VALUES = [b"a", b"bc", b"d" * 57, b"e" * 58, b"f" * 63, b"g" * 64, b"h" * 200]
some_values = st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=150)


def data(values: list[bytes], base_offset: int = 7) -> bytes:
    return data_batch(base_offset=base_offset, epoch=3, timestamp_ms=1000, values=values)


def resealed(batch: bytes) -> bytes:
    """The same bytes with the checksum that they ought to have."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def handmade(body: bytes, *, count: int = 1, attributes: int = 0, last_delta: int | None = None) -> bytes:
    """A batch with a right checksum around any bytes."""
    last_delta = count - 1 if last_delta is None else last_delta
    header = struct.pack(
        ">qiibIhiqqqhii", 7, 49 + len(body), 3, 2, 0, attributes, last_delta, 1000, 1000, -1, -1, -1, count
    )
    return resealed(header + body)


def record(content: bytes) -> bytes:
    return varint(len(content)) + content


# What is written.


def test_a_header_says_what_was_asked_for() -> None:
    batch = data(VALUES)

    header = check_batch(batch)

    assert (7, 7 + len(VALUES), 13) == (header.base_offset, header.next_offset, header.last_offset)
    assert (3, len(batch), len(VALUES)) == (header.epoch, header.size, header.count)
    assert (1000, 1000, -1, -1, -1) == header[6:11]
    assert (False, "none") == (header.is_control, header.compression)


def test_a_leader_change_has_the_bytes_that_a_jvm_writes() -> None:
    value = bytes.fromhex("00000000000102000000010002000000010000")
    batch = control_batch(
        base_offset=0, epoch=1, timestamp_ms=1729814410000, records=[(ControlType.LEADER_CHANGE, value)]
    )

    (found,) = records(batch, 0, check_batch(batch))

    assert 91 == len(batch)
    assert (0, 1729814410000, b"\0\0\0\2", value, ()) == tuple(found)
    assert CONTROL == check_batch(batch).attributes


@given(some_values)
def test_values_come_back_and_kafka_python_sees_the_same(values: list[bytes]) -> None:
    batch = data(values)

    theirs = DefaultRecordBatch(batch)

    assert values == data_values(batch)
    assert values == [each.value for each in records(batch, 0, check_batch(batch))]
    assert theirs.validate_crc()
    assert [(7 + at, None, value) for at, value in enumerate(values)] == [
        (each.offset, each.key, each.value) for each in theirs
    ]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 20_000])
def test_offset_deltas_of_every_width(count: int) -> None:
    values = [b"%d" % number for number in range(count)]

    batch = data(values)

    assert values == data_values(batch)
    assert [7 + at for at in range(count)] == [each.offset for each in records(batch, 0, read_header(batch))]


@pytest.mark.parametrize("size", [1, 52, 53, 54, 57, 58, 59, 63, 64, 8180, 8184, 8185, 8192, 1 << 20])
@pytest.mark.parametrize("before", [0, 64])
def test_values_of_every_width(size: int, before: int) -> None:
    values = [b"x"] * before + [b"v" * size]
    batch = data(values)

    assert values == data_values(batch)
    assert len(batch) <= HEADER_BYTES + sum(RECORD_OVERHEAD_BYTES_MAX + len(value) for value in values)


def test_batches_are_found_one_after_another() -> None:
    both = b"junk" + data([b"a"]) + data([b"b", b"c"], 8)

    found = [(position, header.base_offset) for position, header in batches(both, 4)]

    assert [(4, 7), (4 + len(data([b"a"])), 8)] == found


# What others write.


@pytest.mark.parametrize("left", [0, 1, 30, HEADER_BYTES, 70])
def test_a_batch_that_a_kafka_leader_has_cut_ends_what_was_fetched(left: int) -> None:
    whole = data([b"a"] * 3) + data([b"b"] * 2, base_offset=10)
    cut = data([b"c" * 60], base_offset=12)[:left]

    assert [7, 10] == [header.base_offset for _, header in fetched_batches(whole + cut)]


@pytest.mark.parametrize("left", [1, 30, HEADER_BYTES, 70])
def test_the_first_batch_that_was_fetched_must_be_whole(left: int) -> None:
    with pytest.raises(Corrupt, match=f"{left} are left"):
        list(fetched_batches(data([b"c" * 60])[:left]))


def test_what_follows_a_fetched_batch_and_is_none_is_refused() -> None:
    with pytest.raises(Corrupt, match="batch magic 0"):
        list(fetched_batches(data([b"a"]) + b"\0\0\0\x40" * 30))


def test_reads_keys_headers_and_times_of_their_own() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    builder.append(0, 5000, b"key", b"value", [("name", b"content"), ("none", None)])
    builder.append(1, 5003, None, None, [])
    batch = bytes(builder.build())

    first, second = records(batch, 0, check_batch(batch))

    assert (0, 5000, b"key", b"value", (("name", b"content"), ("none", None))) == tuple(first)
    assert (1, 5003, None, None, ()) == tuple(second)
    with pytest.raises(Corrupt, match="record 0 is not one of KRaft's"):
        data_values(batch)


def test_reads_gzip() -> None:
    plain = data(VALUES)
    batch = handmade(gzip.compress(plain[HEADER_BYTES:]), count=len(VALUES), attributes=1)

    assert VALUES == data_values(batch)


@pytest.mark.parametrize(
    ("body", "attributes", "reason"),
    [
        (b"not gzip", 1, "is no gzip"),
        (gzip.compress(data(VALUES)[HEADER_BYTES:], mtime=0)[:-9], 1, "batch at offset 7 is gzip that is cut off"),
        (gzip.compress(bytes(65 << 20), mtime=0), 1, "is gzip of more than 67108864 bytes"),
        (b"x", 2, "compressed with snappy; only none and gzip"),
        (b"x", 6, "compressed with codec 6"),
    ],
)
def test_refuses_compression_that_it_cannot_undo(body: bytes, attributes: int, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        data_values(handmade(body, attributes=attributes))


# What is refused.


def test_no_flipped_byte_behind_the_checksum_goes_unseen() -> None:
    batch = data(VALUES)
    for at in range(16, len(batch)):
        for bit in (1, 128):
            broken = batch[:at] + bytes((batch[at] ^ bit,)) + batch[at + 1 :]
            with pytest.raises(Corrupt):
                check_batch(broken)


def test_no_batch_that_is_cut_anywhere_is_read() -> None:
    batch = data(VALUES)
    for size in range(len(batch)):
        with pytest.raises(Corrupt) as refused:
            check_batch(b"before" + batch[:size], 6)

        assert 6 == refused.value.position
        assert str(size) in refused.value.reason


@pytest.mark.parametrize(
    ("at", "form", "value", "reason"),
    [
        (0, ">q", -1, "batch at offset -1"),
        (8, ">i", 48, "batch length 48 is less than a header takes"),
        (8, ">i", -5, "batch length -5 is less than a header takes"),
        (16, ">b", 1, "batch magic 1; only 2 is spoken"),
        (23, ">i", -1, "last offset delta -1"),
        (57, ">i", 0, "with 0 records"),
    ],
)
def test_refuses_a_header_that_cannot_be_one(at: int, form: str, value: int, reason: str) -> None:
    batch = bytearray(data(VALUES))
    struct.pack_into(form, batch, at, value)

    with pytest.raises(Corrupt, match=reason):
        peek_header(batch)


BAD_RECORDS = [
    ("its length is 0", record(b"")),
    ("its length is -1", varint(-1)),
    ("its length is 50", varint(50) + b"short"),
    ("its length is off by", record(b"\0\0\0\x01" + varint(1) + b"v\0extra")),
    ("a field of 9 bytes, 2 are left", record(b"\0\0\0\x01" + varint(9) + b"v\0")),
    ("a field of -2 bytes; only -1 means none", record(b"\0\0\0\x03" + varint(1) + b"v\0")),
    ("it has -1 headers", record(b"\0\0\0\x01" + varint(1) + b"v\x01")),
    ("a header without a key", record(b"\0\0\0\x01" + varint(1) + b"v" + varint(1) + b"\x01\x01")),
    ("can't decode byte", record(b"\0\0\0\x01" + varint(1) + b"v" + varint(1) + varint(1) + b"\xff\x01")),
    ("its offset delta is 1, the batch's last one 0", record(b"\0\0" + varint(1) + b"\x01" + varint(1) + b"v\0")),
    ("its offset delta is -1", record(b"\0\0" + varint(-1) + b"\x01" + varint(1) + b"v\0")),
    ("the buffer ends inside a varint", record(b"\0\0\xff")),
    ("1 bytes after the last record", record(b"\0\0\0\x01" + varint(1) + b"v\0") + b"!"),
    ("it has a key, a header, or no value", record(b"\0\0\0" + varint(1) + b"k" + varint(1) + b"v\0")),
    ("it has a key, a header, or no value", record(b"\0\0\0\x01\x01\0")),
    ("it has a key, a header, or no value", record(b"\0\0\0\x01\0\0")),
    ("record 7 at place 0", record(b"\0" + varint(5) + b"\0\x01" + varint(1) + b"v\0")),
]


@pytest.mark.parametrize(("reason", "body"), BAD_RECORDS, ids=[f"{at}" for at in range(len(BAD_RECORDS))])
def test_names_what_is_wrong_with_a_record_whose_checksum_is_right(reason: str, body: bytes) -> None:
    batch = handmade(body)

    with pytest.raises(Corrupt) as refused:
        data_values(b"before" + batch, 6, check_batch(batch))

    assert reason in refused.value.reason
    assert refused.value.position is not None
    assert 6 <= refused.value.position <= 6 + len(batch)


def test_names_the_position_of_the_record() -> None:
    good = record(b"\0\0\0\x01" + varint(1) + b"v\0")
    batch = handmade(good + record(b"\0\0\xff"), count=2)

    with pytest.raises(Corrupt) as refused:
        list(records(batch, 0, read_header(batch)))

    assert HEADER_BYTES + len(good) == refused.value.position


def test_refuses_values_of_a_batch_with_holes_in_its_offsets() -> None:
    body = record(b"\0\0\0\x01" + varint(1) + b"v\0")

    with pytest.raises(Corrupt, match="of 1 records, its last is 4"):
        data_values(handmade(body, last_delta=4))


EQUALLY_LONG = st.builds(
    lambda size, count: [bytes((place % 251,)) * size for place in range(count)],
    st.integers(1, 140),
    st.integers(60, 90),
)
"""As the partitions of a topic are: the quick way compares what is around them in columns, from the 65th on."""


@given(st.one_of(some_values, EQUALLY_LONG), st.data())
def test_both_ways_to_the_values_agree_on_any_bytes(values: list[bytes], choice: st.DataObject) -> None:
    """The quick way compares, the slow one parses: whatever a body says, they must not differ."""
    body = bytearray(data(values)[HEADER_BYTES:])
    for _ in range(choice.draw(st.integers(1, 3))):
        body[choice.draw(st.integers(0, len(body) - 1))] = choice.draw(st.integers(0, 255))
    batch = handmade(bytes(body), count=len(values))
    header = check_batch(batch)

    assert outcome_by_parsing(batch, header) == outcome_by_values(batch, header)


@pytest.mark.parametrize("size", [1, 56, 57, 64, 113, 8180])
def test_both_ways_agree_on_any_changed_byte_around_equally_long_values(size: int) -> None:
    values = [b"v" * size] * 68
    batch = bytearray(data(values))
    header = check_batch(batch)
    refused = 0
    for at in range(len(batch) - 4 * (len(batch) - len(data(values[1:]))), len(batch)):
        if batch[at] != ord("v"):
            batch[at] ^= 4
            found = outcome_by_values(bytes(batch), header)
            refused += found is None
            assert outcome_by_parsing(bytes(batch), header) == found
            batch[at] ^= 4

    assert values == data_values(batch)
    assert 4 * 6 < refused


def outcome_by_values(batch: bytes, header: BatchHeader) -> list[bytes] | None:
    try:
        return data_values(batch, 0, header)
    except Corrupt:
        return None


def outcome_by_parsing(batch: bytes, header: BatchHeader) -> list[bytes] | None:
    try:
        found = list(records(batch, 0, header))
    except Corrupt:
        return None
    for at, each in enumerate(found):
        if each.key is not None or not each.value or each.headers or (each.offset, each.timestamp) != (7 + at, 1000):
            return None
    return [each.value or b"" for each in found]


@given(st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else_happens(noise: bytes) -> None:
    with pytest.raises(Corrupt):
        check_batch(noise)
