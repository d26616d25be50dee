"""Fetch (1): records for followers and consumers, at once or when there are enough of them (R48–R53, R61)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

from kraft import Uuid
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.nouns import NodeId, Offset
from quorate.replication import (
    FetchPosition,
    FetchWait,
    FollowerFetch,
    Grant,
    Isolation,
    admit_consumer,
    has_all,
    hear_follower,
    is_stale,
    regrant,
)
from quorate.runtime.event_loop.turns import in_turns
from quorate.wire.batch import CLEANED, fetched_batches
from quorate.wire.items import Items, Steps, each_in_steps
from services.broker.callers import Caller
from services.broker.cluster import Cluster
from services.broker.fetch_session import Asked, FetchContext
from services.broker.fetch_sessions import FetchSessions
from services.broker.replicas import Replicas
from services.broker.table import Hosted, Key
from services.broker.tracing import ProduceTraces

__all__ = ["Fetch"]

NAMES_LEADERS: Final = 16
"""From this version on an answer says where the leaders are that it names (KIP-951)."""
HAS_LEADERS: Final = 12
"""From this version on an answer has leaders, and the end of an epoch that differs (KIP-595)."""
CONSUMER: Final = -1
WAIT_MS_MAX: Final = 5 * 60_000
"""A fetch waits no longer than that, whatever it says."""
LARGE: Final = 500
"""From so many partitions on a fetch without a session is a large request, which has one of a few turns meanwhile."""
LARGE_WAIT_MS_MAX: Final = 500
WAITING_MAX: Final = 10_000
"""A fetch of more partitions does not wait: all are looked at in one turn of the loop before it does."""
PER_STEP: Final = 100
"""So many partitions are looked at in one step: some 5 ms."""
BYTES_MAX: Final = 55 * 1024 * 1024
"""Kafka's `fetch.max.bytes` of a broker."""
HW_UNASKED: Final = (1 << 63) - 1

_Data = FetchResponse.FetchableTopicResponse.PartitionData
_Asked = FetchRequest.FetchTopic.FetchPartition


class _Part(NamedTuple):
    """One partition of a fetch: where it is read, or the error that answers it. One that `is_due` does not wait."""

    of: Asked
    position: FetchPosition
    hosted: Hosted | None = None
    refusal: ErrorCode | None = None
    is_due: bool = False


class _By(NamedTuple):
    """The reader that fetches: a follower, in the registration that it has, or a consumer; and what it may read."""

    sender: NodeId
    broker_epoch: int
    isolation: Isolation
    caller: Caller
    may_replicate: bool
    """Whether a follower may act for the cluster."""


class _To(NamedTuple):
    """The receiver of an answer: the version of the answer, and the listener at which it is reached."""

    version: int
    listener: str


class Fetch:
    """Answers Fetch."""

    def __init__(self, replicas: Replicas, cluster: Cluster, traces: ProduceTraces) -> None:
        self._replicas = replicas
        self._cluster = cluster
        self._traces = traces
        self._sessions = FetchSessions(replicas.resting)

    async def answer(self, request: FetchRequest, version: int, caller: Caller) -> FetchResponse:
        """Answers Fetch, once there are `min_bytes`, something else to tell, or `max_wait_ms` are over (R48).

        It waits 5 minutes at most. A follower's fetch offset counts as its progress at once: it may raise the high
        watermark, or have the ISR changed. Each partition's error is in the answer. Raises Corrupt, OSError if a log
        cannot be read.
        """
        by = _who(request, caller)
        try:
            context = await in_turns(
                self._sessions.context(request, version, now_ms=self._replicas.now_ms, follower=self._follower(by))
            )
        except ApiError as refusal:
            return FetchResponse(error_code=refusal.code)
        with context:
            parts = await in_turns(self._parts(context, by))
            parts += self._woken(context, by)
            is_due = any(each.refusal or each.is_due for each in parts)
            if request.max_wait_ms > 0 and (parts or context.rest) and len(parts) <= WAITING_MAX and not is_due:
                await self._wait(request, context, parts, by.sender)
            return await in_turns(self._response(request, context, parts, by, _To(version, caller.listener)))

    def _follower(self, by: _By) -> NodeId | None:
        """Returns who fetches as a follower; None for a consumer, and for who may not, or is registered anew since.

        Those get no follower's session, for which the ones of consumers end; they are refused by partition.
        """
        is_late = is_stale(self._replicas.brokers, by.sender, by.broker_epoch)
        return by.sender if by.may_replicate and not is_late else None

    def _parts(self, context: FetchContext, by: _By) -> Steps[list[_Part]]:
        """Admits each partition's part, in steps."""
        parts = []
        for number, each in enumerate(context.asked, 1):
            parts.append(self._part(each, by))
            if number % PER_STEP == 0:
                yield
        return parts

    def _woken(self, context: FetchContext, by: _By) -> list[_Part]:
        """Returns the parts of partitions that rested when the fetch came: what it said of them is noted already."""
        parts = []
        for of in context.woken():
            try:
                hosted = self._cluster.hosted(of.topic_id, of.topic, of.partition.partition)
            except ApiError as refusal:
                parts.append(_Part(of, of.at, refusal=refusal.code))
            else:
                parts.append(_Part(of, of.at, hosted))
        return parts

    def _part(self, of: Asked, by: _By) -> _Part:
        """Admits one partition's part; a follower's progress counts from here on (R18)."""
        asked = of.partition
        if (position := of.position) is None or position.isolation is not by.isolation:
            position = of.position = _position(asked, by.isolation)
        try:
            if by.sender == CONSUMER:
                self._cluster.check(by.caller, AclOperation.READ, of.topic_id, of.topic)
            elif not by.may_replicate:
                why = "CLUSTER_ACTION on the cluster is required to fetch as a replica"
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, why)  # Kafka's code here
            hosted = self._cluster.hosted(of.topic_id, of.topic, asked.partition)
            diverges = self._admitted(hosted, position, asked, by)
        except ApiError as refusal:
            return _Part(of, position, refusal=refusal.code)
        return _Part(of, position, hosted, is_due=diverges)

    def _admitted(self, hosted: Hosted, position: FetchPosition, asked: _Asked, by: _By) -> bool:
        """Returns whether the reader's log diverges, which is answered at once. Raises ApiError."""
        if by.sender == CONSUMER:
            return admit_consumer(hosted.partition, position).diverging is not None
        follower = FollowerFetch(replica_id=by.sender, broker_epoch=by.broker_epoch, log_start=asked.log_start_offset)
        diverging, effects = hear_follower(hosted.partition, position, follower, now_ms=self._replicas.now_ms)
        self._replicas.awaited.heard(by.sender, hosted.key)
        if diverging is None:
            self._traces.fetched(hosted, by.sender, position.offset)
        if effects:
            self._replicas.carry_out(hosted, effects)
        return diverging is not None

    async def _wait(self, request: FetchRequest, context: FetchContext, parts: list[_Part], sender: NodeId) -> None:
        """Waits until there are `min_bytes`, or something else than records to tell (R48)."""
        wait_ms = min(request.max_wait_ms, WAIT_MS_MAX if len(parts) <= LARGE else LARGE_WAIT_MS_MAX)
        short_ms = self._replicas.awaited.wait_ms_max(sender, now_ms=self._replicas.now_ms)
        life = ExitStack()

        def wait_of(reply_to: object) -> FetchWait[Key]:
            wait = FetchWait(
                positions={part.hosted.key: part.position for part in parts if part.hosted is not None},
                min_bytes=request.min_bytes,
                partition_max_bytes=max((part.of.partition.partition_max_bytes for part in parts), default=BYTES_MAX),
                deadline_ms=self._replicas.now_ms + (wait_ms if short_ms is None else min(wait_ms, short_ms)),
                reply_to=reply_to,
                may_grow=context.rest is not None,
            )
            context.join_what_wakes(partial(self._replicas.join, wait))
            life.callback(context.join_what_wakes, None)
            if sender != CONSUMER:
                life.enter_context(self._replicas.awaited.waiting(sender, wait))
            return wait

        with life:
            await self._replicas.held(wait_of)

    def _response(
        self, request: FetchRequest, context: FetchContext, parts: list[_Part], by: _By, to: _To
    ) -> Steps[FetchResponse]:
        """Reads what each part may have by now, as far as the sizes go: the first batch of an answer whole (KIP-74)."""
        parts = [*self._woken(context, by), *parts]
        left = min(request.max_bytes, BYTES_MAX)
        topics: dict[tuple[Uuid, str], list[_Data]] = {}
        has_records = False
        for number, part in enumerate(parts, 1):
            if number % PER_STEP == 0:
                yield
            if self._has_no_news(part, context):
                _lay_to_rest(part, context, by)
                continue
            data = self._read(part, left, to.version, may_exceed=not has_records)
            size = len(data.records or b"")
            left -= size
            has_records = has_records or size > 0
            self._count(by, size)
            if context.is_told(part.of, data):
                topics.setdefault((part.of.topic_id, part.of.topic), []).append(data)
        responses = yield from each_in_steps(_of_topic, topics.items(), Items())
        return FetchResponse(
            session_id=context.session_id,
            responses=responses,
            node_endpoints=tuple(self._leaders(topics, to.listener)) if to.version >= NAMES_LEADERS else (),
        )

    def _count(self, by: _By, size: int) -> None:
        if by.sender == CONSUMER:
            self._replicas.traffic.bytes_consumed += size
        else:
            self._replicas.traffic.bytes_replicated_out += size

    def _has_no_news(self, part: _Part, context: FetchContext) -> bool:
        """Returns whether a session's reader has all of a partition, and knows its bounds: most are so each time."""
        hosted = part.hosted
        if hosted is None or self._replicas.table.get(hosted.key) is not hosted:
            return False
        high_watermark, log_start = hosted.partition.local.high_watermark, hosted.log.start
        is_told = context.has_told(part.of, high_watermark=high_watermark, log_start=log_start)
        return is_told and has_all(hosted.partition, part.position)

    def _read(self, part: _Part, left: int, version: int, *, may_exceed: bool) -> _Data:
        if part.refusal is not None:
            return self._refused(part, part.refusal, version)
        try:
            hosted = self._cluster.hosted(part.of.topic_id, part.of.topic, part.of.partition.partition)
            grant = regrant(hosted.partition, part.position)
        except ApiError as refusal:
            return self._refused(part, refusal.code, version)
        if grant.diverging is not None:
            return _bounds(part.of.partition, grant, b"")
        size = min(left, part.of.partition.partition_max_bytes)
        return _bounds(
            part.of.partition, grant, _records(hosted, part, grant, size, may_exceed=may_exceed), hosted, part
        )

    def _refused(self, part: _Part, code: ErrorCode, version: int) -> _Data:
        leader = self._cluster.leader_named(code, part.of.topic_id, part.of.topic, part.of.partition.partition)
        named = _Data.LeaderIdAndEpoch(*leader) if version >= HAS_LEADERS else _Data.LeaderIdAndEpoch()
        return _Data(
            partition_index=part.of.partition.partition,
            error_code=code,
            high_watermark=-1,
            current_leader=named,
            aborted_transactions=None,
        )

    def _leaders(
        self, topics: Mapping[tuple[Uuid, str], list[_Data]], listener: str
    ) -> Iterator[FetchResponse.NodeEndpoint]:
        named = {each.current_leader.leader_id for found in topics.values() for each in found}
        for broker in self._cluster.endpoints(named, listener):
            yield FetchResponse.NodeEndpoint(broker.node_id, broker.host, broker.port, broker.rack)


def _who(request: FetchRequest, caller: Caller) -> _By:
    """Returns who fetches; whether a follower may is looked at, and audited, once for all partitions."""
    sender = request.replica_state.replica_id if request.replica_id == CONSUMER else request.replica_id
    isolation = Isolation.LOG_END
    if sender == CONSUMER:
        isolation = Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED
    may_replicate = sender != CONSUMER and caller.may_on_cluster(AclOperation.CLUSTER_ACTION)
    return _By(sender, request.replica_state.replica_epoch, isolation, caller, may_replicate)


def _of_topic(found: tuple[tuple[Uuid, str], list[_Data]]) -> FetchResponse.FetchableTopicResponse:
    (topic_id, name), partitions = found
    return FetchResponse.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(partitions))


def _position(asked: _Asked, isolation: Isolation) -> FetchPosition:
    is_follower = isolation is Isolation.LOG_END
    return FetchPosition(
        offset=asked.fetch_offset,
        leader_epoch=None if asked.current_leader_epoch < 0 else asked.current_leader_epoch,
        last_fetched_epoch=None if asked.last_fetched_epoch < 0 else asked.last_fetched_epoch,
        isolation=isolation,
        known_high_watermark=asked.high_watermark if is_follower and asked.high_watermark != HW_UNASKED else None,
    )


def _lay_to_rest(part: _Part, context: FetchContext, by: _By) -> None:
    """Lets a partition without news rest, if further fetches of this follower would change nothing here."""
    assert part.hosted is not None, part
    leading = part.hosted.leading
    if context.rest is None or context.rest.follower != by.sender or leading is None:
        return
    if (progress := leading.replicas.get(by.sender)) is not None and leading.rests(by.sender):
        context.lay_to_rest(part.of, part.hosted.key, progress)


def _records(hosted: Hosted, part: _Part, grant: Grant, size: int, *, may_exceed: bool) -> bytes:
    """Returns batches of the log as they are on the disk; the first one whole, if it is the first of the answer."""
    start = part.position.offset
    if start >= grant.end or (size <= 0 and not may_exceed):
        return b""
    found = hosted.log.read(start, grant.end, max(size, 0))
    if found is None or (found.size > size and not may_exceed):
        return b""
    return found.read()


def _bounds(
    asked: _Asked, grant: Grant, records: bytes, hosted: Hosted | None = None, part: _Part | None = None
) -> _Data:
    """Returns a partition's part of the answer; with read_committed the aborted transactions among its records."""
    aborted: tuple[_Data.AbortedTransaction, ...] | None = None
    if hosted is not None and part is not None and part.position.isolation is Isolation.READ_COMMITTED:
        aborted = tuple(_aborted(hosted, part.position.offset, grant.end, records))
    diverging = _Data.EpochEndOffset()
    if grant.diverging is not None:
        diverging = _Data.EpochEndOffset(grant.diverging.epoch, grant.diverging.offset)
    return _Data(
        partition_index=asked.partition,
        high_watermark=grant.high_watermark,
        last_stable_offset=grant.last_stable_offset,
        log_start_offset=grant.log_start,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
        records=records,
    )


def _aborted(hosted: Hosted, start: Offset, bound: Offset, records: bytes) -> Iterator[_Data.AbortedTransaction]:
    """Yields the aborted transactions with records among those that are sent, and not of all up to the bound."""
    if not records or next(hosted.log.aborted(start, bound), None) is None:  # in most logs there are none
        return
    end = max(header.next_offset for _, header in fetched_batches(records, count_min=CLEANED))
    for each in hosted.log.aborted(start, end):
        yield _Data.AbortedTransaction(each.producer_id, each.first_offset)
