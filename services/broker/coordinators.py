"""FindCoordinator (10): which broker coordinates a group, a transactional id or a share partition.

It is the leader of one partition of an internal topic. A broker of this kind coordinates nothing: where it leads such
a partition itself, or there is none, the answer is COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import NodeId
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.statuses import shortened
from quorate.wire.items import Steps
from services.broker.callers import Caller
from services.broker.cluster import Cluster, Endpoint

__all__ = ["Coordinators", "partition_of"]

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
TOPICS: Final[Mapping[int, str]] = MappingProxyType(
    {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state", SHARE: "__share_group_state"}
)
"""By the type of key, the topic whose leaders coordinate (KIP-98, KIP-932)."""
NEEDED: Final[Mapping[int, ResourceType]] = MappingProxyType(
    {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
)
"""The resource type on which a caller needs DESCRIBE; for a share partition it needs CLUSTER_ACTION."""
SHARE_SINCE: Final = 6
HAS_MANY: Final = 4
"""From this version on a request has several keys (KIP-699)."""
KEY_MAX: Final = (1 << 15) - 1
"""The longest string of the versions before compact strings (KIP-482)."""
PER_STEP: Final = 10_000
"""Letters of one step: each costs some 0.2 us to be hashed, and a key what these cost."""
PER_KEY: Final = 50
SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:\d+", re.DOTALL)
NOBODY: Final = Endpoint(-1, "", -1, None)

_Coordinator = FindCoordinatorResponse.Coordinator


class _Found(NamedTuple):
    at: Endpoint
    code: ErrorCode = ErrorCode.NONE
    why: str | None = None


class Coordinators:
    """Answers FindCoordinator by the state that this broker has applied."""

    def __init__(self, broker_id: NodeId, replica: Replica, cluster: Cluster) -> None:
        self._broker_id = broker_id
        self._replica = replica
        self._cluster = cluster

    def answer(self, request: FindCoordinatorRequest, version: int, caller: Caller) -> Steps[FindCoordinatorResponse]:
        """Answers FindCoordinator, in steps: where each key's coordinator is at the caller's listener, or its error.

        No internal topic is created by it: COORDINATOR_NOT_AVAILABLE without the topic.
        """
        if version < HAS_MANY:
            found = self._found(request.key_type, request.key, version, caller)
            return FindCoordinatorResponse(
                error_code=found.code,
                error_message=found.why,
                node_id=found.at.node_id,
                host=found.at.host,
                port=found.at.port,
            )
        found_by_key, letters = [], 0
        for key in request.coordinator_keys:
            found_by_key.append(_named(key, self._found(request.key_type, key, version, caller)))
            letters += PER_KEY + len(key)
            if letters >= PER_STEP:
                letters = 0
                yield
        return FindCoordinatorResponse(coordinators=tuple(found_by_key))

    def of_transaction(self, transactional_id: str) -> Endpoint:
        """Returns where a transactional id's coordinator is, at the listener between brokers.

        Raises ApiError: COORDINATOR_NOT_AVAILABLE, also if it is this broker; INVALID_REQUEST for an id that is too
        long.
        """
        return self._leader(TOPICS[TRANSACTION], transactional_id)

    def _found(self, key_type: int, key: str, version: int, caller: Caller) -> _Found:
        try:
            if key_type in NEEDED:
                caller.check(AclOperation.DESCRIBE, NEEDED[key_type], key)
            topic = _topic_of(key_type, version)
            if key_type == SHARE:
                caller.check(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
            if key_type == SHARE and not SHARE_KEY.fullmatch(key):
                why = f"{shortened(key, 200)!r} is no share partition's key: it is group:topicId:partition"
                raise ApiError(ErrorCode.INVALID_REQUEST, why)
            return _Found(self._leader(topic, key, caller.listener))
        except ApiError as refusal:
            return _Found(NOBODY, refusal.code, refusal.message)

    def _leader(self, topic: str, key: str, listener: str | None = None) -> Endpoint:
        """Returns where the key's coordinator is, at a listener or at that between brokers. Raises ApiError."""
        found = self._replica.state.topics.by_name(topic)
        if found is None or not found.partitions:
            raise _not_available(f"there is no topic {topic}: a broker of Kafka's makes it when it is asked")
        if len(key) > KEY_MAX:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"the key has {len(key)} characters; it may have {KEY_MAX} at most"
            )
        index = partition_of(key, len(found.partitions))
        leader = found.partitions[index].leader
        if leader == self._broker_id:
            raise _not_available(f"broker {leader} leads {topic}-{index}, and coordinates nothing; move it to Kafka's")
        if (at := self._cluster.endpoint(leader, listener)) is None:
            raise _not_available(f"partition {topic}-{index} has no leader that can be reached")
        return at


def partition_of(key: str, count: int) -> int:
    """Returns the partition, of `count`, that a key belongs to: by Java's hash of a string, as in every broker."""
    text = key.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for at in range(0, len(text), 2):
        hashed = (31 * hashed + int.from_bytes(text[at : at + 2])) & 0xFFFF_FFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed) % count


def _topic_of(key_type: int, version: int) -> str:
    if key_type not in TOPICS or (key_type == SHARE and version < SHARE_SINCE):
        known = "0 (groups), 1 (transactional ids), or from version 6 on 2 (share partitions)"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"key type {key_type} in version {version}: it must be {known}")
    return TOPICS[key_type]


def _not_available(why: str) -> ApiError:
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)


def _named(key: str, found: _Found) -> _Coordinator:
    return _Coordinator(
        key=key,
        node_id=found.at.node_id,
        host=found.at.host,
        port=found.at.port,
        error_code=found.code,
        error_message=found.why,
    )
