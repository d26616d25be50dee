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


def only(message: Any) -> Any:
    """The one partition that a request or an answer may name. Raises ApiError(INVALID_REQUEST).

    Kafka calls topics and indexes by several names; Fetch alone goes by the topic's id.
    """
    by_id = hasattr(message, "replica_state") or hasattr(message, "responses")
    topics = message.responses if hasattr(message, "responses") else message.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, partition = topics[0], topics[0].partitions[0]
        named = topic.topic_id == TOPIC_ID if by_id else _either(topic, "topic_name", "name") == METADATA_TOPIC
        if named and _either(partition, "partition_index", "partition", "index") == METADATA_PARTITION:
            return partition
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"{type(message).__name__} must name {METADATA_TOPIC} ({TOPIC_ID}) and its partition {METADATA_PARTITION}, "
        "and nothing else",
    )


def _either(message: Any, *names: str) -> Any:
    return next(getattr(message, name) for name in names if hasattr(message, name))


def error_of(*codes: int) -> ErrorCode:
    """The first of an answer's error codes that is set. Raises ApiError for one that a later Kafka has."""
    code = next((code for code in codes if code), 0)
    try:
        return ErrorCode(code)
    except ValueError:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the peer answered with error {code}, which is not known"
        ) from None


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
