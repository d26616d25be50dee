"""Metrics of the cluster's state on any replica: brokers, topics, partitions, and the lag of the replica.

The cost does not grow with the number of partitions: the state maintains these counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from quorate.controller.configs.settings import ControllerSettings
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.runtime.telemetry.metric_rows import Row, declare, one
from quorate.runtime.telemetry.metrics import Value

__all__ = ["ROWS", "Applied", "watch"]

CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
BROKER: Final = "kafka.server:type=broker-metadata-metrics,name="


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Where the metrics of the cluster's state are read: functions that return a replica's present state and offsets.

    `applied` and `committed` are the ends (exclusive) of the applied and of the committed records; `applied_at_ms` is
    when the last applied one was appended, in ms since 1970, below 0 before any.
    """

    state: Callable[[], ClusterState]
    applied: Callable[[], Offset]
    committed: Callable[[], Offset]
    applied_at_ms: Callable[[], int]
    now_ms: Callable[[], int]
    """The wall clock, in ms since 1970."""
    is_active: Callable[[], bool] = lambda: False
    """Whether the state is the active controller's, which never lags."""
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    """The static configuration, for min.insync.replicas that neither topic nor cluster sets. An observer has none."""


def _lag_ms(replica: Applied) -> float | None:
    """Returns the lag in ms; 0 on the active controller, as in QuorumControllerMetrics; None before any record."""
    if replica.is_active():
        return 0
    return None if replica.applied_at_ms() < 0 else max(0, replica.now_ms() - replica.applied_at_ms())


def _under_min_isr(replica: Applied) -> float:
    state = replica.state()
    return state.topics.under_min_isr_count(lambda name: replica.settings.min_insync_replicas(state, name))


def _brokers(replica: Applied) -> Iterable[Value]:
    """Yields broker counts by state. As in Kafka, a broker in controlled shutdown is active until it is fenced."""
    fenced = sum(broker.fenced for broker in replica.state().brokers)
    yield len(replica.state().brokers) - fenced, {"kraft.broker.state": "active"}
    yield fenced, {"kraft.broker.state": "fenced"}
    leaving = sum(broker.in_controlled_shutdown for broker in replica.state().brokers)
    yield leaving, {"kraft.broker.state": "controlled_shutdown"}


ROWS: Final = (
    Row[Applied](
        name="kraft.metadata.applied_offset",
        kind="gauge",
        unit="{record}",
        help="The offset of the last record that is applied; -1 for none.",
        kafka=(CONTROLLER + "LastAppliedRecordOffset", BROKER + "last-applied-record-offset"),
        read=one(lambda replica: replica.applied() - 1),
    ),
    Row[Applied](
        name="kraft.metadata.committed_offset",
        kind="gauge",
        unit="{record}",
        help="The offset of the last record that is known to be committed; -1 for none.",
        kafka=(CONTROLLER + "LastCommittedRecordOffset",),
        read=one(lambda replica: replica.committed() - 1),
    ),
    Row[Applied](
        name="kraft.metadata.applied_at",
        kind="gauge",
        unit="ms",
        help="When the last applied record was appended, in ms since 1970; -1 for none.",
        kafka=(CONTROLLER + "LastAppliedRecordTimestamp", BROKER + "last-applied-record-timestamp"),
        read=one(lambda replica: replica.applied_at_ms()),
    ),
    Row[Applied](
        name="kraft.metadata.lag",
        kind="gauge",
        unit="ms",
        help="How long ago that was; 0 on the active controller.",
        kafka=(CONTROLLER + "LastAppliedRecordLagMs", BROKER + "last-applied-record-lag-ms"),
        read=one(_lag_ms),
    ),
    Row[Applied](
        name="kraft.brokers",
        kind="gauge",
        unit="{broker}",
        help="Registered brokers: active, fenced, and those of either that are in controlled shutdown.",
        kafka=(
            CONTROLLER + "ActiveBrokerCount",
            CONTROLLER + "FencedBrokerCount",
            CONTROLLER + "ControlledShutdownBrokerCount",
        ),
        read=_brokers,
    ),
    Row[Applied](
        name="kraft.topics",
        kind="gauge",
        unit="{topic}",
        help="Topics.",
        kafka=(CONTROLLER + "GlobalTopicCount",),
        read=one(lambda replica: len(replica.state().topics)),
    ),
    Row[Applied](
        name="kraft.partitions",
        kind="gauge",
        unit="{partition}",
        help="Partitions of all topics.",
        kafka=(CONTROLLER + "GlobalPartitionCount",),
        read=one(lambda replica: replica.state().topics.partition_count),
    ),
    Row[Applied](
        name="kraft.partitions.offline",
        kind="gauge",
        unit="{partition}",
        help="Partitions that nobody leads.",
        kafka=(CONTROLLER + "OfflinePartitionsCount",),
        read=one(lambda replica: replica.state().topics.leader_count(NO_LEADER)),
    ),
    Row[Applied](
        name="kraft.partitions.under_replicated",
        kind="gauge",
        unit="{partition}",
        help="Led partitions that lack replicas in the ISR, of the whole cluster; of what each broker leads in Kafka.",
        kafka=(REPLICAS + "UnderReplicatedPartitions",),
        read=one(lambda replica: replica.state().topics.under_replicated_count),
    ),
    Row[Applied](
        name="kraft.partitions.under_min_isr",
        kind="gauge",
        unit="{partition}",
        help="Led partitions with an ISR below min.insync.replicas, of the whole cluster, likewise.",
        kafka=(REPLICAS + "UnderMinIsrPartitionCount",),
        read=one(_under_min_isr),
    ),
    Row[Applied](
        name="kraft.partitions.imbalanced",
        kind="gauge",
        unit="{partition}",
        help="Partitions that are not led by their first replica.",
        kafka=(CONTROLLER + "PreferredReplicaImbalanceCount",),
        read=one(lambda replica: replica.state().topics.imbalanced_count),
    ),
)
"""All metrics of the cluster's state; controllers and observers export the same."""

watch = declare(ROWS)
"""Sets the replica from which the metrics are read."""
