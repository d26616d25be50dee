"""Offsets by time: of the records that are there, and none of those that are deleted."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from kraft.api.list_offsets import ListOffsetsRequest
from quorate.errors import ErrorCode
from quorate.partition_log import segment
from quorate.partition_log.produced import LOG_APPEND_TIME, Limits
from quorate.partition_log.settings import LogSettings
from quorate.records import RemoveTopicRecord
from quorate.runtime.event_loop.turns import in_turns
from quorate.wire.inflation import PIECE_BYTES
from quorate.wire.items import ITEMS_PER_STEP
from quorate.wire.primitives import varint
from services.broker.offsets import MAX_TIMESTAMP
from tests.partition_log.batches import NOW_MS, emptied, placed, produced, summed
from tests.partition_log.test_produced import holding, record
from tests.services.broker import test_partitions
from tests.services.broker.calling import caller
from tests.services.broker.test_partitions import TOPIC
from tests.services.broker.test_rights import Broker, code_of
from tests.services.broker.test_transactions import Leader, leading

disks = test_partitions.disks
SECONDS = (0, 9, 1, 2, 3, 4, 2)
"""Of the batches, two records each: the latest time is that of records which are deleted first."""


def asked(timestamp: int) -> ListOffsetsRequest:
    partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(0, -1, timestamp)
    return ListOffsetsRequest(topics=(ListOffsetsRequest.ListOffsetsTopic("orders", (partition,)),))


async def place(leader: Leader, timestamp: int) -> tuple[int, int]:
    """Offset and timestamp, in s since the first record; the offset -1 for nothing."""
    answer = await in_turns(Broker(leader, leader.scene).offsets.list(asked(timestamp), 9, caller()))
    found = answer.topics[0].partitions[0]
    assert not found.error_code
    return found.offset, (found.timestamp - NOW_MS) // 1000


def written(leader: Leader, *, segment_bytes: int, start: int) -> None:
    """All is committed, and deleted below `start`."""
    log = leader[0].log
    log.settings = LogSettings(limits=Limits(segment_bytes=segment_bytes))
    for second in SECONDS:
        log.append_as_leader(produced(count=2, timestamp_ms=NOW_MS + second * 1000), epoch=0, now_ms=NOW_MS)
    leader.replicate()
    log.raise_start(start)


@pytest.mark.parametrize("segment_bytes", [1 << 30, 200], ids=["one segment", "some segments"])
@pytest.mark.parametrize(
    ("start", "second", "expected"),
    [
        (0, 5, (2, 9)),
        (3, 5, (3, 9)),
        (4, 0, (4, 1)),
        (5, 1, (5, 1)),
        (5, 2, (6, 2)),
        (4, 4, (10, 4)),
        (4, 5, (-1, -NOW_MS // 1000 - 1)),
        (14, 0, (-1, -NOW_MS // 1000 - 1)),
    ],
)
async def test_a_time_finds_no_record_that_is_deleted(
    disks: list[Path], segment_bytes: int, start: int, second: int, expected: tuple[int, int]
) -> None:
    async with leading(disks) as leader:
        written(leader, segment_bytes=segment_bytes, start=start)

        assert expected == await place(leader, NOW_MS + second * 1000)


async def test_a_time_finds_no_batch_that_a_log_cleaner_has_left_empty(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "LOOKED_AT_MAX", 2)
    async with leading(disks) as leader:
        log = leader[0].log
        late = emptied(produced(timestamp_ms=NOW_MS + 3_000))
        for offset, batch in enumerate((produced(), late, late, late, produced(timestamp_ms=NOW_MS + 2_000))):
            log.append_as_follower(placed(batch, offset=offset, epoch=0), now_ms=NOW_MS)
        leader.replicate()

        assert (4, 2) == await place(leader, NOW_MS + 1)


def with_last(count: int, value_bytes: int, *, stamped: bool = False) -> bytes:
    """A batch of gzip whose last record is of a second later than the others, unless all are of when it is appended."""
    rest = b"\x01" + varint(value_bytes) + bytes(value_bytes) + b"\0"
    body = b"".join(record(delta=at, time=1_000 if at == count - 1 else 0, rest=rest) for at in range(count))
    batch = bytearray(holding(gzip.compress(body), count=count, attributes=LOG_APPEND_TIME * stamped | 1))
    struct.pack_into(">q", batch, 35, NOW_MS + 1_000)
    return summed(batch)


@pytest.mark.parametrize(
    ("count", "value_bytes", "steps"),
    [(4 * ITEMS_PER_STEP + 1, 0, 4), (2, 2 * PIECE_BYTES, 4)],
    ids=["many records", "many bytes"],
)
async def test_a_search_within_a_batch_goes_on_in_steps(
    disks: list[Path], count: int, value_bytes: int, steps: int
) -> None:
    async with leading(disks) as leader:
        leader[0].log.append_as_leader(with_last(count, value_bytes), epoch=0, now_ms=NOW_MS)
        leader.replicate()
        assert steps == len(list(Broker(leader, leader.scene).offsets.list(asked(NOW_MS + 1), 9, caller())))
        assert (count - 1, 1) == await place(leader, NOW_MS + 1)


async def test_the_time_until_which_a_log_cleaner_keeps_a_tombstone_is_no_records_time(disks: list[Path]) -> None:
    """The delete horizon stands where a batch has the time of its first record, and the others count from it."""
    until_ms = 3_600_000
    body = b"".join(record(delta=at, time=at * 1_000 - until_ms) for at in range(2))
    batch = bytearray(holding(body, attributes=0x40))
    struct.pack_into(">qq", batch, 27, NOW_MS + until_ms, NOW_MS + 1_000)
    async with leading(disks) as leader:
        leader[0].log.append_as_follower(placed(summed(batch), offset=0, epoch=0), now_ms=NOW_MS)
        leader.replicate()

        assert (1, 1) == await place(leader, NOW_MS + 1)


async def test_the_records_of_a_batch_that_is_stamped_as_it_is_appended_are_all_of_that_time(disks: list[Path]) -> None:
    """LogAppendTime: what the producer has written into them does not count."""
    async with leading(disks) as leader:
        leader[0].log.append_as_leader(with_last(3, 0, stamped=True), epoch=0, now_ms=NOW_MS)
        leader.replicate()

        assert (0, 1) == await place(leader, NOW_MS + 1)


@pytest.mark.parametrize("segment_bytes", [1 << 30, 200], ids=["one segment", "some segments"])
async def test_the_latest_time_is_that_of_a_record_which_is_there(disks: list[Path], segment_bytes: int) -> None:
    async with leading(disks) as leader:
        written(leader, segment_bytes=segment_bytes, start=5)

        assert (10, 4) == await place(leader, MAX_TIMESTAMP)


async def test_a_search_ends_when_its_partition_goes(disks: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are closed then, which looked as if the disk had failed."""
    monkeypatch.setattr(segment, "LOOKED_AT_MAX", 2)
    async with leading(disks) as leader:
        written(leader, segment_bytes=1 << 30, start=4)
        asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(0, -1, NOW_MS + 4_000)
        request = ListOffsetsRequest(topics=(ListOffsetsRequest.ListOffsetsTopic("orders", (asked,)),))
        search = Broker(leader, leader.scene).offsets.list(request, 9, caller())
        next(search)
        leader.scene.log.append(RemoveTopicRecord(TOPIC))
        await leader.scene.applied(lambda: not leader.scene.names)

        assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == code_of(await in_turns(search))


async def test_a_search_where_timestamps_fall_goes_on_in_steps(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a segment of 1 GiB it would read 5,000,000 headers in one turn of the loop."""
    monkeypatch.setattr(segment, "LOOKED_AT_MAX", 2)
    async with leading(disks) as leader:
        written(leader, segment_bytes=1 << 30, start=4)

        assert (10, 4) == await place(leader, NOW_MS + 4_000)


async def test_a_partition_that_is_named_twice_is_answered_once_with_an_error(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        once = asked(-1).topics[0]
        twice = ListOffsetsRequest(topics=(once, ListOffsetsRequest.ListOffsetsTopic("orders", once.partitions)))

        answer = await in_turns(Broker(leader, leader.scene).offsets.list(twice, 9, caller()))

    found = [
        (each.partition_index, each.error_code, each.offset) for topic in answer.topics for each in topic.partitions
    ]
    assert [(0, ErrorCode.INVALID_REQUEST, -1)] == found
