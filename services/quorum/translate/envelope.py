"""The envelope: one topic, one partition, ids and addresses as Kafka spells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NodeId,
    ReplicaKey,
    parse_uuid,
    uuid_text,
)

NOBODY: Final = -1
TOPIC_ID: Final = uuid_text(METADATA_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node's quorum listener is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Endpoints = Mapping[NodeId, Address]


def only(request: Any, *, by_id: bool = False) -> Any:
    """The one partition that a request may name. Raises ApiError(INVALID_REQUEST)."""
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, partition = topics[0], topics[0].partitions[0]
        index = partition.partition if hasattr(partition, "partition") else partition.partition_index
        if by_id:
            named = topic.topic_id == TOPIC_ID
        else:
            named = (topic.name if hasattr(topic, "name") else topic.topic_name) == METADATA_TOPIC
        if named and index == METADATA_PARTITION:
            return partition
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"{type(request).__name__} must name {METADATA_TOPIC} ({TOPIC_ID}) and its partition {METADATA_PARTITION}, "
        "and nothing else",
    )


def key_of(node_id: NodeId, directory_id: str) -> ReplicaKey:
    """The replica that a request names. Raises ApiError(INVALID_REQUEST) for what is no id."""
    try:
        return ReplicaKey(node_id, parse_uuid(directory_id))
    except ValueError as problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(problem)) from None


def voter_of(node_id: NodeId, directory_id: str) -> ReplicaKey | None:
    """Whom the asker believes to ask; None if it does not say."""
    return None if node_id == NOBODY else key_of(node_id, directory_id)


def cluster_of(request: Any) -> str | None:
    """The cluster id that the asker believes in; None if it does not say."""
    return request.cluster_id if request.HasField("cluster_id") else None


def leader_of(leader_id: NodeId) -> NodeId | None:
    """A leader's id as the core has it: None for nobody."""
    return None if leader_id == NOBODY else leader_id


def id_of(leader_id: NodeId | None) -> NodeId:
    """A leader's id as Kafka has it: -1 for nobody."""
    return NOBODY if leader_id is None else leader_id
