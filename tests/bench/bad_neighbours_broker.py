"""What a bad caller does to a broker of ours: the largest request of each API that it answers, and all of the others'.

By Kafka's wire (`AT_WIRE`), at the listener for logins (`AT_LOGINS`), and by gRPC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kraft.api.delete_records import DeleteRecordsRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.fetch import FetchRequest
from kraft.api.list_offsets import ListOffsetsRequest
from kraft.api.metadata import MetadataRequest
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kraft.api.produce import ProduceRequest
from quorate.nouns import ZERO_UUID
from tests.bench.bad_neighbours import BAD, USER, WIRE, Kind, asking, frame
from tests.bench.bad_neighbours_grpc import ANSWERED, every_method
from tests.bench.bad_neighbours_logins import kinds as login_kinds

AT_WIRE, AT_LOGINS, AT_GRPC = "broker's wire", "broker's logins", "broker"
TOPICS: Final = 49_000
"""Each with a partition: two items of the 100,000 that a request may have."""
NAMED: Final = 10_000
"""As many as are described at once."""
NAMES: Final = tuple(f"bad-{number}" for number in range(TOPICS))
SILENT: Final = (
    "8,000 pipelined requests",
    "answers that are not read",
    "connection storm",
    "slow handshakes",
    "connections that say nothing",
    "announced giants",
    "requests, and then gone",
)
"""Those of `WIRE` that are not about an API of controllers."""


def _produce() -> bytes:
    topic = ProduceRequest.TopicProduceData
    part = (topic.PartitionProduceData(0, b""),)
    return frame(ProduceRequest(None, 1, 1_000, tuple(topic(name, partition_data=part) for name in NAMES)), version=12)


def _fetch(epoch: int) -> bytes:
    topic = FetchRequest.FetchTopic
    part = (topic.FetchPartition(partition=0, partition_max_bytes=1),)
    topics = tuple(topic(topic=name, topic_id=ZERO_UUID, partitions=part) for name in NAMES)
    return frame(FetchRequest(max_wait_ms=500, session_epoch=epoch, topics=topics), version=12)


def _offsets() -> bytes:
    topic = ListOffsetsRequest.ListOffsetsTopic
    part = (topic.ListOffsetsPartition(0, -1, 0),)
    return frame(ListOffsetsRequest(topics=tuple(topic(name, part) for name in NAMES)))


def _epochs() -> bytes:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = (topic.OffsetForLeaderPartition(0, -1, 0),)
    return frame(OffsetForLeaderEpochRequest(-1, tuple(topic(name, part) for name in NAMES)))


def _metadata() -> bytes:
    topic = MetadataRequest.MetadataRequestTopic
    return frame(MetadataRequest(topics=tuple(topic(name=name) for name in NAMES)))


def _deletions() -> bytes:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    part = (topic.DeleteRecordsPartition(0, 0),)
    return frame(DeleteRecordsRequest(tuple(topic(name, part) for name in NAMES), 1_000))


def _described() -> bytes:
    topic = DescribeTopicPartitionsRequest.TopicRequest
    return frame(DescribeTopicPartitionsRequest(topics=tuple(map(topic, NAMES[:NAMED]))))


LARGEST: Final = {
    "a Produce of 49,000 topics": _produce,
    "a Fetch of 49,000 topics": lambda: _fetch(-1),
    "a fetch session of 49,000 topics": lambda: _fetch(0),
    "offsets of 49,000 topics": _offsets,
    "epochs of 49,000 topics": _epochs,
    "metadata of 49,000 topics": _metadata,
    "a DeleteRecords of 49,000 topics": _deletions,
    "10,000 topics to describe": _described,
}


def kinds() -> Mapping[str, Kind]:
    """All of them, from who has no right but where it says otherwise."""
    found = {name: replace(asking(make), at=AT_WIRE, at_once=4) for name, make in LARGEST.items()}
    found |= {name: replace(WIRE[name], at=AT_WIRE) for name in SILENT}
    found |= {name: replace(kind, at=AT_LOGINS) for name, kind in login_kinds().items() if kind.at == "logins"}
    found["methods by gRPC, from who has no right"] = every_method(AT_GRPC, BAD, ends=(ANSWERED,))
    found["methods by gRPC, from a user"] = every_method(AT_GRPC, USER, ends=(ANSWERED,))
    return {f"at a broker of ours: {name}": kind for name, kind in found.items()}
