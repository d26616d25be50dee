"""What a producer may send: each refusal has Kafka's code, and nothing is appended."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from quorate.errors import ApiError, ErrorCode
from quorate.partition_log import Limits, Marker, TimestampType, TransactionEnd
from quorate.wire.batch import check_batch, records
from tests.partition_log.batches import NOW_MS, opened, produced, summed

HOUR_MS = 3_600_000


def changed(position: int, number: int, form: str = ">i") -> bytes:
    """A batch of two records with one field of its header set, and the checksum of that."""
    batch = bytearray(produced(count=2))
    struct.pack_into(form, batch, position, number)
    return summed(batch)


REFUSED = {
    "a byte flipped": (produced()[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
    "cut": (produced()[:-1], ErrorCode.CORRUPT_MESSAGE),
    "nothing": (b"", ErrorCode.CORRUPT_MESSAGE),
    "an older format": (changed(16, 1, ">b"), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (produced() + produced(), ErrorCode.INVALID_RECORD),
    "a control batch": (
        TransactionEnd(5, 0, Marker(True, 3)).batch(base_offset=0, epoch=0, now_ms=NOW_MS),
        ErrorCode.INVALID_RECORD,
    ),
    "more offsets than records": (changed(23, 7), ErrorCode.INVALID_RECORD),
    "a producer without a sequence": (produced(producer=(5, 0, -1)), ErrorCode.INVALID_RECORD),
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
