"""ListPartitionReassignments (46): which partitions are being moved, and where to. KIP-455."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kraft.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from quorate.controller.decision import Command, Decision, Moment
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Found

__all__ = ["list_partition_reassignments"]

_Topic: TypeAlias = ListPartitionReassignmentsResponse.OngoingTopicReassignment
_Partition: TypeAlias = _Topic.OngoingPartitionReassignment


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest,
) -> Command[ListPartitionReassignmentsResponse]:
    """The command that lists the moves of the partitions of `request`, or all where it names none. A read."""

    def command(state: ClusterState, _: Moment) -> Decision[ListPartitionReassignmentsResponse]:
        found = state.topics.reassigning()
        if request.topics is not None:
            wanted = {(topic.name, partition) for topic in request.topics for partition in topic.partition_indexes}
            found = (each for each in found if (each.topic.name, each.partition_id) in wanted)
        return Decision(ListPartitionReassignmentsResponse(error_message=None, topics=_by_topic(found)))

    return command


def _by_topic(found: Iterable[Found]) -> tuple[_Topic, ...]:
    topics: dict[str, dict[int, _Partition]] = {}
    for topic, partition_id, partition in found:
        topics.setdefault(topic.name, {})[partition_id] = _Partition(
            partition_index=partition_id,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
        )
    return tuple(
        _Topic(name, tuple(partitions[index] for index in sorted(partitions)))
        for name, partitions in sorted(topics.items())
    )
