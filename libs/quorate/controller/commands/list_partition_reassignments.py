"""ListPartitionReassignments (46): lists the partitions that are being reassigned. KIP-455."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from kraft.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.metadata.state import ClusterState

__all__ = ["list_partition_reassignments"]

_Topic: TypeAlias = ListPartitionReassignmentsResponse.OngoingTopicReassignment
_Asked: TypeAlias = tuple[str, Sequence[int]]
_Partition: TypeAlias = _Topic.OngoingPartitionReassignment


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest,
) -> Command[ListPartitionReassignmentsResponse]:
    """Returns the command that lists the ongoing reassignments among the partitions of `request`; null means all.

    A partition that is unknown or not being reassigned is left out, as is a topic without any other.
    """

    def command(state: ClusterState, _: Moment) -> Decision[ListPartitionReassignmentsResponse]:
        asked = _all(state) if request.topics is None else _named(request.topics)
        topics = (_Topic(name, tuple(_moving(state, name, partition_ids))) for name, partition_ids in asked)
        response = ListPartitionReassignmentsResponse(
            error_message=None, topics=tuple(topic for topic in topics if topic.partitions)
        )
        return Decision(response)

    return command


def _all(state: ClusterState) -> Iterator[_Asked]:
    """Yields all topics with ongoing reassignments, sorted by name, with their partitions in order."""
    found: dict[str, list[int]] = {}
    for topic, partition_id, partition in state.topics.reassigning():
        assert partition.is_reassigning, (topic.name, partition_id, partition)
        found.setdefault(topic.name, []).append(partition_id)
    for name in sorted(found):
        yield name, sorted(found[name])


def _named(topics: Iterable[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics]) -> Iterator[_Asked]:
    """Yields the topics and partitions of the request, in its order."""
    return ((topic.name, topic.partition_indexes) for topic in topics)


def _moving(state: ClusterState, name: str, partition_ids: Iterable[int]) -> Iterator[_Partition]:
    topic = state.topics.by_name(name)
    if topic is None:
        return
    for partition_id in partition_ids:
        partition = topic.partitions.get(partition_id)
        if partition is not None and partition.is_reassigning:
            yield _Partition(
                partition_index=partition_id,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
