"""AssignReplicasToDirs (73): records in which log directory each of a broker's replicas is. KIP-858."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kraft import Uuid
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.partitions.broker_changes import is_online, rules_for
from quorate.controller.partitions.elections import Election
from quorate.controller.partitions.partition_change import PartitionTarget, partition_change
from quorate.controller.registrations import registered
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import merged
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.metadata.versions import DIRECTORIES, release_of
from quorate.records import PartitionChangeRecord

__all__ = ["assign_replicas_to_dirs"]

_Asked: TypeAlias = AssignReplicasToDirsRequest.DirectoryData
_Directory: TypeAlias = AssignReplicasToDirsResponse.DirectoryData
_Topic: TypeAlias = _Directory.TopicData
_Partition: TypeAlias = _Directory.TopicData.PartitionData


def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, *, settings: ControllerSettings
) -> Command[AssignReplicasToDirsResponse]:
    """Returns the command that records the directories; a replica in an offline directory leaves ISR and leadership.

    Each partition succeeds or fails by itself. The command raises ApiError: UNSUPPORTED_VERSION below metadata.version
    3.7-IV2, STALE_BROKER_EPOCH.
    """

    def command(state: ClusterState, _: Moment) -> Decision[AssignReplicasToDirsResponse]:
        level = state.features.record_level
        if level < DIRECTORIES:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"directories are assigned from metadata.version {release_of(DIRECTORIES)} on; "
                f"this cluster is at {release_of(level)}",
            )
        broker = registered(state, request.broker_id, request.broker_epoch)
        directories = tuple(_result(state, directory, broker) for directory in request.directories)
        records = tuple(_records(state, request, broker, settings))
        results = (each for directory in directories for topic in directory.topics for each in topic.partitions)
        granted = sum(not each.error_code for each in results)
        assert len(records) <= 2 * granted, (
            f"a refused one changes: {broker.id}, {granted} of them, {len(records)} records"
        )
        return Decision(AssignReplicasToDirsResponse(directories=directories), records, atomic=False)

    return command


def _result(state: ClusterState, directory: _Asked, broker: Broker) -> _Directory:
    topics = tuple(
        _Topic(
            asked.topic_id,
            tuple(
                _Partition(each.partition_index, int(_error(state, asked.topic_id, each.partition_index, broker)))
                for each in asked.partitions
            ),
        )
        for asked in directory.topics
    )
    return _Directory(directory.id, topics)


def _error(state: ClusterState, topic_id: Uuid, partition_id: int, broker: Broker) -> ErrorCode:
    topic = state.topics.by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(partition_id)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker.id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _records(
    state: ClusterState, request: AssignReplicasToDirsRequest, broker: Broker, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    """Yields all directory changes, then the ISR changes for offline directories, one a partition: in Kafka's order."""
    offline: dict[tuple[Uuid, int], TopicPartition] = {}
    for directory, found in _replicas(state, request, broker):
        lies = _change(state, found, PartitionTarget(directories={broker.id: directory}), settings)
        if lies is not None:
            yield lies
        if not is_online(directory, broker):
            partition = found.partition if lies is None else merged(found.partition, lies)
            offline.setdefault((found.topic.id, found.partition_id), found._replace(partition=partition))
    for found in offline.values():
        wish = PartitionTarget(
            isr=tuple(replica for replica in found.partition.isr if replica != broker.id),
            election=Election.UNCLEAN if settings.elects_uncleanly(state, found.topic.name) else Election.ONLINE,
        )
        leaves = _change(state, found, wish, settings)
        after = found.partition if leaves is None else merged(found.partition, leaves)
        assert after.leader != broker.id, (broker.id, found)
        if leaves is not None:
            yield leaves


def _replicas(
    state: ClusterState, request: AssignReplicasToDirsRequest, broker: Broker
) -> Iterator[tuple[Uuid, TopicPartition]]:
    """Yields each requested directory with those of its partitions that have the broker as a replica."""
    for directory in request.directories:
        for asked in directory.topics:
            topic = state.topics.by_id(asked.topic_id)
            for each in asked.partitions:
                partition = None if topic is None else topic.partitions.get(each.partition_index)
                if topic is not None and partition is not None and broker.id in partition.replicas:
                    yield directory.id, TopicPartition(topic, each.partition_index, partition)


def _change(
    state: ClusterState, found: TopicPartition, wish: PartitionTarget, settings: ControllerSettings
) -> PartitionChangeRecord | None:
    rules = rules_for(state, found.topic.name, found.partition, settings)
    return partition_change(found.partition, found.topic.id, found.partition_id, wish, rules)
