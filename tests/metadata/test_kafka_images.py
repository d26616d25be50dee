"""A Kafka release judges: what it made of each log is what we make of it (`kafka_images/make.py`)."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from kraft import Message
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import RELEASES
from quorate.records import (
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    decode_record,
    encode_record,
    frame_of,
)

CASES = [
    tuple([bytes.fromhex(value) for value in side.split()] for side in line.split("\t"))
    for line in (Path(__file__).parent / "kafka_images" / "images.txt").read_text().splitlines()
]


def in_our_order(value: bytes) -> bytes:
    """Kafka writes end points and features in the order of a hash table; we sort them by name."""
    record = decode_record(value)
    if isinstance(record, RegisterBrokerRecord | RegisterControllerRecord):
        record = msgspec.structs.replace(
            record,
            end_points=tuple(sorted(record.end_points, key=lambda end_point: end_point.name)),
            features=tuple(sorted(record.features, key=lambda feature: feature.name)),
        )
    return encode_record(record, frame_of(value)[1])


def state_of(log: list[bytes]) -> ClusterState:
    state = ClusterState()
    for offset, value in enumerate(log):
        state.apply(decode_record(value), offset)
    return state


def kinds(records: list[Message]) -> list[type[Message]]:
    """The order of the tables; a topic and its partitions are one."""
    return [
        kind for kind, _ in groupby(type(r) if not isinstance(r, PartitionRecord) else TopicRecord for r in records)
    ]


def test_a_case_begins_at_each_level() -> None:
    assert set(RELEASES) == {state_of(log[:1]).features.metadata_version for log, _ in CASES}


@pytest.mark.parametrize(("log", "image"), CASES)
def test_writes_the_checkpoint_that_kafka_writes(log: list[bytes], image: list[bytes]) -> None:
    ours = [encode_record(record, version) for record, version in state_of(log).records()]

    assert Counter(map(in_our_order, image)) == Counter(ours)
    assert kinds(list(map(decode_record, image))) == kinds(list(map(decode_record, ours)))


@pytest.mark.parametrize(("log", "image"), CASES)
def test_kafkas_checkpoint_loads_to_the_state_of_ours(log: list[bytes], image: list[bytes]) -> None:
    ours, theirs = ClusterState(), ClusterState()
    ours.load((decode_record(encode_record(*pair)) for pair in state_of(log).records()), len(log))
    theirs.load(map(decode_record, image), len(log))

    assert canonical(ours) == canonical(theirs)
