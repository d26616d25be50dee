"""WriteTxnMarkers (27): coordinators end transactions in the partitions that this broker leads (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import Offset
from quorate.partition_log import Marker, TransactionEnd
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.replication import ACKS_ALL, admit_produce
from quorate.runtime.event_loop.turns import in_turns
from quorate.wire.items import Items, Steps, each_in_steps
from services.broker.callers import Caller
from services.broker.cluster import NO_TOPIC_ID, Cluster
from services.broker.replicas import Replicas
from services.broker.table import Hosted, Key

__all__ = ["TransactionMarkers"]

WAIT_MS: Final = 30_000
"""An answer waits so long for replicas: Kafka's `request.timeout.ms`. The coordinator sends again what was not done."""

PER_MARKER: Final = 25
"""The cost of a marker in items: a batch is appended."""

_Asked = WriteTxnMarkersRequest.WritableTxnMarker
_Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic = _Result.WritableTxnMarkerTopicResult
_Partition = _Topic.WritableTxnMarkerPartitionResult


class _Written(NamedTuple):
    """The result of one marker in one partition; `end` is the offset that all replicas of the ISR must reach."""

    key: Key | None
    end: Offset = 0
    code: ErrorCode = ErrorCode.NONE


_Outcomes = dict[int, dict[TopicPartition, _Written]]
"""By producer id and partition."""


class TransactionMarkers:
    """Answers WriteTxnMarkers."""

    def __init__(self, replicas: Replicas, cluster: Cluster) -> None:
        self._replicas = replicas
        self._cluster = cluster

    async def answer(self, request: WriteTxnMarkersRequest, caller: Caller) -> WriteTxnMarkersResponse:
        """Appends the markers, and answers once the replicas of each ISR have them, as with acks=all, or 30 s are over.

        Each partition's error is in the answer, also REQUEST_TIMED_OUT. The coordinator forgets the transaction by it:
        a marker that one replica has is not enough.
        """
        written = await in_turns(self._written(request, _refusal(caller)))
        required: dict[Key, Offset] = {}
        for partitions in written.values():
            for each in partitions.values():
                if each.key is not None:
                    required[each.key] = max(each.end, required.get(each.key, 0))
        outcomes = await self._replicas.reached(required, timeout_ms=WAIT_MS) if required else {}
        return await in_turns(_response(written, outcomes))

    def _written(self, request: WriteTxnMarkersRequest, refusal: ApiError | None) -> Steps[_Outcomes]:
        """Appends each marker, in steps: each partition once. With a refusal it appends none."""
        written: _Outcomes = {}
        done = Items()
        for marker in request.markers:
            names: dict[TopicPartition, None] = {}
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    names[TopicPartition(topic.name, index)] = None
                    yield from done.one()
                yield from done.one()
            of_producer = written.setdefault(marker.producer_id, {})
            for name in names:
                of_producer[name] = self._write(marker, name) if refusal is None else _Written(None, code=refusal.code)
                yield from done.many(PER_MARKER)
            yield from done.one()
        return written

    def _write(self, asked: _Asked, name: TopicPartition) -> _Written:
        try:
            hosted = self._cluster.hosted(NO_TOPIC_ID, name.topic, name.partition)
            return _Written(hosted.key, self._append(hosted, _end(asked)))
        except ApiError as refusal:
            return _Written(None, code=refusal.code)

    def _append(self, hosted: Hosted, end: TransactionEnd) -> Offset:
        """Returns the end (exclusive) of the marker that it appends. Raises ApiError, and then nothing is written."""
        role = admit_produce(hosted.partition, ACKS_ALL)
        appended = hosted.log.append_marker(end, epoch=role.leader_epoch, now_ms=self._replicas.wall_ms)
        self._replicas.appended(hosted, role)
        return appended.last_offset + 1


def _refusal(caller: Caller) -> ApiError | None:
    """Returns why the caller may write no markers: they are for coordinators, and for who may ALTER the cluster."""
    if caller.may_on_cluster(AclOperation.ALTER, is_audited=False):
        return None
    try:
        caller.check(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    except ApiError as refusal:
        return refusal
    return None


def _end(asked: _Asked) -> TransactionEnd:
    """Returns what was decided. Raises ApiError for a producer that nobody is."""
    if asked.producer_id < 0 or asked.producer_epoch < 0:
        why = f"a marker of producer {asked.producer_id} in epoch {asked.producer_epoch}: both are 0 or more"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    return TransactionEnd(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        marker=Marker(aborts=not asked.transaction_result, coordinator_epoch=asked.coordinator_epoch),
        transaction_version=asked.transaction_version,
    )


def _response(written: _Outcomes, outcomes: Mapping[Key, ErrorCode]) -> Steps[WriteTxnMarkersResponse]:
    markers, done = [], Items()
    for producer_id, partitions in written.items():
        topics: dict[str, list[_Partition]] = {}
        for name, each in partitions.items():
            code = each.code if each.key is None else outcomes[each.key]
            topics.setdefault(name.topic, []).append(_Partition(name.partition, code))
            yield from done.one()
        told = yield from each_in_steps(lambda found: _Topic(found[0], tuple(found[1])), topics.items(), done)
        markers.append(_Result(producer_id, told))
        yield from done.one()
    return WriteTxnMarkersResponse(markers=tuple(markers))
