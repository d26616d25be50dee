"""What a producer may send: each refusal has Kafka's code, and nothing is appended."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.controller.engine.steps import finished
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.partition_log import Limits, Marker, TimestampType, TransactionEnd
from quorate.partition_log.produced_records import Deltas, read_in_steps
from quorate.wire.batch import HEADER_BYTES, check_batch, read_header, records
from quorate.wire.items import Items
from quorate.wire.primitives import varint
from tests.partition_log.batches import NOW_MS, emptied, opened, produced, summed

HOUR_MS = 3_600_000


def changed(position: int, number: int, form: str = ">i") -> bytes:
    """A batch of two records with one field of its header set, and the checksum of that."""
    batch = bytearray(produced(count=2))
    struct.pack_into(form, batch, position, number)
    return summed(batch)


def holding(body: bytes, *, count: int = 2, attributes: int = 0) -> bytes:
    """A batch of which the header says that it has `count` records, over these bytes."""
    batch = bytearray(changed(57, count)[:HEADER_BYTES]) + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, attributes)
    struct.pack_into(">i", batch, 23, count - 1)
    return summed(batch)


def record(*, length: int | None = None, time: int = 0, delta: int = 0, rest: bytes = b"\x01\x01\x00") -> bytes:
    """A record; `rest` are key, value and headers, here none of them."""
    fields = b"\0" + varint(time) + varint(delta) + rest
    return varint(len(fields) if length is None else length) + fields


PLAIN = b"\x01\x04ab\x00"
"""No key, a value of two bytes, no headers."""


def after_three(last: bytes) -> bytes:
    """A batch of four records, of which three are framed alike."""
    return holding(b"".join(record(delta=index, rest=PLAIN) for index in range(3)) + last, count=4)


PADDED = b"".join(varint(15) + b"\0\0" + bytes((index << 1 | 0x80, 0)) + b"\x08kkkk\x08vvvv\0" for index in range(2))
"""Two records framed alike, with offsets in a byte more than they take."""
FIRST = record()
TWO = FIRST + record(delta=1)
GZIP = 1
REFUSED = {
    "a byte flipped": (produced()[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
    "cut": (produced()[:-1], ErrorCode.INVALID_RECORD),
    "cut before its magic": (produced()[:16], ErrorCode.INVALID_RECORD),
    "a base offset": (changed(0, 500, ">q"), ErrorCode.INVALID_RECORD),
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "an older format": (changed(16, 1, ">b"), ErrorCode.INVALID_RECORD),
    "a later format": (changed(16, 3, ">b"), ErrorCode.CORRUPT_MESSAGE),
    "a length that no batch has": (changed(8, 20, ">i"), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (produced() + produced(), ErrorCode.INVALID_RECORD),
    "a control batch": (
        TransactionEnd(5, 0, Marker(True, 3)).batch(base_offset=0, epoch=0, now_ms=NOW_MS),
        ErrorCode.INVALID_RECORD,
    ),
    "no record, as a log cleaner leaves it": (emptied(produced()), ErrorCode.INVALID_RECORD),
    "more offsets than records": (changed(23, 7), ErrorCode.INVALID_RECORD),
    "a producer without a sequence": (produced(producer=(5, 0, -1)), ErrorCode.INVALID_RECORD),
    "of more records than an int has offsets": (holding(TWO, count=(1 << 31) - 1), ErrorCode.INVALID_RECORD),
    "framed as those before, with another offset": (after_three(record(delta=7, rest=PLAIN)), ErrorCode.INVALID_RECORD),
    "framed as those before, but that its value is longer": (
        after_three(record(delta=3, rest=b"\x01\x06ab\x00")),
        ErrorCode.INVALID_RECORD,
    ),
    "framed as those before, but that it has headers": (
        after_three(record(delta=3, rest=b"\x01\x04ab\x02")),
        ErrorCode.INVALID_RECORD,
    ),
    "as long as those before, whose offsets had a byte more": (
        holding(PADDED + varint(15) + b"\0\0\x04\x08kkkk\x7f\x08vvvv\0", count=3),
        ErrorCode.INVALID_RECORD,
    ),
    "of a record more than there are": (holding(TWO, count=3), ErrorCode.INVALID_RECORD),
    "of a record less than there are": (holding(TWO, count=1), ErrorCode.INVALID_RECORD),
    "of no bytes": (holding(b""), ErrorCode.INVALID_RECORD),
    "of zeros": (holding(bytes(60)), ErrorCode.INVALID_RECORD),
    "a record cut": (holding(TWO[:-1]), ErrorCode.INVALID_RECORD),
    "an offset twice": (holding(FIRST + FIRST), ErrorCode.INVALID_RECORD),
    "a record longer than its fields": (
        holding(FIRST + record(length=8, delta=1) + b"\0\0"),
        ErrorCode.INVALID_RECORD,
    ),
    "a value longer than its record": (
        holding(FIRST + record(delta=1, rest=b"\x01\x7e\x00")),
        ErrorCode.INVALID_RECORD,
    ),
    "a key of length -2": (holding(FIRST + record(delta=1, rest=b"\x03\x01\x00")), ErrorCode.INVALID_RECORD),
    "a header without a key": (holding(record(rest=b"\x01\x01\x02\x01\x01"), count=1), ErrorCode.INVALID_RECORD),
    "more headers than fit": (holding(record(rest=b"\x01\x01\x7e\0\0"), count=1), ErrorCode.INVALID_RECORD),
    "a number of eleven bytes": (holding(b"\xff" * 30, count=1), ErrorCode.INVALID_RECORD),
    "a record from the future": (holding(FIRST + record(delta=1, time=2 * HOUR_MS)), ErrorCode.INVALID_TIMESTAMP),
    "of a codec that is none": (holding(TWO, attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "gzip that is none": (holding(TWO, attributes=GZIP), ErrorCode.INVALID_RECORD),
    "gzip cut": (holding(gzip.compress(TWO)[:-1], attributes=GZIP), ErrorCode.INVALID_RECORD),
    "gzip of too few": (holding(gzip.compress(TWO), count=3, attributes=GZIP), ErrorCode.INVALID_RECORD),
    "gzip of too many": (holding(gzip.compress(TWO), count=1, attributes=GZIP), ErrorCode.INVALID_RECORD),
    "gzip of too much": (holding(gzip.compress(bytes(96_001)), attributes=GZIP), ErrorCode.INVALID_RECORD),
    "snappy of more than it can hold": (holding(TWO, count=46, attributes=2), ErrorCode.INVALID_RECORD),
    "zstd of more than may be": (holding(TWO, count=13_715, attributes=4), ErrorCode.INVALID_RECORD),
    "larger than max.message.bytes": (produced(size=2000), ErrorCode.MESSAGE_TOO_LARGE),
    "larger than a segment": (produced(size=900), ErrorCode.RECORD_LIST_TOO_LARGE),
    "from the future": (produced(timestamp_ms=NOW_MS + HOUR_MS + 1), ErrorCode.INVALID_TIMESTAMP),
    "from long ago": (produced(timestamp_ms=NOW_MS - 2 * HOUR_MS), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize(("batch", "code"), REFUSED.values(), ids=REFUSED)
def test_a_batch_that_is_not_right_is_refused(tmp_path: Path, batch: bytes, code: ErrorCode) -> None:
    limits = Limits(max_message_bytes=1500, segment_bytes=800, timestamp_before_max_ms=HOUR_MS)
    log = opened(tmp_path, settings={"limits": limits})
    with pytest.raises(ApiError) as error:
        log.append_as_leader(batch, epoch=1, now_ms=NOW_MS)

    assert (code, 0, 0) == (error.value.code, log.leo, log.size)
    log.abandon()


@pytest.mark.parametrize("attributes", [0, GZIP])
def test_what_kafkas_clients_send_is_taken_and_read_in_steps(tmp_path: Path, attributes: int) -> None:
    rest = varint(3) + b"key" + varint(400) + b"v" * 400 + varint(2) + (varint(1) + b"h" + varint(-1)) * 2
    body = b"".join(record(time=at - 5, delta=at, rest=rest) for at in range(3_000))
    sent = holding(gzip.compress(body) if attributes else body, count=3_000, attributes=attributes)
    log = opened(tmp_path, settings={"limits": Limits(max_message_bytes=1 << 21)})
    steps = sum(1 for _ in log.check_in_steps(sent, now_ms=NOW_MS, done=Items()))

    assert steps >= 2
    assert 2_999 == log.append_as_leader(sent, epoch=1, now_ms=NOW_MS).last_offset
    log.abandon()


def _field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


RUNS = st.lists(
    st.tuples(
        st.integers(1, 70),  # so that an offset gets a second byte on the way
        st.sampled_from([None, b"", b"key"]),
        st.sampled_from([None, b"", b"value", bytes(100)]),
        st.sampled_from([0, 1, -300]),
    ),
    min_size=1,
    max_size=3,
)


@given(RUNS, st.none() | st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)))
def test_records_that_are_framed_alike_are_read_as_others_are(
    runs: list[tuple[int, bytes | None, bytes | None, int]], damage: tuple[float, int] | None
) -> None:
    """As the plain reader has them, with a byte changed anywhere or none; but that headers' names are no text here."""
    fields = [(key, value, time) for times, key, value, time in runs for _ in range(times)]
    body = bytearray(
        b"".join(
            record(time=time, delta=index, rest=_field(key) + _field(value) + b"\0")
            for index, (key, value, time) in enumerate(fields)
        )
    )
    if damage is not None:
        body[int(damage[0] * len(body))] = damage[1]
    batch = holding(bytes(body), count=len(fields))
    header = read_header(batch)
    try:
        read = list(records(batch, 0, header))
        times = [each.timestamp - header.base_timestamp for each in read]
        expected = Deltas(min(0, *times), max(0, *times)) if [*range(len(read))] == [r.offset for r in read] else None
    except Corrupt as refusal:
        if "utf-8" in refusal.reason:
            return
        expected = None
    try:
        found = finished(read_in_steps(batch, header, max_message_bytes=1 << 20, done=Items()))
    except ApiError:
        found = None

    assert expected == found


def test_what_cannot_be_decompressed_here_is_taken_by_its_header(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for attributes in (2, 3, 4):
        log.append_as_leader(holding(b"compressed", attributes=attributes), epoch=1, now_ms=NOW_MS)
    assert 6 == log.leo
    log.abandon()


def test_the_leader_stamps_offset_and_epoch_and_nothing_else(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append_as_leader(produced(), epoch=4, now_ms=NOW_MS)
    sent = produced(count=3)
    log.append_as_leader(sent, epoch=4, now_ms=NOW_MS + 5)
    slice_ = log.read(1, log.leo, max_bytes=1 << 20)

    assert slice_ is not None
    stored = slice_.read()
    assert struct.pack(">q", 1) + sent[8:12] + struct.pack(">i", 4) + sent[16:] == stored
    log.abandon()


def test_with_log_append_time_the_batch_has_the_leaders_time_and_a_new_checksum(tmp_path: Path) -> None:
    log = opened(tmp_path, settings={"limits": Limits(timestamp_type=TimestampType.LOG_APPEND_TIME)})
    appended = log.append_as_leader(produced(timestamp_ms=1), epoch=0, now_ms=NOW_MS)
    slice_ = log.read(0, log.leo, max_bytes=1)
    assert slice_ is not None
    header = check_batch(slice_.read())

    assert (NOW_MS, NOW_MS, 0x08) == (appended.log_append_time_ms, header.max_timestamp, header.attributes)
    assert 1 == len(list(records(slice_.read(), 0, header)))
    log.abandon()
