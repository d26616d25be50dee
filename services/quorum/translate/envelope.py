"""The common parts of quorum messages: the one topic and partition, ids, addresses, error codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from quorate.errors import ApiError, ErrorCode, error_of, refusal_of
from quorate.nouns import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NOBODY,
    NodeId,
    ReplicaKey,
    parse_uuid,
    uuid_text,
)
from quorate.raft.voters import ListenerEndpoint

TOPIC_ID: Final = uuid_text(METADATA_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port of a node's quorum listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


KEYS_CACHED: Final = 1_024
"""Replica keys that are cached, each found once: a replica has the same one in all its fetches."""
LISTENERS_MAX: Final = 64
VOTERS_MAX: Final = 128
"""Most voters or candidates in a request: far more than any quorum has."""
TEXT_MAX: Final = 255
"""Most characters of a host or a listener's name, as in DNS."""
LABEL_MAX: Final = 63
"""Most characters of one part of a host, between its dots, in the form that DNS has."""
PORT_MAX: Final = 65_535

Endpoints = Mapping[NodeId, Address]


def only(message: Any) -> Any:
    """Returns the only partition of a request or answer, the metadata partition. Raises ApiError(INVALID_REQUEST).

    Kafka's messages have several field names for topic and partition; only Fetch uses the topic's id.
    """
    topics_field, topic_field, metadata, partition_field = _fields(message.DESCRIPTOR)
    topics = getattr(message, topics_field)
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, partition = topics[0], topics[0].partitions[0]
        if getattr(topic, topic_field) == metadata and getattr(partition, partition_field) == METADATA_PARTITION:
            return partition
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"{type(message).__name__} must name {METADATA_TOPIC} ({TOPIC_ID}) and its partition {METADATA_PARTITION}, "
        "and nothing else",
    )


@cache
def _fields(descriptor: Any) -> tuple[str, str, str, str]:
    """Returns the names in messages of this type: the field of its topics, that of a topic's name or id, which one the
    metadata topic has there, and the field of a partition's number."""
    fields = descriptor.fields_by_name
    topics = "responses" if "responses" in fields else "topics"
    topic = fields[topics].message_type.fields_by_name
    partition = _first(topic["partitions"].message_type.fields_by_name, "partition_index", "partition", "index")
    if "replica_state" in fields or "responses" in fields:
        return topics, "topic_id", TOPIC_ID, partition
    return topics, _first(topic, "topic_name", "name"), METADATA_TOPIC, partition


def _first(fields: Collection[str], *names: str) -> str:
    return next(name for name in names if name in fields)


def peer_error(code: int) -> ErrorCode:
    """Converts an answer's error code, 0 to NONE. Raises ApiError for an unknown one, such as a later Kafka's."""
    if (known := error_of(code)) != code:
        raise refusal_of(code, "the peer's answer has an error that is not known")
    return known


@lru_cache(KEYS_CACHED)
def key_of(node_id: NodeId, directory_id: str) -> ReplicaKey:
    """Returns the replica key of an id and a directory id. Raises ApiError(INVALID_REQUEST) for a malformed id."""
    try:
        return ReplicaKey(node_id, parse_uuid(directory_id))
    except ValueError as problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(problem)) from None


def check_count(field: str, items: Sized, what: str, most: int) -> None:
    """Checks that a field of a request has at most `most` items, before any is converted. Raises ApiError.

    The error is INVALID_REQUEST; `what` names the items in it, in the plural.
    """
    if len(items) > most:
        raise _misfit(field, f"{len(items)} {what}; {most} is the most")


def listeners_of(field: str, listeners: Collection[Any]) -> tuple[ListenerEndpoint, ...]:
    """Converts and checks the listeners in a request's field `field`, in their order.

    Raises ApiError(INVALID_REQUEST), which names the field, for more than `LISTENERS_MAX`, for a name that is there
    twice, and for a name, host or port that cannot be.
    """
    check_count(field, listeners, "listeners", LISTENERS_MAX)
    endpoints = tuple(ListenerEndpoint(each.name, each.host, each.port) for each in listeners)
    for place, endpoint in enumerate(endpoints):
        for what, text in (("name", endpoint.name), ("host", endpoint.host)):
            if not 0 < len(text) <= TEXT_MAX:
                raise _misfit(
                    f"{field}[{place}].{what}", f"it has {len(text)} characters; it must have 1 to {TEXT_MAX}"
                )
        if not _is_host(endpoint.host):
            why = (
                f"{endpoint.host!r} is no host: it must have 1 to {LABEL_MAX} characters between dots, none of them NUL"
            )
            raise _misfit(f"{field}[{place}].host", why)
        if not 0 < endpoint.port <= PORT_MAX:
            raise _misfit(f"{field}[{place}].port", f"{endpoint.port} is no port; one is from 1 to {PORT_MAX}")
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise _misfit(field, f"the names are {names}; each may be there once")
    return endpoints


def _is_host(text: str) -> bool:
    """Returns whether a host can be asked of DNS: it has a form there, or is an address (IDNA, RFC 3490)."""
    try:
        return b"\0" not in text.encode("idna")
    except UnicodeError:
        return False


def _misfit(field: str, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{field}: {why}", {"field": field})


def voter_of(node_id: NodeId, directory_id: str) -> ReplicaKey | None:
    """Returns the replica key of the voter that a request is meant for; None if its id is -1.

    Raises ApiError(INVALID_REQUEST) for a malformed directory id.
    """
    return None if node_id == NOBODY else key_of(node_id, directory_id)


def cluster_of(request: Any) -> str | None:
    """Returns the cluster id in a request; None if it has none."""
    return request.cluster_id if request.HasField("cluster_id") else None


def leader_of(leader_id: NodeId) -> NodeId | None:
    """Converts a leader id from Kafka's form (-1 for none) to the core's (None)."""
    return None if leader_id == NOBODY else leader_id


def id_of(leader_id: NodeId | None) -> NodeId:
    """Converts a leader id from the core's form (None for none) to Kafka's (-1)."""
    return NOBODY if leader_id is None else leader_id
