"""DescribeTopicPartitions (75): describes topics and their partitions, in pages. KIP-966."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from quorate.controller.access.authorized_operations import authorized_operations
from quorate.controller.access.rights import Allows, allows_all
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment
from quorate.controller.engine.steps import Steps, in_order, slices
from quorate.controller.partitions.broker_changes import is_online
from quorate.controller.topic_names import INTERNAL_TOPICS, fault_of_name
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.partitions import NO_LEADER, Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.nouns import NodeId

__all__ = ["PARTITIONS_PER_PAGE_MAX", "describe_topic_partitions"]

PARTITIONS_PER_PAGE_MAX: Final = 2_000
"""The most partitions in one response by default: Kafka's `max.request.partition.size.limit`."""
NAMES_PER_STEP: Final = 50
"""The names of one step: each takes some 150 us where an authorizer is asked for all operations on it."""

_Topic: TypeAlias = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition: TypeAlias = (
    DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic.DescribeTopicPartitionsResponsePartition
)
_Cursor: TypeAlias = DescribeTopicPartitionsResponse.Cursor


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest,
    *,
    partitions_per_page: int = PARTITIONS_PER_PAGE_MAX,
    allows: Allows = allows_all,
    would_allow: Allows = allows_all,
) -> Command[DescribeTopicPartitionsResponse]:
    """Returns the command that describes one page: topics by name, from the request's cursor on.

    A page has at most `response_partition_limit` and `partitions_per_page` partitions, but at least one. `next_cursor`
    is the start of the next page, None on the last. If the request names no topics, it describes all that the caller
    may see. A named topic that does not exist, or that the caller may not see, is an item with an error; it does not
    count as a partition. Each other topic has the caller's authorized operations, by `would_allow`, which is not
    audited.

    The command raises ApiError(INVALID_REQUEST) for a cursor at a topic that is not among those named, or at a negative
    partition.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[DescribeTopicPartitionsResponse]]:
        start = _start(request)
        named = sorted({topic.name for topic in request.topics if topic.name >= start[0]})
        names: Iterable[str] = named
        if not request.topics:
            names = yield from in_order(topic.name for topic in state.topics if topic.name >= start[0])
        room = max(1, min(partitions_per_page, request.response_partition_limit))
        sees = partial(allows, AclOperation.DESCRIBE, ResourceType.TOPIC)
        # If all topics are described, only those of one page are authorized; named topics are authorized once each.
        refused: set[str] = set()
        for some in slices(named, NAMES_PER_STEP):
            refused |= {name for name in some if not sees(name)}
            yield
        shows = (lambda name: name not in refused) if request.topics else sees
        may = partial(authorized_operations, would_allow, ResourceType.TOPIC)
        topics, following = yield from _page(state, names, shows, start, room, may)
        is_ahead = following is None or (following.topic_name, following.partition_index) > start
        assert is_ahead, f"a page ends where it begins: {following}"
        return Decision(
            DescribeTopicPartitionsResponse(topics=(*topics, *map(_refused, sorted(refused))), next_cursor=following)
        )

    # A read in steps takes its turn among the writes; one that is soon done need not wait for a write.
    is_long = not request.topics or len(request.topics) > NAMES_PER_STEP
    return command if is_long else command.__call__


def _start(request: DescribeTopicPartitionsRequest) -> tuple[str, int]:
    """Returns topic and partition of the cursor, where the page begins."""
    cursor = request.cursor
    if cursor is None:
        return "", 0
    if request.topics and cursor.topic_name not in {topic.name for topic in request.topics}:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"the cursor is at topic {cursor.topic_name!r}, which is not among those named"
        )
    if cursor.partition_index < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"the cursor is at partition {cursor.partition_index}; they start at 0"
        )
    return cursor.topic_name, cursor.partition_index


def _page(
    state: ClusterState,
    names: Iterable[str],
    shows: Callable[[str], bool],
    start: tuple[str, int],
    room: int,
    may: Callable[[str], int],
) -> Steps[tuple[list[_Topic], _Cursor | None]]:
    """Describes the first of `names` that the caller is shown, as many as there is room for; returns the next one."""
    assert room >= 1, room
    described: list[_Topic] = []
    last: str | None = None
    for count, name in enumerate(names, start=1):
        if count % NAMES_PER_STEP == 0:
            yield
        if not shows(name):
            continue
        assert last is None or last < name, f"a cursor needs sorted names: {last!r}, {name!r}"
        last = name
        if room == 0:
            return described, _Cursor(name, 0)
        topic = state.topics.by_name(name)
        if topic is None:
            described.append(_unknown(name, may(name)))
            continue
        first = start[1] if name == start[0] else 0
        partitions = sorted(partition_id for partition_id in topic.partitions if partition_id >= first)
        described.append(_described(state, topic, partitions[:room], may(name)))
        if len(partitions) > room:
            return described, _Cursor(name, partitions[room])
        room -= len(partitions)
    return described, None


def _unknown(name: str, may: int) -> _Topic:
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if fault_of_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _Topic(error_code=int(code), name=name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=may)


def _refused(name: str) -> _Topic:
    return _Topic(error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=name)


def _described(state: ClusterState, topic: Topic, partition_ids: list[int], may: int) -> _Topic:
    return _Topic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            _partition(state, partition_id, topic.partitions[partition_id]) for partition_id in partition_ids
        ),
        topic_authorized_operations=may,
    )


def _partition(state: ClusterState, partition_id: int, partition: Partition) -> _Partition:
    return _Partition(
        partition_index=partition_id,
        leader_id=partition.leader if _is_alive(state, partition.leader) else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=tuple(_offline(state, partition)),
    )


def _offline(state: ClusterState, partition: Partition) -> Iterator[NodeId]:
    """Yields the replicas on brokers that are fenced or gone, or in offline directories. KIP-112, KIP-858."""
    for replica, directory in zip(partition.replicas, partition.directories, strict=True):
        broker = state.brokers.get(replica)
        if broker is None or broker.fenced or not is_online(directory, broker):
            yield replica


def _is_alive(state: ClusterState, broker_id: NodeId) -> bool:
    broker = state.brokers.get(broker_id)
    return broker is not None and not broker.fenced
