"""The metrics of a broker, each with its Kafka name (R68); METRICS.md has them, and the alerts on them (R69).

Counts of partitions are those that this broker leads, as in Kafka. They are found at each export: a pass over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.metadata.partitions import Partition as PartitionState
from quorate.metadata.state import ClusterState
from quorate.replication import Following, Leading, Phase, committed_of
from quorate.runtime.telemetry.metric_rows import Row, declare, one
from services.broker.replicas import Replicas

__all__ = ["ABSENT", "ROWS", "Watched", "short", "watch"]

REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
FETCHERS: Final = "kafka.server:type=ReplicaFetcherManager,name="


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The source of the metrics: the broker's partitions, and the state that it has applied."""

    replicas: Replicas
    state: Callable[[], ClusterState]

    def led(self) -> Iterator[tuple[Leading, PartitionState]]:
        """Yields the partitions that this broker leads, each with its state in the metadata log."""
        topics = self.state().topics
        for hosted in self.replicas.table:
            topic = topics.by_id(hosted.key.topic_id)
            partition = None if topic is None else topic.partitions.get(hosted.key.partition_id)
            if (role := hosted.leading) is not None and partition is not None:
                yield role, partition

    def count(self, holds: Callable[[Leading, PartitionState], bool]) -> int:
        """Returns how many of the partitions that this broker leads satisfy `holds`."""
        return sum(holds(*each) for each in self.led())

    def followed(self) -> Iterator[Following]:
        """Yields the follower's role of each partition that follows a leader here."""
        return (role for hosted in self.replicas.table if (role := hosted.following) is not None)


def is_under_replicated(role: Leading, partition: PartitionState) -> bool:
    """Returns whether a partition's ISR lacks replicas, not counting those that a reassignment adds, as in Kafka."""
    settled = len(partition.replicas) - len(partition.adding_replicas)
    return len(committed_of(role.state).isr) < settled


ROWS: Final = (
    Row[Watched](
        name="kraft.broker.partitions",
        kind="gauge",
        unit="{partition}",
        help="Partitions that this broker has a replica of.",
        kafka=(REPLICAS + "PartitionCount",),
        read=one(lambda watched: len(watched.replicas.table)),
    ),
    Row[Watched](
        name="kraft.broker.partitions.led",
        kind="gauge",
        unit="{partition}",
        help="Partitions that this broker leads.",
        kafka=(REPLICAS + "LeaderCount",),
        read=one(lambda watched: sum(hosted.leading is not None for hosted in watched.replicas.table)),
    ),
    Row[Watched](
        name="kraft.broker.partitions.under_replicated",
        kind="gauge",
        unit="{partition}",
        help="Led partitions whose ISR lacks replicas, without those that a reassignment adds.",
        kafka=(REPLICAS + "UnderReplicatedPartitions",),
        read=one(lambda watched: watched.count(is_under_replicated)),
    ),
    Row[Watched](
        name="kraft.broker.partitions.under_min_isr",
        kind="gauge",
        unit="{partition}",
        help="Led partitions whose ISR is smaller than min.insync.replicas: acks=all is refused.",
        kafka=(REPLICAS + "UnderMinIsrPartitionCount",),
        read=one(lambda watched: watched.count(lambda role, _: role.is_under_min_isr)),
    ),
    Row[Watched](
        name="kraft.broker.partitions.at_min_isr",
        kind="gauge",
        unit="{partition}",
        help="Led partitions that refuse acks=all once one more replica leaves the ISR.",
        kafka=(REPLICAS + "AtMinIsrPartitionCount",),
        read=one(lambda watched: watched.count(lambda role, _: len(committed_of(role.state).isr) == role.min_isr)),
    ),
    Row[Watched](
        name="kraft.broker.partitions.reassigning",
        kind="gauge",
        unit="{partition}",
        help="Led partitions whose replicas are being changed.",
        kafka=(REPLICAS + "ReassigningPartitions",),
        read=one(lambda watched: watched.count(lambda _, partition: partition.is_reassigning)),
    ),
    Row[Watched](
        name="kraft.broker.isr.expands",
        kind="counter",
        unit="{partition}",
        help="ISRs that a replica has joined, as the controller has confirmed to this leader.",
        kafka=(REPLICAS + "IsrExpandsPerSec",),
        read=one(lambda watched: watched.replicas.isr_counts.expands),
    ),
    Row[Watched](
        name="kraft.broker.isr.shrinks",
        kind="counter",
        unit="{partition}",
        help="ISRs that a replica has left, likewise; not those that the controller shrank by itself.",
        kafka=(REPLICAS + "IsrShrinksPerSec",),
        read=one(lambda watched: watched.replicas.isr_counts.shrinks),
    ),
    Row[Watched](
        name="kraft.broker.isr.failed_updates",
        kind="counter",
        unit="{partition}",
        help="Changes of an ISR that the controller has refused.",
        kafka=(REPLICAS + "FailedIsrUpdatesPerSec",),
        read=one(lambda watched: watched.replicas.isr_counts.failed_updates),
    ),
    Row[Watched](
        name="kraft.broker.replica.lag",
        kind="gauge",
        unit="{record}",
        help="The most records that a replica here is behind its leader's high watermark, by its last fetch.",
        kafka=(FETCHERS + "MaxLag",),
        read=one(lambda watched: max((role.lag for role in watched.followed()), default=0)),
    ),
    Row[Watched](
        name="kraft.broker.replica.failed",
        kind="gauge",
        unit="{partition}",
        help="Replicas here that fetch no more until another leader epoch, as what the leader sent does not fit.",
        kafka=(FETCHERS + "FailedPartitionsCount",),
        read=one(lambda watched: sum(role.phase is Phase.FAILED for role in watched.followed())),
    ),
    Row[Watched](
        name="kraft.broker.produced.records",
        kind="counter",
        unit="{record}",
        help="Records that producers have appended here.",
        kafka=(TOPICS + "MessagesInPerSec",),
        read=one(lambda watched: watched.replicas.traffic.records_produced),
    ),
    Row[Watched](
        name="kraft.broker.produced.bytes",
        kind="counter",
        unit="By",
        help="Their batches, as they came.",
        kafka=(TOPICS + "BytesInPerSec",),
        read=one(lambda watched: watched.replicas.traffic.bytes_produced),
    ),
    Row[Watched](
        name="kraft.broker.fetched.bytes",
        kind="counter",
        unit="By",
        help="Batches that were sent to consumers.",
        kafka=(TOPICS + "BytesOutPerSec",),
        read=one(lambda watched: watched.replicas.traffic.bytes_consumed),
    ),
    Row[Watched](
        name="kraft.broker.replicated.bytes",
        kind="counter",
        unit="By",
        help="Batches that were fetched from leaders (in), and sent to followers (out).",
        kafka=(TOPICS + "ReplicationBytesInPerSec", TOPICS + "ReplicationBytesOutPerSec"),
        read=lambda watched: (
            (watched.replicas.traffic.bytes_replicated_in, {"kraft.direction": "in"}),
            (watched.replicas.traffic.bytes_replicated_out, {"kraft.direction": "out"}),
        ),
    ),
)
"""All metrics of a broker. Metrics are declared only in this module."""

ABSENT: Final = {
    "OfflineLogDirectoryCount": "A log directory that fails ends the process.",
    "OfflineReplicaCount": "Likewise.",
    "CordonedLogDirectoryCount": "No log directory is closed to new replicas here.",
    "PartitionsWithLateTransactionsCount": "`kafka-transactions find-hanging` looks for them.",
    "ProducerIdCount": "DescribeProducers tells them by partition.",
    "DeadThreadCount": "A fetcher is a task, whose failure ends the process.",
    "MinFetchRate": "A follower that does not get on is seen by kraft.broker.replica.lag.",
}
"""Kafka's metrics of replicas, fetchers and log directories that this service does not have, each with the reason."""

watch = declare(ROWS)
"""Binds the metrics to a broker, whose values are read at each export."""


def short(name: str) -> str:
    """Returns a Kafka name as METRICS.md has it: without the prefix of a ReplicaManager."""
    return name.removeprefix(REPLICAS)
