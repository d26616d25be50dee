"""AssignReplicasToDirs (73): a broker says in which directory each replica lies. KIP-858."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kraft import Uuid
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from quorate.controller.broker_changes import is_online, rules_for
from quorate.controller.decision import Command, Decision, Moment
from quorate.controller.elections import Election
from quorate.controller.partition_change import Wish, partition_change
from quorate.controller.registrations import registered
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import Partition, merged
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.metadata.versions import DIRECTORIES, release_of
from quorate.records import PartitionChangeRecord

__all__ = ["assign_replicas_to_dirs"]

_Directory: TypeAlias = AssignReplicasToDirsResponse.DirectoryData
_Topic: TypeAlias = _Directory.TopicData
_Partition: TypeAlias = _Directory.TopicData.PartitionData


def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, *, settings: Settings
) -> Command[AssignReplicasToDirsResponse]:
    """The command that notes the directories; a replica in one that is offline leaves its ISR and leads no more.

    Raises ApiError: UNSUPPORTED_VERSION below metadata.version 3.7-IV2, STALE_BROKER_EPOCH.
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
        records: list[PartitionChangeRecord] = []
        directories = []
        for directory in request.directories:
            topics = []
            for asked in directory.topics:
                topic = state.topics.by_id(asked.topic_id)
                told = []
                for each in asked.partitions:
                    error = _error(topic, each.partition_index, broker)
                    if topic is not None and error is ErrorCode.NONE:
                        records += _assign(state, topic, each.partition_index, broker, directory.id, settings)
                    told.append(_Partition(each.partition_index, int(error)))
                topics.append(_Topic(asked.topic_id, tuple(told)))
            directories.append(_Directory(directory.id, tuple(topics)))
        return Decision(AssignReplicasToDirsResponse(directories=tuple(directories)), tuple(records), atomic=False)

    return command


def _error(topic: Topic | None, partition_id: int, broker: Broker) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(partition_id)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker.id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _assign(
    state: ClusterState, topic: Topic, partition_id: int, broker: Broker, directory: Uuid, settings: Settings
) -> Iterator[PartitionChangeRecord]:
    partition: Partition = topic.partitions[partition_id]
    wishes = [Wish(directories={broker.id: directory})]
    if not is_online(directory, broker):
        wishes.append(
            Wish(
                isr=tuple(replica for replica in partition.isr if replica != broker.id),
                election=Election.UNCLEAN if settings.elects_uncleanly(state, topic.name) else Election.ONLINE,
            )
        )
    for wish in wishes:
        rules = rules_for(state, topic.name, partition, settings)
        change = partition_change(partition, topic.id, partition_id, wish, rules)
        if change is not None:
            partition = merged(partition, change)
            yield change
