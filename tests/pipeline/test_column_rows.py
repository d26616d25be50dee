"""Decoding by column gives what decoding record by record gives: the same rows, the same damage, the same errors."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="PyArrow is not installed: `make spark-setup`")

from kraft import Message, Uuid
from quorate.errors import Corrupt
from quorate.metadata.versions import LATEST, record_version
from quorate.pipeline.column_rows import FEW, Arrays, read_arrays, read_arrays_of
from quorate.pipeline.columns import COLUMNS, Columns
from quorate.pipeline.log_files import CHECKPOINT_KIND, LOG_KIND, FilePart, LogFile, find, parts
from quorate.pipeline.rows import RowFilter, read, read_bytes
from quorate.records import (
    RECORDS,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode_record,
    with_request,
    with_trace,
)
from quorate.wire.batch import CHECKED_FROM, CRC_POSITION, HEADER_BYTES, ControlType, control_batch, data_batch
from quorate.wire.schema import layout_of
from tests.pipeline.logs import NOON_MS, batches, flipped, history, node, segment
from tests.strategies import instance

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
FILES = sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".log", ".checkpoint"))
SHAPES = [(record, version) for record in RECORDS.values() for version in layout_of(record).versions]
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WANTED = (
    RowFilter(),
    RowFilter(failfast=True),
    RowFilter(decoded=False),
    RowFilter(start_offset=7, end_offset=130),
    RowFilter(types=frozenset({"PARTITION_CHANGE_RECORD", "UNKNOWN_RECORD", "LEADER_CHANGE"})),
)
Outcome = tuple[list[tuple[Any, ...]], tuple[str, Path | None, int | None] | None]


def agree(content: bytes, kind: str = LOG_KIND) -> bool:
    """Checks that both ways read the bytes alike, whatever is asked for; returns whether columns were used at all."""
    are_used = False
    place = LogFile("a.log", "cluster", kind, 0, epoch=1 if kind == CHECKPOINT_KIND else None)
    part = FilePart(place, 0, len(content), 0, True)
    for wanted in WANTED:
        chunks: list[Columns | Arrays] = []
        found = outcome(read_arrays_of(part, wanted, content), chunks)

        assert outcome(read_bytes(part, wanted, content), []) == found, wanted
        are_used |= any(isinstance(chunk, Arrays) for chunk in chunks)
    return are_used


def outcome(chunks: Any, kept: list[Any]) -> Outcome:
    """All rows; or those before an error, rounded down to nothing as the chunks differ in size, and the error."""
    rows: list[tuple[Any, ...]] = []
    try:
        for chunk in chunks:
            kept.append(chunk)
            rows += rows_of(chunk)
    except Corrupt as damage:
        return [], (damage.reason, damage.path, damage.position)
    return rows, None


def rows_of(chunk: Columns | Arrays) -> list[tuple[Any, ...]]:
    """The rows of a chunk, as tuples of Python's values in the order of COLUMNS."""
    if isinstance(chunk, Columns):
        return list(zip(*chunk.by_name().values(), strict=True))
    for name in COLUMNS:
        chunk.by_name[name].validate(full=True)
    return list(zip(*(chunk.by_name[name].to_pylist() for name in COLUMNS), strict=True))


def sealed(batch: bytes) -> bytes:
    """The batch with a checksum that fits its bytes, and with its length."""
    made = bytearray(batch)
    struct.pack_into(">i", made, 8, len(batch) - 12)
    struct.pack_into(">I", made, CRC_POSITION, crc32c(bytes(made[CHECKED_FROM:])))
    return bytes(made)


def hot(chance: Random) -> Message:
    """A record of the kinds that logs consist of."""
    topic = Uuid(bytes((chance.randrange(4),)) * 16)
    ids = tuple(chance.sample(range(9), 3))
    record: Message = chance.choice(
        (
            PartitionChangeRecord(chance.randrange(-1, 300), topic, isr=ids[: chance.randrange(4)], leader=ids[0]),
            PartitionChangeRecord(chance.randrange(9), topic, leader=-1, eligible_leader_replicas=ids),
            PartitionRecord(chance.randrange(9), topic, ids, ids, leader=ids[1], directories=(topic,) * 3),
            BrokerRegistrationChangeRecord(ids[0], chance.randrange(1 << 40), fenced=1),
            TopicRecord(f"topic \N{SNOWMAN} {chance.randrange(9)}", topic),
            ConfigRecord(2, "orders", "retention.ms", chance.choice((None, "", "1", "x" * 200))),
            RemoveTopicRecord(topic),
            NoOpRecord(),
        )
    )
    match chance.randrange(12):
        case 0:
            return with_trace(record, TRACE)
        case 1:
            return with_request(
                with_trace(record, TRACE[: chance.randrange(56)]), chance.randbytes(chance.randrange(200))
            )
    return record


def written(record: Message) -> bytes:
    """A record as the latest level has it in the log."""
    return encode_record(record, record_version(record, LATEST))


def misshapen(content: bytes, chance: Random) -> bytes:
    """Some bytes of it changed, cut off, or added."""
    made = bytearray(content)
    match chance.randrange(4):
        case 0:
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        case 1:
            made[chance.randrange(len(made))] = chance.choice((0, 1, 127, 128, 255))
        case 2:
            del made[chance.randrange(len(made)) :]
        case 3:
            made[chance.randrange(len(made)) : 0] = chance.randbytes(chance.randrange(1, 6))
    return bytes(made) or b"\1"


def hostile(batch: bytes, chance: Random) -> bytes:
    """A batch, or none, that something is wrong with, though its checksum may fit."""
    match chance.randrange(6):
        case 0:
            return flipped(batch)
        case 1:
            return b""
        case 2:
            return batch[: chance.randrange(len(batch))]
        case 3:
            packed = bytearray(batch[:HEADER_BYTES] + gzip.compress(batch[HEADER_BYTES:]))
            packed[22] |= 1
            return sealed(bytes(packed))
    return sealed(batch[:HEADER_BYTES] + misshapen(batch[HEADER_BYTES:], chance))


def log(chance: Random, messages: Sequence[bytes]) -> bytes:
    """A log of some hundred records, a part of them `messages`, with control records and damage here and there."""
    content, offset = [], 0
    is_damaged = chance.random() < 0.6
    for _ in range(chance.randrange(1, 25)):
        epoch = 1 + offset // 100
        if chance.random() < 0.1:
            change = (ControlType.LEADER_CHANGE, b"\0\0" + chance.randbytes(4))
            batch = control_batch(base_offset=offset, epoch=epoch, timestamp_ms=NOON_MS, records=[change])
            count = 1
        else:
            count = chance.choice((1, 1, 3, 20, 70, 130))
            values = [chance.choice(messages) if chance.random() < 0.2 else written(hot(chance)) for _ in range(count)]
            if is_damaged and chance.random() < 0.3:
                at = chance.randrange(count)
                values[at] = misshapen(values[at], chance)
            batch = data_batch(base_offset=offset, epoch=epoch, timestamp_ms=NOON_MS + offset, values=values)
        content.append(hostile(batch, chance) if is_damaged and chance.random() < 0.15 else batch)
        offset += count
    return b"".join(content)


@st.composite
def values(draw: st.DrawFn, shape: tuple[type[Message], int] | None = None) -> bytes:
    """A record in the log, of any kind and version that there is, or of this one."""
    record, version = shape or draw(st.sampled_from(SHAPES))
    return encode_record(draw(instance(layout_of(record), version)), version)


@settings(max_examples=60)
@given(st.integers(0, 1 << 32), st.lists(values(), min_size=1, max_size=6))
def test_a_log_with_anything_in_it_is_read_alike(seed: int, messages: list[bytes]) -> None:
    agree(log(Random(seed), messages))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0].__name__}-{shape[1]}")
@settings(max_examples=5)
@given(st.data())
def test_every_kind_of_record_is_read_alike(shape: tuple[type[Message], int], data: st.DataObject) -> None:
    chance = Random(data.draw(st.integers(0, 1 << 32)))
    some = data.draw(st.lists(values(shape), min_size=1, max_size=4))
    many = [chance.choice(some) for _ in range(2 * FEW)]
    for at in chance.sample(range(len(many)), 20):
        many[at] = misshapen(many[at], chance)
    kind = chance.choice((LOG_KIND, CHECKPOINT_KIND))

    assert agree(data_batch(base_offset=0, epoch=1, timestamp_ms=NOON_MS, values=many), kind)


def test_the_bytes_around_a_value_are_all_looked_at() -> None:
    made = [encode_record(PartitionChangeRecord(number, isr=(1, 2)), 2) for number in range(2 * FEW)]
    batch = data_batch(base_offset=0, epoch=1, timestamp_ms=NOON_MS, values=made)
    place = LogFile("a.log", "cluster", LOG_KIND, 0)
    for at in (*range(HEADER_BYTES, HEADER_BYTES + 40), *range(len(batch) - 2 * len(made[-1]), len(batch))):
        for bit in range(8):
            changed = bytearray(batch)
            changed[at] ^= 1 << bit
            content = sealed(bytes(changed))
            part = FilePart(place, 0, len(content), 0, True)
            found = outcome(read_arrays_of(part, RowFilter(), content), [])

            assert outcome(read_bytes(part, RowFilter(), content), []) == found, (at, bit)


def test_a_length_of_two_bytes_is_not_taken_for_one() -> None:
    # With the first byte alone as the name's length, everything behind it is a byte further, and these bytes fit, too.
    mistakable = TopicRecord("x" * 200, Uuid(bytes((*range(15), 1))), unknown_tags=((3, b"ab"),))
    many = [written(mistakable)] * (2 * FEW)

    assert agree(data_batch(base_offset=0, epoch=1, timestamp_ms=NOON_MS, values=many))


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-4:]))
def test_the_files_of_a_kafka_are_read_alike(path: Path) -> None:
    for place in find([str(path)]):
        for part in parts(place):
            assert outcome(read(part, RowFilter()), []) == outcome(read_arrays(part, RowFilter()), [])


def test_common_records_are_read_by_column() -> None:
    chance = Random(1)
    many = [written(hot(chance)) for _ in range(4 * FEW)]
    content = b"".join(
        data_batch(base_offset=at, epoch=1, timestamp_ms=NOON_MS, values=many[at : at + 8])
        for at in range(0, len(many), 8)
    )

    assert agree(content)


@pytest.mark.parametrize("at_ms", [-(1 << 63), (1 << 63) - 1])
def test_a_timestamp_that_arrow_cannot_hold_ends_no_task(tmp_path: Path, at_ms: int) -> None:
    """The source's timestamps are in µs, and the log's in ms."""
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.source.kraft import KraftReader

    content = batches(history(2))
    content[1] = data_batch(base_offset=2, epoch=1, timestamp_ms=at_ms, values=[encode_record(TopicRecord("a"), 0)])
    segment(node(tmp_path), content)
    reader = KraftReader({"path": str(tmp_path)}, ["offset", "timestamp", "_corrupt"])
    found = [row for each in reader.partitions() for rows in reader.read(each) for row in rows.to_pylist()]

    assert [2] == [row["offset"] for row in found if row["_corrupt"] is not None]
    assert [0, 1, 3] == [row["offset"] for row in found if row["timestamp"] is not None]
