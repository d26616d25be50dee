"""Our bytes are Kafka's: two libraries that were written without us write the same ones, and read ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import ControlRecord
from kafka.record.memory_records import MemoryRecords
from kio.records.readers import read_batch
from kio.records.schema import RecordBatch

from kraft import Message
from kraft.api.create_topics import CreateTopicsRequest
from quorate.records import CONTROL_RECORDS, RECORDS, TRACE_TAG
from quorate.wire.batch import ControlType, control_batch, data_batch, peek_header, records
from quorate.wire.codec import decode, encode
from quorate.wire.schema import Field, Layout, default_of, layout_of
from tests.conformance import judges
from tests.conformance.judges import JUDGES, UNSAID, Judge, Kio, Their, paired
from tests.strategies import all_messages, instance

ALL: Final = [(message, version) for message in all_messages() for version in layout_of(message).versions]
CASES: Final = [
    pytest.param(judge, message, version, id=f"{judge.name}-{message.__name__}-v{version}")
    for judge in JUDGES
    for message, version in ALL
    if judge.knows(message, version) is not None
]

COVERED: Final = {"kio": 323, "kafka-python": 240}
"""Pairs of message and version that kio 0.6.5 and kafka-python 3.0.12 have of our 369. Later releases may have more."""

UNJUDGED: Final = {record.__name__ for record in RECORDS.values()} | {
    "ApiVersionsRequest",  # v5: KIP-1242, newer than both
    "ApiVersionsResponse",
    "RequestHeader",  # written by hand in both
    "ResponseHeader",
    "UnregisterControllerRequest",  # newer than both
    "UnregisterControllerResponse",
}
"""What neither has, in some version. The records of the metadata log are held against Kafka's own bytes elsewhere."""

OTHERWISE: Final = {
    ("kafka-python", "ListOffsetsRequest.replica_id"): "default -1; none in the JSON, so 0. A consumer's convenience.",
    ("kafka-python", "CreatePartitionsRequest.CreatePartitionsTopic.assignments"): "default null; none in the JSON.",
    ("kio", "ProduceResponse.TopicProduceResponse.PartitionProduceResponse.log_append_time_ms"): "null for -1.",
}


@pytest.mark.parametrize(("judge", "message", "version"), CASES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_both_write_the_same_bytes_and_read_them(
    judge: Judge, message: type[Message], version: int, data: st.DataObject
) -> None:
    shape = layout_of(message)
    theirs = judge.knows(message, version)
    ours = judges.fitted(judge, theirs, shape, data.draw(instance(shape, version)), version)

    written = judge.encode(theirs, version, judges.given(judge, theirs, shape, ours, version))
    assert encode(ours, version).hex() == written.hex()
    assert ours == decode(message, written, version)
    assert ours == judges.taken(judge, theirs, shape, judge.decode(theirs, version, written), version)


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_what_is_judged_and_what_is_not(judge: Judge, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what a judge lacks: a pair that is not compared must not look as if it were."""
    lacking: dict[str, list[str]] = {}
    for message, version in ALL:
        if judge.knows(message, version) is None:
            lacking.setdefault(message.__name__, []).append(f"v{version}")
    compared = len(ALL) - sum(map(len, lacking.values()))
    records = {record.__name__ for record in RECORDS.values()}
    others = ", ".join(f"{name} {' '.join(versions)}" for name, versions in lacking.items() if name not in records)
    with capsys.disabled():
        print(f"\n{judge.name}: {compared} of {len(ALL)} compared. It lacks the metadata log's records, and {others}")

    assert compared >= COVERED[judge.name]


def test_only_the_records_of_the_metadata_log_are_unjudged() -> None:
    lacked_by_all = {
        message.__name__ for message, version in ALL if not any(judge.knows(message, version) for judge in JUDGES)
    }

    assert lacked_by_all <= UNJUDGED


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_both_say_the_same_of_defaults_and_nulls(judge: Judge) -> None:
    """Bytes cannot show a default: a field that is set is written whatever its default is."""
    differing = {
        path
        for message, version in ALL
        if (theirs := judge.knows(message, version)) is not None
        for path, ours, their in _fields(judge, theirs, layout_of(message), version)
        if _differ(judge, ours, their, version)
    }

    assert {path for name, path in OTHERWISE if name == judge.name} == differing


def test_kafka_python_skips_a_tag_that_it_does_not_know_and_kio_does_not() -> None:
    """KIP-482 wants them skipped. A trace travels in such a tag, but only where Kafka's own Java reads it."""
    request = CreateTopicsRequest(timeout_ms=3)
    tagged = encode(CreateTopicsRequest(timeout_ms=3, unknown_tags=((TRACE_TAG, b"00-trace-01"),)), 7)
    shape = layout_of(CreateTopicsRequest)
    kio, kafka_python = ((judge, judge.knows(CreateTopicsRequest, 7)) for judge in JUDGES)

    assert request == judges.taken(*kafka_python, shape, kafka_python[0].decode(kafka_python[1], 7, tagged), 7)
    with pytest.raises(KeyError, match=f"Unknown tagged field tag: {TRACE_TAG}"):
        kio[0].decode(kio[1], 7, tagged)


# -- batches -------------------------------------------------------------------------------------------

offsets = st.integers(0, 1 << 62)
epochs = st.integers(0, (1 << 31) - 1)
timestamps = st.integers(0, 4_000_000_000).map(lambda seconds: seconds * 1000)
"""In ms since 1970; kio's records know whole seconds only."""
kinds_of_control = st.lists(st.sampled_from(sorted(CONTROL_RECORDS)), min_size=1, max_size=4)


@given(offsets, epochs, timestamps, st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=150))
@settings(max_examples=100, deadline=None)
def test_both_read_our_data_batches(offset: int, epoch: int, timestamp: int, values: list[bytes]) -> None:
    batch = data_batch(base_offset=offset, epoch=epoch, timestamp_ms=timestamp, values=values)
    expected = [(offset + index, timestamp, None, value) for index, value in enumerate(values)]

    assert expected == _read_by_kio(batch, epoch)
    assert expected == _read_by_kafka_python(batch, epoch)
    assert expected == [tuple(record)[:4] for record in records(batch, 0, peek_header(batch))]


@given(
    offsets, epochs, timestamps, st.lists(st.sampled_from(sorted(CONTROL_RECORDS)), min_size=1, max_size=4), st.data()
)
@settings(max_examples=60, deadline=None)
def test_both_read_our_control_batches(
    offset: int, epoch: int, timestamp: int, kinds: list[int], data: st.DataObject
) -> None:
    kio = Kio()
    drawn = []
    for kind in kinds:
        message = CONTROL_RECORDS[kind]
        shape, version = layout_of(message), layout_of(message).versions[-1]
        theirs = kio.knows(message, version)
        record = judges.fitted(kio, theirs, shape, data.draw(instance(shape, version)), version)
        drawn.append((kind, version, record))
    batch = control_batch(
        base_offset=offset,
        epoch=epoch,
        timestamp_ms=timestamp,
        records=[(ControlType(kind), encode(record, version)) for kind, version, record in drawn],
    )

    assert _read_by_kio(batch, epoch) == _read_by_kafka_python(batch, epoch)
    (read,) = MemoryRecords(batch)
    assert read.is_control_batch
    for (kind, version, record), found in zip(drawn, read, strict=True):
        assert isinstance(found, ControlRecord)
        assert (0, kind) == (found.version, found.type)
        theirs = kio.knows(type(record), version)
        in_kio = kio.decode(theirs, version, found.value)
        assert record == judges.taken(kio, theirs, layout_of(type(record)), in_kio, version)


def test_both_refuse_a_batch_that_was_damaged() -> None:
    batch = bytearray(data_batch(base_offset=7, epoch=1, timestamp_ms=0, values=[b"value"]))
    batch[-3] ^= 1

    with pytest.raises(ValueError, match="Checksum mismatch"):
        read_batch(bytes(batch), 0)
    (read,) = MemoryRecords(bytes(batch))
    assert not read.validate_crc()


def _read_by_kio(batch: bytes, epoch: int) -> list[tuple[Any, ...]]:
    found, size = read_batch(batch, 0)
    assert isinstance(found, RecordBatch)
    assert (size, epoch) == (len(batch), found.partition_leader_epoch)
    return [
        (record.offset, round(record.timestamp.timestamp() * 1000), record.key, record.value)
        for record in found.records
    ]


def _read_by_kafka_python(batch: bytes, epoch: int) -> list[tuple[Any, ...]]:
    (found,) = MemoryRecords(batch)
    assert found.validate_crc()
    assert (len(batch), epoch) == (found.size_in_bytes, found.leader_epoch)
    return [(record.offset, record.timestamp, record.key, record.value) for record in found]


def _fields(judge: Judge, theirs: Any, shape: Layout, version: int) -> Iterator[tuple[str, Field, Their]]:
    for ours, their in paired(judge, theirs, shape, version):
        yield f"{shape.name}.{ours.name}", ours, their
        if ours.struct is not None:
            yield from _fields(judge, their.struct, ours.struct, version)


def _differ(judge: Judge, ours: Field, their: Their, version: int) -> bool:
    # An id of all zeros is null in both of them, so what they say of ids and null means nothing.
    if their.kind != "uuid" and ours.nullable_in(version) != their.nullable:
        return True
    if their.default is UNSAID:
        return False
    if ours.array:
        return bool(ours.default != (None if their.default is None else tuple(their.default)))
    if ours.struct is None:
        return bool(ours.default != judge.take(their, their.default))
    expected = default_of(ours)
    found = their.default and judges.taken(judge, their.struct, ours.struct, their.default, version)
    return expected != found
