"""Clusters as large as one likes: 100 brokers in 5 racks, RF 3, in records that a controller could have written.

`python -m tests.bench.synthetic` makes their logs with all that happens in a cluster's life (`synthetic_clusters`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from kraft import Message, Uuid
from quorate.metadata.versions import LATEST, METADATA_VERSION, record_version
from quorate.nouns import NodeId
from quorate.placement import PlacementSpec, Racks, UsableBroker, place
from quorate.records import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)

REPLICATION_FACTOR: Final = 3
SEED: Final = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a cluster is. All topics have as many partitions, but for the last one."""

    partitions: int
    partitions_per_topic: int = 100
    brokers: int = 100
    racks: int = 5
    level: int = LATEST
    """metadata.version"""

    def __str__(self) -> str:
        topics = -(-self.partitions // self.partitions_per_topic)
        return f"{self.partitions:,} partitions in {topics:,} topics on {self.brokers} brokers"


def cluster(shape: Shape) -> Iterator[Message]:
    """The records that make such a cluster: the level, the brokers, then topic after topic with its partitions."""
    yield FeatureLevelRecord(METADATA_VERSION, shape.level)
    yield from (_broker(node_id, shape) for node_id in range(shape.brokers))
    yield from topics(shape)


def topics(shape: Shape) -> Iterator[Message]:
    """The topics and their partitions, placed as the placer does it: few partitions have equal replicas."""
    usable = [UsableBroker(id=node_id, rack=_rack(node_id, shape), fenced=False) for node_id in range(shape.brokers)]
    racks, chance = Racks.of(usable), Random(SEED)
    directories = [directory(node_id) for node_id in range(shape.brokers)]
    for first in range(0, shape.partitions, shape.partitions_per_topic):
        count = min(shape.partitions_per_topic, shape.partitions - first)
        name = topic_name(first // shape.partitions_per_topic)
        topic_id = uuid(name)
        yield TopicRecord(name, topic_id)
        placed = place(PlacementSpec(partition_count=count, replication_factor=REPLICATION_FACTOR), racks, chance)
        for partition_id, replicas in enumerate(placed):
            yield PartitionRecord(
                partition_id,
                topic_id,
                replicas,
                replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(directories[node_id] for node_id in replicas),
            )


def values(shape: Shape) -> Iterator[bytes]:
    """The same as `cluster`, as values of the log."""
    return (encode_record(record, record_version(record, shape.level)) for record in cluster(shape))


def directory(node_id: NodeId) -> Uuid:
    """The only log directory of a broker."""
    return uuid(f"directory of {node_id}")


def topic_name(number: int) -> str:
    """That of a topic, by its place."""
    return f"topic-{number:06}"


def broker_epoch(node_id: NodeId) -> int:
    """That of the only registration of a broker."""
    return node_id + 1


def uuid(name: str) -> Uuid:
    """An id that is the same in every run."""
    return Uuid(hashlib.md5(name.encode(), usedforsecurity=False).digest())


def _broker(node_id: NodeId, shape: Shape) -> RegisterBrokerRecord:
    listener = RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host=f"broker-{node_id}", port=9092)
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=uuid(f"incarnation of {node_id}"),
        broker_epoch=broker_epoch(node_id),
        end_points=(listener,),
        rack=_rack(node_id, shape),
        fenced=False,
        log_dirs=(directory(node_id),),
    )


def _rack(node_id: NodeId, shape: Shape) -> str:
    return f"rack-{node_id % shape.racks}"


if __name__ == "__main__":
    from tests.bench.synthetic_clusters import main

    raise SystemExit(main(sys.argv[1:]))
