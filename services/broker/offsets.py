"""ListOffsets (2) and OffsetForLeaderEpoch (23): offsets by time, and where a leader's epochs end."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from typing import Final, NamedTuple

from kraft.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import Offset
from quorate.partition_log.log import PartitionLog
from quorate.partition_log.stored_records import first_from
from quorate.replication import Isolation, Leading, end_of_epoch
from quorate.replication.admission import leader_of
from quorate.wire.batch import CLEANED
from quorate.wire.items import Items, Steps
from services.broker.callers import Caller
from services.broker.cluster import NO_TOPIC_ID, Cluster
from services.broker.table import Hosted

__all__ = ["Offsets"]

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SINCE: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which on each of these asks for a place (KIP-734, KIP-405, KIP-1005, KIP-1023)."""
CONSUMER: Final = -1
HAS_EPOCHS: Final = 4
"""From this version on an answer has the epoch of the offset (KIP-320)."""
HAS_NOT_AVAILABLE: Final = 5
"""From this version on a client knows OFFSET_NOT_AVAILABLE (KIP-207)."""
PER_PARTITION: Final = 10
"""The cost of a partition in items of an answer: some 20 µs."""
PER_SEARCH: Final = 100
"""The cost of one of which a file is read, for a time."""

_Asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
_Topic = ListOffsetsResponse.ListOffsetsTopicResponse
_Found = _Topic.ListOffsetsPartitionResponse
_EpochsTopic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_EpochAsked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition


class _Place(NamedTuple):
    """An offset, and the timestamp of its record; -1 for one that is asked for by its place."""

    offset: Offset
    timestamp: int = -1


NOTHING: Final = _Place(-1)


class Offsets:
    """Answers ListOffsets and OffsetForLeaderEpoch for the partitions that this broker leads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list(self, request: ListOffsetsRequest, version: int, caller: Caller) -> Steps[ListOffsetsResponse]:
        """Answers ListOffsets, in steps: by partition offset, timestamp and leader epoch, or its error.

        They are -1 if nothing is found. Consumers get no offset beyond what they may read. A partition that is named
        twice is answered once, with INVALID_REQUEST. Raises Corrupt, OSError if a log cannot be read.
        """
        isolation = Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED
        if request.replica_id != CONSUMER:
            isolation = Isolation.LOG_END
        topics, done = [], Items()
        counts = yield from _counts(request)
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                count = counts.pop((topic.name, each.partition_index), 0)
                if not count:
                    continue  # answered where it was named first
                found.append((yield from self._found(topic.name, each, isolation, version, caller, count=count)))
                is_search = each.timestamp >= 0 or each.timestamp == MAX_TIMESTAMP
                yield from done.many(PER_SEARCH if is_search and not found[-1].error_code else PER_PARTITION)
            if found or not topic.partitions:
                topics.append(_Topic(name=topic.name, partitions=tuple(found)))
            yield from done.one()
        return ListOffsetsResponse(topics=tuple(topics))

    def of_epochs(self, request: OffsetForLeaderEpochRequest, caller: Caller) -> Steps[OffsetForLeaderEpochResponse]:
        """Answers OffsetForLeaderEpoch, in steps: by partition where the epoch asked for ends (exclusive), or an error.

        Brokers need no right on topics, consumers DESCRIBE (KIP-320).
        """
        is_broker = caller.may_on_cluster(AclOperation.CLUSTER_ACTION, is_audited=False)
        topics, done = [], Items()
        for topic in request.topics:
            ends = []
            for each in topic.partitions:
                ends.append(self._end(topic.topic, each, None if is_broker else caller))
                yield from done.many(PER_PARTITION)
            topics.append(_EpochsTopic(topic=topic.topic, partitions=tuple(ends)))
            yield from done.one()
        return OffsetForLeaderEpochResponse(topics=tuple(topics))

    def _found(
        self, topic: str, asked: _Asked, isolation: Isolation, version: int, caller: Caller, *, count: int
    ) -> Steps[_Found]:
        try:
            caller.check(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
            if count > 1:
                why = f"partition {asked.partition_index} of topic {topic!r} is named {count} times; it may be once"
                raise ApiError(ErrorCode.INVALID_REQUEST, why)
            _check_timestamp(asked.timestamp, version)
            hosted = self._cluster.hosted(NO_TOPIC_ID, topic, asked.partition_index)
            role = leader_of(hosted.partition, None if asked.current_leader_epoch < 0 else asked.current_leader_epoch)
            found = yield from self._while_led(hosted, role, _found(role, hosted.log, asked.timestamp, isolation))
        except ApiError as refusal:
            code = refusal.code
            if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < HAS_NOT_AVAILABLE:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            return _Found(partition_index=asked.partition_index, error_code=code)
        return _Found(
            partition_index=asked.partition_index,
            offset=found.offset,
            timestamp=found.timestamp,
            leader_epoch=_epoch(role, hosted.log, found.offset) if version >= HAS_EPOCHS else -1,
        )

    def _while_led(self, hosted: Hosted, role: Leading, search: Steps[_Place]) -> Steps[_Place]:
        """Searches a log while this broker has it and leads it: the files of another are closed. Raises ApiError."""
        log = hosted.log
        with closing(search):
            while True:
                try:
                    next(search)
                except StopIteration as end:
                    found: _Place = end.value
                    return found
                yield
                here = self._cluster.hosted(NO_TOPIC_ID, *hosted.name)
                if here is not hosted or here.log is not log or here.leading is not role:
                    why = f"{hosted.name} has another leader or another log since the search began"
                    raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def _end(self, topic: str, asked: _EpochAsked, caller: Caller | None) -> _EpochsTopic.EpochEndOffset:
        try:
            if caller is not None:
                caller.check(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
            hosted = self._cluster.hosted(NO_TOPIC_ID, topic, asked.partition)
            leader_epoch = None if asked.current_leader_epoch < 0 else asked.current_leader_epoch
            found = end_of_epoch(hosted.partition, asked.leader_epoch, leader_epoch=leader_epoch)
        except ApiError as refusal:
            return _EpochsTopic.EpochEndOffset(partition=asked.partition, error_code=refusal.code)
        if found is None:
            return _EpochsTopic.EpochEndOffset(partition=asked.partition)
        return _EpochsTopic.EpochEndOffset(partition=asked.partition, leader_epoch=found.epoch, end_offset=found.offset)


def _check_timestamp(timestamp: int, version: int) -> None:
    """Raises ApiError(UNSUPPORTED_VERSION) for a negative timestamp that says nothing in this version, as Kafka."""
    if timestamp < 0 and version < SINCE.get(timestamp, version + 1):
        why = f"timestamp {timestamp} has no meaning in version {version} of ListOffsets"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)


def _counts(request: ListOffsetsRequest) -> Steps[Counter[tuple[str, int]]]:
    """Counts in steps how often each partition is named."""
    counts, done = Counter[tuple[str, int]](), Items()
    for topic in request.topics:
        for each in topic.partitions:
            counts[topic.name, each.partition_index] += 1
            yield from done.one()
    return counts


def _found(role: Leading, log: PartitionLog, timestamp: int, isolation: Isolation) -> Steps[_Place]:
    """Returns the offset that is asked for; NOTHING if there is none. Raises ApiError."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _Place(log.start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # there is no tiered storage
        return NOTHING
    bound = role.local.bound(isolation)
    is_trailing = isolation is not Isolation.LOG_END and role.epoch_start_offset > bound
    if timestamp == LATEST:
        if is_trailing:
            raise _not_available(role, bound)
        return _Place(bound)
    found = yield from (_largest(log) if timestamp == MAX_TIMESTAMP else _from_time(log, timestamp))
    if found.offset < bound:
        return found
    if is_trailing:
        raise _not_available(role, bound)
    return NOTHING


def _not_available(role: Leading, bound: Offset) -> ApiError:
    """A new leader does not know yet how much its predecessor had committed (KIP-207)."""
    why = f"committed is known up to {bound}, and the epoch begins at {role.epoch_start_offset}"
    return ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, why)


def _largest(log: PartitionLog) -> Steps[_Place]:
    """Returns the record with the largest timestamp (KIP-734); of a batch that is compressed, its last record."""
    found = log.largest_timestamp
    if found is None:
        return NOTHING
    timestamp, offset = found
    return (yield from _from_time(log, timestamp)) if timestamp >= 0 else _Place(offset, timestamp)


def _from_time(log: PartitionLog, timestamp: int) -> Steps[_Place]:
    """Returns the first record of at least this timestamp, in steps where timestamps fall.

    Within a batch of a codec that is not read here it is the batch's first record: a consumer gets some records more.
    """
    least = 0
    while (found := log.find_time(timestamp, least=least)) is not None:
        segment, position, header = found
        if header.max_timestamp < timestamp or header.count == CLEANED:
            least = header.next_offset
            yield
            continue
        batch = segment.slice(position, position + header.size, header.size).read()
        with suppress(Corrupt):
            place = yield from first_from(batch, header, timestamp_ms=timestamp, least=log.start)
            if place is not None:
                return _Place(*place)
            if header.base_offset < log.start:  # those records of it are deleted
                least = header.next_offset
                continue
        return _Place(max(header.base_offset, log.start), header.base_timestamp)
    return NOTHING


def _epoch(role: Leading, log: PartitionLog, offset: Offset) -> int:
    """Returns the leader epoch of a record; at the log's end that of the leader."""
    if offset < 0:
        return -1
    return role.leader_epoch if offset >= log.leo else log.epochs.epoch_at(offset)
