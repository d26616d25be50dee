"""The cluster as this broker knows it: Metadata (3), where brokers are, and which partitions are whose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from kraft import Uuid
from kraft.api.metadata import MetadataRequest, MetadataResponse
from quorate.authorizer import CLUSTER_NAME
from quorate.controller.access.authorized_operations import authorized_operations
from quorate.controller.topic_names import INTERNAL_TOPICS, fault_of_name
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import NO_LEADER, Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.nouns import NodeId, uuid_text
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.runtime.requests.statuses import shortened
from quorate.wire.items import Items, Steps, each_in_steps
from services.broker.callers import Caller
from services.broker.table import Hosted, Key, Table

__all__ = ["Cluster", "Endpoint"]

NO_TOPIC_ID: Final = Uuid(bytes(16))
NAME_SHOWN: Final = 60
"""Letters of a name that somebody has sent: an error repeats it for each partition."""
NOT_ASKED: Final = -(1 << 31)
"""The operations of an answer that was not asked for them."""
CLUSTER_OPERATIONS_UNTIL: Final = 10
"""The last version with those on the cluster; then DescribeCluster has them (KIP-700)."""
TOPIC_IDS_SINCE: Final = 12
"""In the two versions before a topic has an id and a name that may be null, and Kafka takes neither (KIP-516)."""
PER_NAME: Final = 10
"""The cost of a topic in items of an answer: its right is looked up, 20 µs."""
PER_OPERATIONS: Final = 100
"""The cost of its operations: each is such a right."""
UNKNOWN: Final = (-1, -1)
"""No leader, no epoch."""
NAMING: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors with which an answer names the leader (KIP-951)."""

_Broker = MetadataResponse.MetadataResponseBroker
_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition
_Asked = MetadataRequest.MetadataRequestTopic


class Endpoint(NamedTuple):
    """Where a broker is reached at a listener."""

    node_id: NodeId
    host: str
    port: int
    rack: str | None


_Reached: TypeAlias = Mapping[NodeId, Endpoint]
"""The brokers at the caller's listener that are not fenced."""


class Cluster:
    """Answers Metadata, finds brokers' addresses and the replicas here, by the state that this broker has applied.

    `between` is the name of the listener between brokers.
    """

    def __init__(
        self, broker_id: NodeId, cluster_id: str, between: str, state: Callable[[], ClusterState], table: Table
    ) -> None:
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._between = between
        self._state = state
        self._table = table

    # Partitions

    def hosted(self, topic_id: Uuid, name: str, index: int) -> Hosted:
        """Returns this broker's replica of a partition: by topic id, or by topic name if the request has no id.

        Raises ApiError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER for a partition that
        only other brokers have replicas of.
        """
        by_id = topic_id != NO_TOPIC_ID
        hosted = self._table.get(Key(topic_id, index)) if by_id else self._table.named(TopicPartition(name, index))
        if hosted is not None:
            return hosted
        topic = self._topic(topic_id, name)
        if topic is None and by_id:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {uuid_text(topic_id)}")
        if topic is None or index not in topic.partitions:
            shown = shortened(name, NAME_SHOWN) if topic is None else topic.name
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {shown}-{index}")
        why = f"broker {self._broker_id} has no replica of {topic.name}-{index}"
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def check(self, caller: Caller, operation: AclOperation, topic_id: Uuid, name: str) -> None:
        """Raises ApiError(TOPIC_AUTHORIZATION_FAILED) unless the caller may do the operation on a topic.

        By an id that no topic has, it is UNKNOWN_TOPIC_ID. By name, whether the topic exists is not looked at: nothing
        is said of it before this.
        """
        if topic_id != NO_TOPIC_ID:
            topic = self._topic(topic_id, name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {uuid_text(topic_id)}")
            name = topic.name
        caller.check(operation, ResourceType.TOPIC, name)

    def leader_named(self, code: ErrorCode, topic_id: Uuid, name: str, index: int) -> tuple[NodeId, int]:
        """Returns a partition's leader and leader epoch for an answer with the error `code` (KIP-951).

        -1 and -1 for other errors than NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH, and for a partition that is not
        known.
        """
        topic = self._topic(topic_id, name) if code in NAMING else None
        partition = None if topic is None else topic.partitions.get(index)
        return UNKNOWN if partition is None else (partition.leader, partition.leader_epoch)

    # Brokers

    def endpoint(self, broker_id: NodeId, listener: str | None = None) -> Endpoint | None:
        """Returns where a broker is reached at a listener; without its name at that between brokers.

        None for one that is fenced, not registered, or not at that listener.
        """
        broker = self._state().brokers.get(broker_id)
        return None if broker is None or broker.fenced else _at(listener or self._between, broker)

    def endpoints(self, broker_ids: Collection[NodeId], listener: str) -> Iterator[Endpoint]:
        """Yields where these brokers are reached at a listener, in the order of their ids.

        It leaves out those for which `endpoint` returns None.
        """
        for broker_id in sorted(broker_ids):
            if (found := self.endpoint(broker_id, listener)) is not None:
                yield found

    def address_of(self, broker_id: NodeId) -> tuple[str, int] | None:
        """Returns a broker's host and port at the listener between brokers, fenced or not; None if it has none there.

        A leader that is fenced may just have come back, so its followers try it as well.
        """
        found = self.listed(broker_id, self._between)
        return None if found is None else (found.host, found.port)

    def listed(self, broker_id: NodeId, listener: str) -> Endpoint | None:
        """Returns a broker's endpoint at a listener, fenced or not; None if it is not registered, or not there."""
        broker = self._state().brokers.get(broker_id)
        return None if broker is None else _at(listener, broker)

    # Metadata

    def metadata(self, request: MetadataRequest, version: int, caller: Caller) -> Steps[MetadataResponse]:
        """Answers Metadata, in steps. No topic is created by it, as if auto.create.topics.enable were false.

        An answer with all topics leaves out those that the caller may not DESCRIBE. Asked for by name, such a topic has
        TOPIC_AUTHORIZATION_FAILED, whether it exists or not; asked for by id, it has that without its name. Each topic
        is as it is in its step. Before version 12 a request with topic ids is refused, with INVALID_REQUEST at each
        topic.
        """
        if version < TOPIC_IDS_SINCE and any(map(_has_id, request.topics or ())):
            return (yield from _refused(request.topics or ()))
        state = self._state()
        unfenced = (each for each in state.brokers if not each.fenced)
        reached = {each.id: found for each in unfenced if (found := _at(caller.listener, each)) is not None}
        operations = NOT_ASKED
        if request.include_cluster_authorized_operations and version <= CLUSTER_OPERATIONS_UNTIL:
            operations = 0
            if caller.may_on_cluster(AclOperation.DESCRIBE):
                operations = authorized_operations(caller.would_allow, ResourceType.CLUSTER, CLUSTER_NAME)
        if request.topics is None or (version == 0 and not request.topics):
            described = _all(state, reached, caller)
        else:
            described = _named(state, request.topics, reached, caller)
        topics = yield from described
        if request.include_topic_authorized_operations:
            done = Items()
            for at, each in enumerate(topics):
                topics[at] = _with_operations(state, caller, each)
                yield from done.many(PER_OPERATIONS)
        return MetadataResponse(
            brokers=tuple(_Broker(each.node_id, each.host, each.port, each.rack) for each in reached.values()),
            cluster_id=self._cluster_id,
            controller_id=self._broker_id if self._broker_id in reached else next(iter(reached), -1),
            topics=tuple(topics),
            cluster_authorized_operations=operations,
        )

    def _topic(self, topic_id: Uuid, name: str) -> Topic | None:
        topics = self._state().topics
        return topics.by_name(name) if topic_id == NO_TOPIC_ID else topics.by_id(topic_id)


def _has_id(asked: _Asked) -> bool:
    return asked.name is None or asked.topic_id != NO_TOPIC_ID


def _refused(asked: Sequence[_Asked]) -> Steps[MetadataResponse]:
    """Refuses a request that asks by id before ids are taken, as Kafka: each topic has the error, and a name."""
    topics = yield from each_in_steps(
        lambda each: _Topic(ErrorCode.INVALID_REQUEST, each.name or "", each.topic_id), asked, Items()
    )
    return MetadataResponse(topics=topics)


def _all(state: ClusterState, reached: _Reached, caller: Caller) -> Steps[list[_Topic]]:
    topics, done = [], Items()
    for topic in state.topics:  # in no order, as Kafka's: to sort 100,000 names takes 0.1 s at once
        if caller.sees(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
            topics.append((yield from _topic(topic, reached, done)))
        yield from done.many(PER_NAME)
    return topics


def _named(state: ClusterState, asked: Sequence[_Asked], reached: _Reached, caller: Caller) -> Steps[list[_Topic]]:
    topics, done = [], Items()
    for each in asked:
        topics.append((yield from _described(state, each, reached, caller, done)))
        yield from done.many(PER_NAME)
    return topics


def _described(state: ClusterState, asked: _Asked, reached: _Reached, caller: Caller, done: Items) -> Steps[_Topic]:
    by_id = asked.topic_id != NO_TOPIC_ID
    if by_id:
        topic, missing = state.topics.by_id(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, missing = state.topics.by_name(asked.name or ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = topic.name if topic is not None else asked.name
    if (topic is not None or not by_id) and not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name or ""):
        missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return _Topic(error_code=missing, name=None if by_id else asked.name, topic_id=asked.topic_id)
    if topic is not None:
        return (yield from _topic(topic, reached, done))
    if not by_id and fault_of_name(asked.name or "") is not None:
        missing = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _Topic(error_code=missing, name=asked.name, topic_id=asked.topic_id)


def _at(listener: str, broker: Broker) -> Endpoint | None:
    """Returns a broker's endpoint at the listener of this name; None if it has none there."""
    for each in broker.end_points:
        if each.name == listener:
            return Endpoint(broker.id, each.host, each.port, broker.rack)
    return None


def _with_operations(state: ClusterState, caller: Caller, topic: _Topic) -> _Topic:
    """Returns a topic with what the caller may do with it (KIP-430); one without operations stays as it is."""
    if topic.error_code:
        return topic
    operations = authorized_operations(caller.would_allow, ResourceType.TOPIC, topic.name or "")
    return replace(topic, topic_authorized_operations=operations)


def _topic(topic: Topic, reached: _Reached, done: Items) -> Steps[_Topic]:
    partitions = []
    for index in list(topic.partitions):
        if (partition := topic.partitions.get(index)) is not None:  # else the topic was deleted between two steps
            partitions.append(_partition(index, partition, reached))
        yield from done.one()
    return _Topic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(partitions),
    )


def _partition(index: int, partition: Partition, reached: _Reached) -> _Partition:
    """Returns one partition. Without a leader that is reached it has LEADER_NOT_AVAILABLE, as of Kafka's brokers."""
    leader = partition.leader if partition.leader in reached else NO_LEADER
    return _Partition(
        error_code=ErrorCode.NONE if leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=tuple(replica for replica in partition.replicas if replica not in reached),
    )
