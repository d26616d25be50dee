"""Fetchers: for each leader one task, which fetches for all partitions that follow it (R57–R60)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from quorate.errors import ApiError, Corrupt, ErrorCode, error_of
from quorate.network.client import Connection, Timeouts
from quorate.nouns import NodeId, OffsetAndEpoch
from quorate.replication import (
    AskRange,
    Batch,
    Diverged,
    FetchAt,
    Fetched,
    Following,
    Phase,
    Range,
    Refused,
    Truncate,
)
from quorate.replication.following import FollowerRequest, LeaderAnswer
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from quorate.wire.batch import CLEANED, fetched_batches
from services.broker.fetching_session import Bounds, FetchingSession
from services.broker.replicas import Replicas
from services.broker.table import Hosted, Key

__all__ = ["LeaderFetchers"]

log = logger(__name__)

WAIT_MS: Final = 500
"""Kafka's `replica.fetch.wait.max.ms`."""
PARTITION_BYTES_MAX: Final = 1 << 20
"""Kafka's `replica.fetch.max.bytes`."""
RESPONSE_BYTES_MAX: Final = 10 << 20
"""Kafka's `replica.fetch.response.max.bytes`."""
TIMEOUTS: Final = Timeouts(connect_ms=10_000, request_ms=30_000)
"""Kafka's `replica.socket.timeout.ms`."""
EARLIEST: Final = -2
LATEST: Final = -1

_Partition = FetchRequest.FetchTopic.FetchPartition
_Data = FetchResponse.FetchableTopicResponse.PartitionData
_Asked = ListOffsetsRequest.ListOffsetsTopic


class _Part(NamedTuple):
    """One partition's part of a round, by the role that it had when the request was made."""

    hosted: Hosted
    role: Following
    request: FollowerRequest


ConnectTo = Callable[[NodeId, Timeouts], Awaitable[Connection]]
"""Connects to a broker as a broker. Raises OSError, ApiError."""


class LeaderFetchers:
    """All fetchers of this broker: one task for each leader that it follows. They run in `tasks`."""

    def __init__(
        self,
        replicas: Replicas,
        tasks: asyncio.TaskGroup,
        *,
        broker_epoch: Callable[[], int],
        connect_to: ConnectTo,
        cluster_id: str,
    ) -> None:
        self._replicas = replicas
        self._tasks = tasks
        self._broker_epoch = broker_epoch
        self._connect_to = connect_to
        self._cluster_id = cluster_id
        self._fetchers: dict[NodeId, _Fetcher] = {}
        self._leaders: dict[Key, NodeId] = {}

    def start(self, hosted: Hosted, leader_id: NodeId) -> None:
        """Fetches a replica from this leader alone from now on; the first one of a leader begins a task of its own."""
        self.stop(hosted)
        if leader_id not in self._fetchers:
            fetcher = _Fetcher(
                self._replicas, leader_id, self._connect_to, broker_epoch=self._broker_epoch, cluster=self._cluster_id
            )
            self._fetchers[leader_id] = fetcher
            fetcher.task = self._tasks.create_task(fetcher.run())
        self._fetchers[leader_id].add(hosted)
        self._leaders[hosted.key] = leader_id

    def look_again(self, hosted: Hosted) -> None:
        """Has a replica looked at in the next round of fetches: its log has changed by something else than a fetch."""
        if (leader_id := self._leaders.get(hosted.key)) is not None:
            self._fetchers[leader_id].look_again(hosted.key)

    def stop(self, hosted: Hosted) -> None:
        """Stops fetching a replica, if it is fetched; the task of a leader without any other one is cancelled.

        The answer that is on its way is not taken, as the replica has another role by then.
        """
        leader_id = self._leaders.pop(hosted.key, None)
        if leader_id is not None and self._fetchers[leader_id].remove(hosted):
            fetcher = self._fetchers.pop(leader_id)
            assert fetcher.task is not None, leader_id
            fetcher.task.cancel()


class _Fetcher:
    """Fetches from one leader: a round is one request for all partitions that have something to ask for.

    Most have the same to ask for as before, and the leader knows it (KIP-227). Those rest: a round looks at the others.
    """

    def __init__(
        self,
        replicas: Replicas,
        leader_id: NodeId,
        connect_to: ConnectTo,
        *,
        broker_epoch: Callable[[], int],
        cluster: str,
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self._replicas = replicas
        self._leader_id = leader_id
        self._connect_to = connect_to
        self._broker_epoch = broker_epoch
        self._cluster_id = cluster
        self._awake: dict[Key, Hosted] = {}
        """The one fetched longest ago first (KIP-74)."""
        self._resting: dict[Key, _Part] = {}
        self._news = asyncio.Event()
        self._connection: Connection | None = None
        self._session = FetchingSession()
        self._wanted: dict[Key, tuple[FetchAt, _Partition]] = {}
        """The last request, by partition: of most it is the same the next time."""
        self._told = ChangeFilter()

    def add(self, hosted: Hosted) -> None:
        assert hosted.key not in self._awake, hosted.name
        assert hosted.key not in self._resting, hosted.name
        self._awake[hosted.key] = hosted
        self._news.set()

    def remove(self, hosted: Hosted) -> bool:
        """Stops fetching a partition. Returns whether no other one is fetched from this leader."""
        self._awake.pop(hosted.key, None)
        self._resting.pop(hosted.key, None)
        self._wanted.pop(hosted.key, None)
        self._session.forget(hosted.key)
        return not (self._awake or self._resting)

    def look_again(self, key: Key) -> None:
        """Looks at a partition in the next round: its log has changed by itself."""
        if (part := self._resting.pop(key, None)) is not None:
            self._awake[key] = part.hosted

    async def run(self) -> None:
        """Fetches until cancelled."""
        try:
            while True:
                parts = list(self._due())
                if parts or self._resting:
                    await self._round(parts)
                else:
                    await self._pause()
        finally:
            if self._connection is not None:
                self._connection.abort()

    def _due(self) -> Iterator[_Part]:
        """Yields what the next round asks for; what rests is among it if the leader knows nothing of this reader."""
        if self._connection is None or not self._connection.is_open:
            self._session.end()
        if self._session.is_new:
            self._rouse()
        now_ms = self._replicas.now_ms
        for hosted in tuple(self._awake.values()):
            role = hosted.following
            request = None if role is None else role.next_request(now_ms)
            if role is not None and request is not None:
                yield _Part(hosted, role, request)
            if not isinstance(request, FetchAt):
                self._session.forget(hosted.key)

    def _rouse(self) -> list[_Part]:
        """Returns those that have rested; they are looked at in the next round."""
        roused, self._resting = list(self._resting.values()), {}
        self._awake |= {part.hosted.key: part.hosted for part in roused}
        return roused

    async def _pause(self) -> None:
        """Waits until another partition comes, or the first of these has waited after a refusal."""
        resumes_ms = self._resumes_ms()
        self._news.clear()
        try:
            async with asyncio.timeout(None if resumes_ms is None else resumes_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            return

    def _resumes_ms(self) -> int | None:
        """Returns in how many ms the first of those that were refused is asked for again; None if there are none."""
        now_ms = self._replicas.now_ms
        roles = [role for hosted in self._awake.values() if (role := hosted.following) is not None]
        return min((role.resume_at_ms - now_ms for role in roles if role.resume_at_ms > now_ms), default=None)

    async def _round(self, parts: Sequence[_Part]) -> None:
        try:
            connection = await self._connected()
            parts = [part for part in parts if part.hosted.partition.role is part.role]  # that may have taken long
            fetches = [part for part in parts if isinstance(part.request, FetchAt)]
            ranges = [part for part in parts if isinstance(part.request, AskRange)]
            if fetches or self._resting:
                await self._fetch(connection, fetches)
            if ranges:
                await self._take(ranges, await self._ranges(connection, ranges))
            self._told.settle("leader")
        except (OSError, ApiError) as problem:
            if self._told.passes("leader", str(problem), asyncio.get_running_loop().time()):
                log.warning("a leader gives nothing", leader_id=self._leader_id, reason=str(problem))
            await self._take([*parts, *self._rouse()], {})

    async def _connected(self) -> Connection:
        """Returns the connection to the leader. Raises OSError, ApiError."""
        if self._connection is None or not self._connection.is_open:
            self._connection = await self._connect_to(self._leader_id, TIMEOUTS)
        return self._connection

    async def _take(self, parts: Sequence[_Part], answers: Mapping[Key, LeaderAnswer | Bounds]) -> None:
        """Gives each partition its answer, as far as it says anything; one that has none was not reached.

        After a truncation others have a turn: the states of the producers are read anew.
        """
        lost = Refused(ErrorCode.NETWORK_EXCEPTION)
        for part in parts:
            now_ms = self._replicas.now_ms
            hosted, role, request = part
            answer = answers.get(hosted.key, lost)
            if self._awake.get(hosted.key) is hosted:  # to the end of the order
                self._awake[hosted.key] = self._awake.pop(hosted.key)
            if hosted.partition.role is not role:
                continue
            if isinstance(answer, Bounds) and role.has_taken(*answer):
                self._lay_to_rest(part, now_ms)
                continue
            effects = role.take(request, _taken(answer), now_ms=now_ms)
            self._replicas.carry_out(hosted, effects)
            self._tell(hosted, role)
            if any(isinstance(effect, Truncate) for effect in effects):
                await asyncio.sleep(0)

    def _tell(self, hosted: Hosted, role: Following) -> None:
        """Writes a line if a follower has failed, or refuses what its leader sends."""
        if not role.failure:
            self._told.settle(hosted.key)
        elif role.is_fenced:  # in each orderly stop of a leader
            log.info("a follower waits for the metadata log", partition=str(hosted.name), reason=role.failure)
        elif role.phase is Phase.FAILED:
            log.error("a follower has failed", partition=str(hosted.name), reason=role.failure)
        elif self._told.passes(hosted.key, role.failure, asyncio.get_running_loop().time()):
            log.warning("a leader's batches are fetched again", partition=str(hosted.name), reason=role.failure)

    def _lay_to_rest(self, part: _Part, now_ms: int) -> None:
        """Lets a partition rest whose answer has changed nothing, if it would ask for the same again."""
        key = part.hosted.key
        is_as_before = part.role.next_request(now_ms) is part.request
        if is_as_before and not self._session.is_new and self._awake.get(key) is part.hosted:
            assert key not in self._resting, part.hosted.name
            del self._awake[key]
            self._resting[key] = part

    def _want(self, part: _Part) -> _Partition:
        wanted = self._wanted.get(part.hosted.key)
        if wanted is not None and wanted[0] is part.request:
            return wanted[1]
        assert isinstance(part.request, FetchAt), part.request
        wanted = self._wanted[part.hosted.key] = part.request, _wanted(part.hosted.key.partition_id, part.request)
        return wanted[1]

    async def _fetch(self, connection: Connection, parts: Sequence[_Part]) -> None:
        """Asks for records, also of those that rest, and takes the answer. Raises OSError, ApiError.

        A session that has ended is begun anew with the next round, at once.
        """
        about = FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=FetchRequest.ReplicaState(self._replicas.broker_id, self._broker_epoch()),
            max_wait_ms=WAIT_MS if (resumes_ms := self._resumes_ms()) is None else min(WAIT_MS, resumes_ms),
            min_bytes=1,
            max_bytes=RESPONSE_BYTES_MAX,
        )
        wanted = {part.hosted.key: self._want(part) for part in parts}
        answer = await connection.ask_for(FetchResponse, self._session.request(wanted, about))
        found = self._session.take(answer)
        if found is None:
            return
        if answer.error_code:
            raise ApiError(error_of(answer.error_code), "the fetch as a whole is refused")
        woken = [self._resting[key] for key in found if key in self._resting]
        for part in woken:
            self.look_again(part.hosted.key)
        for key in found.keys() - wanted.keys() - {part.hosted.key for part in woken}:
            self._session.forget(key)  # it has gone meanwhile
        answers: dict[Key, LeaderAnswer | Bounds] = {key: answer_of(each) for key, each in found.items()}
        for key in wanted.keys() - found.keys():
            if (told := self._session.told(key)) is not None:
                answers[key] = told
        await self._take([*parts, *woken], answers)

    async def _ranges(self, connection: Connection, parts: Sequence[_Part]) -> dict[Key, LeaderAnswer]:
        """Asks for the leader's log start and log end. Raises OSError, ApiError."""
        bounds: list[dict[Key, int | ErrorCode]] = []
        for timestamp in (EARLIEST, LATEST):
            request = ListOffsetsRequest(
                replica_id=self._replicas.broker_id,
                topics=tuple(_asked(part, timestamp) for part in parts),
            )
            answer = await connection.ask_for(ListOffsetsResponse, request)
            keys = {part.hosted.name: part.hosted.key for part in parts}
            bounds.append(
                {
                    keys[name]: error_of(each.error_code) if each.error_code else each.offset
                    for topic in answer.topics
                    for each in topic.partitions
                    if (name := (topic.name, each.partition_index)) in keys
                }
            )
        starts, ends = bounds
        return {key: _range(start, ends[key]) for key, start in starts.items() if key in ends}


def _wanted(partition_id: int, request: FetchAt) -> _Partition:
    return _Partition(
        partition=partition_id,
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        log_start_offset=request.log_start,
        partition_max_bytes=PARTITION_BYTES_MAX,
    )


def _taken(answer: LeaderAnswer | Bounds) -> LeaderAnswer:
    if isinstance(answer, Bounds):
        return Fetched(batches=(), high_watermark=answer.high_watermark, log_start=answer.log_start)
    return answer


def answer_of(data: _Data) -> LeaderAnswer:
    """Returns one partition's part of a Fetch response, as a follower takes it: Refused, Diverged or Fetched.

    Batches that are damaged make it Refused(CORRUPT_MESSAGE); one that is cut off at the end is left out.
    """
    if data.error_code:
        return Refused(error_of(data.error_code))
    if data.diverging_epoch.end_offset >= 0:
        end = OffsetAndEpoch(epoch=data.diverging_epoch.epoch, offset=data.diverging_epoch.end_offset)
        return Diverged(end=end, log_start=data.log_start_offset)
    records = memoryview(data.records or b"")
    try:
        batches = tuple(
            Batch(
                base_offset=header.base_offset,
                end_offset=header.next_offset,
                epoch=header.epoch,
                data=records[position : position + header.size],
            )
            for position, header in fetched_batches(records, count_min=CLEANED)
        )
    except Corrupt as damage:
        return Refused(ErrorCode.CORRUPT_MESSAGE, str(damage))
    return Fetched(batches=batches, high_watermark=data.high_watermark, log_start=data.log_start_offset)


def _asked(part: _Part, timestamp: int) -> _Asked:
    asked = _Asked.ListOffsetsPartition(
        partition_index=part.hosted.key.partition_id, current_leader_epoch=part.role.leader_epoch, timestamp=timestamp
    )
    return _Asked(name=part.hosted.name.topic, partitions=(asked,))


def _range(start: int | ErrorCode, end: int | ErrorCode) -> LeaderAnswer:
    for bound in (start, end):
        if isinstance(bound, ErrorCode):
            return Refused(bound)
    return Range(start=int(start), leo=int(end))
