"""DeleteRecords (21): raises the log start of partitions that this broker leads, and of their followers (KIP-107)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kraft.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from quorate.controller.topic_names import INTERNAL_TOPICS
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import Offset
from quorate.replication import deleted_outcome
from quorate.replication.admission import leader_of
from quorate.runtime.event_loop.turns import in_turns
from quorate.wire.items import ITEMS_PER_STEP, Items, Steps, each_in_steps
from services.broker.callers import Caller
from services.broker.cluster import NO_TOPIC_ID, Cluster
from services.broker.replicas import Replicas
from services.broker.table import Hosted, Key

__all__ = ["Deletion"]

TO_HIGH_WATERMARK: Final = -1
NO_OFFSET: Final = -1
PER_REFUSAL: Final = 10
"""The cost in items of a partition of which nothing is deleted; another has a step, as a file is written."""
WAIT_MS_MAX: Final = 30_000
"""An answer waits no longer than that for replicas, whatever its request says: Kafka's `request.timeout.ms`."""

_Asked = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition
_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult
_Result = _Topic.DeleteRecordsPartitionResult


class _Deleted(NamedTuple):
    """The result of DeleteRecords for one partition of this leader: its new log start offset, or the error."""

    partition: int
    hosted: Hosted | None = None
    start: Offset = NO_OFFSET
    code: ErrorCode = ErrorCode.NONE


_AllDeleted: TypeAlias = list[tuple[str, list[_Deleted]]]
"""By topic."""


class Deletion:
    """Answers DeleteRecords."""

    def __init__(self, replicas: Replicas, cluster: Cluster) -> None:
        self._replicas = replicas
        self._cluster = cluster

    async def answer(self, request: DeleteRecordsRequest, caller: Caller) -> DeleteRecordsResponse:
        """Deletes at this leader the records below the offsets asked for, and answers once each live replica has, too.

        Live is a replica that is not fenced. After the request's `timeout_ms`, 30 s at most, the answer is
        REQUEST_TIMED_OUT for a partition where one has not; the records stay deleted here. Each partition has its low
        watermark, or its error.
        """
        topics = await in_turns(self._deleted(request, caller))
        required = {each.hosted.key: each.start for _, deleted in topics for each in deleted if each.hosted is not None}
        outcomes: Mapping[Key, ErrorCode] = {}
        if required:
            timeout_ms = min(request.timeout_ms, WAIT_MS_MAX)
            outcomes = await self._replicas.reached(required, timeout_ms=timeout_ms, outcome_of=deleted_outcome)
        return await in_turns(_response(topics, outcomes))

    def _deleted(self, request: DeleteRecordsRequest, caller: Caller) -> Steps[_AllDeleted]:
        """Deletes at this leader, each partition once, to the highest offset that is asked for, in steps."""
        asked: dict[str, dict[int, _Asked]] = {}
        done = Items()
        for topic in request.topics:
            chosen = asked.setdefault(topic.name, {})
            for each in topic.partitions:
                known = chosen.get(each.partition_index)
                if known is None or TO_HIGH_WATERMARK != known.offset < each.offset or each.offset == TO_HIGH_WATERMARK:
                    chosen[each.partition_index] = each
                yield from done.one()
            yield from done.one()
        topics = []
        for name, chosen in asked.items():
            deleted = []
            for each in chosen.values():
                deleted.append(self._delete(name, each, caller))
                yield from done.many(PER_REFUSAL if deleted[-1].hosted is None else ITEMS_PER_STEP)
            topics.append((name, deleted))
        return topics

    def _delete(self, topic: str, asked: _Asked, caller: Caller) -> _Deleted:
        """Raises the log start at this leader, at once; its followers hear of it with their next fetch (R59)."""
        try:
            caller.check(AclOperation.DELETE, ResourceType.TOPIC, topic)
            if topic in INTERNAL_TOPICS:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {topic} is internal; its records cannot be deleted"
                )
            hosted = self._cluster.hosted(NO_TOPIC_ID, topic, asked.partition_index)
            start = _start(hosted, asked.offset)
        except ApiError as refusal:
            return _Deleted(asked.partition_index, code=refusal.code)
        if start > hosted.log.start:
            hosted.log.raise_start(start)
            self._replicas.trimmed(hosted)  # fetches below it wait in vain
        return _Deleted(asked.partition_index, hosted, start)


def _start(hosted: Hosted, offset: Offset) -> Offset:
    """Returns where the log is to start. Raises ApiError."""
    high_watermark = leader_of(hosted.partition, None).local.high_watermark
    if not hosted.log.settings.deletes:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"topic {hosted.name.topic}: records can be deleted only with delete in its cleanup.policy",
        )
    start = high_watermark if offset == TO_HIGH_WATERMARK else offset
    if not 0 <= start <= high_watermark:
        why = f"offset {offset} of {hosted.name} is not between 0 and the high watermark, {high_watermark}"
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
    return start


def _response(topics: _AllDeleted, outcomes: Mapping[Key, ErrorCode]) -> Steps[DeleteRecordsResponse]:
    told, done = [], Items()
    for name, deleted in topics:
        told.append(_Topic(name, (yield from each_in_steps(lambda each: _result(each, outcomes), deleted, done))))
        yield from done.one()
    return DeleteRecordsResponse(topics=tuple(told))


def _result(deleted: _Deleted, outcomes: Mapping[Key, ErrorCode]) -> _Result:
    if deleted.hosted is None:
        return _Result(deleted.partition, NO_OFFSET, deleted.code)
    code, role = outcomes[deleted.hosted.key], deleted.hosted.leading
    if code is not ErrorCode.NONE or role is None:
        return _Result(deleted.partition, NO_OFFSET, code or ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return _Result(deleted.partition, role.low_watermark())
