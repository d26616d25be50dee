"""An observer's fetch loop: follows the metadata log of a quorum over gRPC and yields committed batches.

Nothing is stored on disk. Batches above the high watermark are kept in memory, and are dropped if the leader reports
a diverging epoch (KIP-595).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from kraft.api import fetch_pb2
from kraft.service.quorum_pb2 import FindQuorumRequest, FindQuorumResponse, RelayFetchResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import Corrupt, ErrorCode, error_name
from quorate.nouns import NOBODY, Epoch, NodeId, Offset, uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.following.leader_reports import LeaderReports
from quorate.runtime.following.log_requests import LogPosition
from quorate.runtime.following.log_servers import LogServers
from quorate.runtime.logging.logs import logger
from quorate.runtime.requests.decoding import parsed
from quorate.wire.batch import BatchHeader, batches, check_batch

log = logger(__name__)

FETCH_WAIT_MS: Final = 500
RETRY_S: Final = 0.1
"""The pause in seconds after a failed fetch, before the next node is tried, and after an answer that came early without
news: a server holds only so many fetches."""
HINTED_RETRY_S: Final = 0.01
"""The pause in seconds before the reported leader is tried: two nodes may name each other as the leader."""
PAUSE_S: Final = 0.01
"""The pause in seconds after an answer with all that there is: what comes meanwhile is fetched in one answer."""
DEADLINE_S: Final = 5.0
LOOK_AGAIN_S: Final = 5.0
"""How long (s) a follower is read in place of a leader without an address, before that is asked for again."""
FOLLOWER_LOOK_S: Final = 60.0
"""How long (s) the leader is read because no follower was found, before followers are looked for again."""
SILENT_MS_MAX: Final = 5_000
"""The time in ms after which a relay without contact to the leader is left: it may be partitioned from the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """A batch below the high watermark: its header, and its bytes with a valid checksum."""

    header: BatchHeader
    data: bytes
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSnapshot:
    """A whole checkpoint, which replaces the log before `end_offset` (exclusive)."""

    end_offset: Offset
    epoch: Epoch
    data: bytes


Event = CommittedBatch | LoadedSnapshot


class LogReader:
    """Reads committed batches from offset 0 or from a snapshot, across leader changes.

    `replica_id` is the reader's node id in the leader's list of observers; NOBODY keeps it out of the list. With
    `from_any` it fetches from followers in `servers`, which takes load off the leader, and only reports to the leader
    how far it is; it fetches from the leader if no follower answers. Without, it fetches from a follower while the
    leader has no address for gRPC: such a leader is a Kafka controller, whose log is read from one of our followers.
    `start` is an offset and the epoch of the record before it, both of which the log is known to have. `on_change`
    hears when another leader or epoch is reported, or none.

    It reads the log of one cluster: of `cluster_id`, or of the first node that answers. Every request carries the
    cluster id, and a node of another cluster is skipped.
    """

    def __init__(
        self,
        servers: Sequence[str],
        connect: Callable[[str], grpc.aio.Channel],
        *,
        cluster_id: str | None = None,
        replica_id: NodeId = NOBODY,
        from_any: bool = False,
        start: tuple[Offset, Epoch] = (0, 0),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._from_any = from_any
        self._on_change = on_change
        self._servers = LogServers(servers, connect, from_any=from_any)
        self.delivered, self._delivered_epoch = start
        self._position = LogPosition(
            replica_id=replica_id,
            directory_id=uuid_text(random_uuid()),
            cluster_id=cluster_id,
            fetched=self.delivered,
            fetched_epoch=self._delivered_epoch,
        )
        is_unseen = from_any and replica_id != NOBODY
        self._reports = LeaderReports(self._servers, self._position) if is_unseen else None
        self.leader_id: NodeId = NOBODY
        """The node id of the leader in the last answer; NOBODY before it, if it is unknown, or if no answer comes."""
        self.leader_epoch: Epoch = -1
        """Its epoch; -1 where `leader_id` is."""
        self.voters: frozenset[NodeId] | None = None
        """The voters by the last FindQuorum, where one was asked for; None before."""
        self._is_relayed = False
        self._relayed_leader: NodeId | None = None
        """The leader that cannot be reached by gRPC, for whose log a follower is asked; None if there is none."""
        self._waiting: deque[tuple[BatchHeader, bytes]] = deque()

    async def events(self) -> AsyncIterator[Event]:
        """Yields committed batches and loaded snapshots in order, until cancelled. Failed fetches are tried elsewhere.

        It raises nothing for a server that fails, refuses or answers nonsense: it goes on with the next one.
        """
        while True:
            failure = ""
            try:
                async for event in self._stream():
                    yield event
            except grpc.aio.AioRpcError as status:
                failure = f"{status.code().name}: {status.details()}"
            except asyncio.InvalidStateError as over:  # gRPC raises this for a write on a stream that has just ended
                failure = str(over)
            except TimeoutError as late:
                failure = str(late) or "it does not answer in time"
            except Corrupt as damage:  # the rest of the answer is dropped, and fetched again from the next node
                failure = str(damage)
                log.warning("a fetch brought what does not fit", server=self._servers.at, reason=failure)
            if failure:
                log.debug("fetch failed", server=self._servers.at, reason=failure)
                self._hear(NOBODY, -1)  # what it said last may be long over
            leader = "none" if self.leader_id == NOBODY else str(self.leader_id)
            self._servers.failed(failure or f"the leader that it knows of: {leader}")
            await asyncio.sleep(HINTED_RETRY_S if self._servers.is_next_known else RETRY_S)
            self._servers.advance()

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster whose log is read; None until a node has reported it."""
        return self._position.cluster_id

    @property
    def high_watermark(self) -> Offset:
        """The highest high watermark that was reported: every record below it is committed."""
        return self._position.high_watermark

    @property
    def server(self) -> str:
        """The address of the server that is read, or that is asked next."""
        return self._servers.at

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether a follower is read because the leader has no address for gRPC."""
        return self._is_relayed

    async def close(self) -> None:
        """Closes every channel. `events` is to be cancelled first, or it opens others."""
        await self._servers.close()

    async def _stream(self) -> AsyncIterator[Event]:
        stub = self._servers.stub()
        found = await self._found(stub)
        if self._servers.skip_leader(found):
            return
        relayed, self._relayed_leader = self._relayed_leader, None
        is_relayed = self._from_any or relayed is not None
        call: Any = stub.RelayFetchStream() if is_relayed else stub.FetchStream()
        reports = None if self._reports is None else asyncio.ensure_future(self._reports.run())
        is_over = self._end_of_reading(found, relayed)
        try:
            while True:
                known, asked_at = self.high_watermark, asyncio.get_running_loop().time()
                await call.write(self._position.fetch(wait_ms=FETCH_WAIT_MS))
                # Not `wait_for`: before Python 3.12 it may lose a cancellation, and then this loop could not be ended.
                async with asyncio.timeout(FETCH_WAIT_MS / 1000 + DEADLINE_S):
                    answer = await call.read()
                if answer is grpc.aio.EOF:
                    return
                response = self._response_of(parsed(answer))
                if self._is_refused(response):
                    return
                partition = self._only(response.responses, "fetch")
                self._hear(partition.current_leader.leader_id, partition.current_leader.leader_epoch)
                if partition.error_code:
                    self._follow(response, partition)
                    return
                if is_over():
                    return
                self._is_relayed = relayed is not None
                if partition.HasField("snapshot_id") and partition.snapshot_id.end_offset >= 0:
                    yield await self._load(stub, partition, is_relayed=is_relayed)
                elif partition.HasField("diverging_epoch") and partition.diverging_epoch.epoch >= 0:
                    self._truncate(partition.diverging_epoch)
                else:
                    for event in self._take(partition):
                        yield event
                    self._servers.answered()
                    if partition.records and self._position.fetched >= self.high_watermark:
                        await asyncio.sleep(PAUSE_S)
                    elif not partition.records and self.high_watermark == known and _is_early(asked_at):
                        await asyncio.sleep(RETRY_S)
        finally:
            call.cancel()
            if reports is not None:
                reports.cancel()

    async def _found(self, stub: QuorumStub) -> FindQuorumResponse:
        """Asks the server for the leader if that is needed, and takes the cluster id if none is set."""
        if self.cluster_id is not None and not self._from_any:
            return FindQuorumResponse()
        found: FindQuorumResponse = parsed(await stub.FindQuorum(FindQuorumRequest(), timeout=DEADLINE_S))
        if self.cluster_id is None:
            self._position.cluster_id = found.cluster_id
        self.voters = frozenset(each.id for each in found.voters)
        return found

    def _hear(self, leader_id: NodeId, epoch: Epoch) -> None:
        if (leader_id, epoch) != (self.leader_id, self.leader_epoch):
            self.leader_id, self.leader_epoch = leader_id, epoch
            self._on_change()

    def _end_of_reading(self, found: FindQuorumResponse, relayed: NodeId | None) -> Callable[[], bool]:
        """Returns a function that says whether the server just read from should be left for the next one.

        A follower that is read for want of the leader's address (`relayed`): when another leads, or the address may
        have become known. Else, with `from_any`, a follower when it leads; the leader when followers may be back.
        """
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        has_led = found.leader_id == found.node_id

        def is_over() -> bool:
            if relayed is not None:
                return relayed != self.leader_id or loop.time() >= began_at + LOOK_AGAIN_S
            if not self._from_any or self._servers.is_sole:
                return False
            return loop.time() >= began_at + FOLLOWER_LOOK_S if has_led else self.leader_id == found.node_id

        return is_over

    def _response_of(self, answer: fetch_pb2.FetchResponse | RelayFetchResponse) -> fetch_pb2.FetchResponse:
        """Returns the fetch response. Raises TimeoutError if a relay has had no contact to the leader for too long."""
        if isinstance(answer, fetch_pb2.FetchResponse):
            return answer
        if answer.silent_ms > SILENT_MS_MAX:
            raise TimeoutError(f"{self._servers.at} has not heard the leader for {answer.silent_ms} ms")
        return answer.response

    @staticmethod
    def _only(topics: Sequence[Any], what: str) -> Any:
        """Returns the one partition of an answer. Raises Corrupt if the answer has another number of partitions."""
        partitions = [each for topic in topics for each in topic.partitions]
        if len(partitions) != 1:
            raise Corrupt(f"the answer to a {what} has {len(partitions)} partitions; one was asked for")
        return partitions[0]

    def _is_refused(self, response: fetch_pb2.FetchResponse) -> bool:
        """Returns whether the whole request was refused. Leaders named by a node of another cluster are ignored."""
        partitions = [each for topic in response.responses for each in topic.partitions]
        codes = {int(response.error_code), *(int(each.error_code) for each in partitions)}
        if int(ErrorCode.INCONSISTENT_CLUSTER_ID) in codes:
            log.warning("a node of another cluster is passed over", server=self._servers.at, cluster_id=self.cluster_id)
        elif response.error_code:
            log.warning("fetch refused", server=self._servers.at, error_code=int(response.error_code))
        return bool(response.error_code) or int(ErrorCode.INCONSISTENT_CLUSTER_ID) in codes

    def _take(self, partition: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData) -> list[Event]:
        data, position = partition.records, self._position
        for at, header in batches(data):
            check_batch(data, at)
            if header.base_offset != position.fetched:  # the batch's checksum does not cover it
                raise Corrupt(f"a batch at offset {header.base_offset} came, where {position.fetched} follows")
            self._waiting.append((header, data[at : at + header.size]))
            position.fetched, position.fetched_epoch = header.next_offset, header.epoch
        position.high_watermark = max(position.high_watermark, partition.high_watermark)
        committed: list[Event] = []
        while self._waiting and self._waiting[0][0].next_offset <= position.high_watermark:
            header, batch = self._waiting.popleft()
            self.delivered, self._delivered_epoch = header.next_offset, header.epoch
            committed.append(CommittedBatch(header=header, data=batch, high_watermark=position.high_watermark))
        return committed

    def _truncate(self, diverging: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset) -> None:
        """Drops the batches after the diverging epoch's end offset: the leader does not have them.

        Raises Corrupt if there are none to drop: the next fetch would get the same answer.
        """
        position = self._position
        fetched = position.fetched
        while self._waiting:
            header, _ = self._waiting[-1]
            if header.epoch <= diverging.epoch and header.next_offset <= diverging.end_offset:
                break
            self._waiting.pop()
        kept = self._waiting[-1][0] if self._waiting else None
        position.fetched = kept.next_offset if kept else self.delivered
        position.fetched_epoch = kept.epoch if kept else self._delivered_epoch
        if position.fetched == fetched:
            end = f"offset {diverging.end_offset} in epoch {diverging.epoch}"
            raise Corrupt(f"the log is said to diverge after {end}, which leaves nothing to drop before {fetched}")
        log.info("truncated what was not committed", to=position.fetched, epoch=diverging.epoch)

    async def _load(
        self,
        stub: QuorumStub,
        partition: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData,
        *,
        is_relayed: bool,
    ) -> LoadedSnapshot:
        wanted = partition.snapshot_id
        if wanted.end_offset < self.delivered:
            raise Corrupt(f"a snapshot up to {wanted.end_offset} is to be loaded, and {self.delivered} was committed")
        parts = bytearray()
        while True:
            request = self._position.fetch_snapshot(wanted, len(parts))
            if is_relayed:
                answer = parsed(await stub.RelayFetchSnapshot(request, timeout=DEADLINE_S)).response
            else:
                answer = parsed(await stub.FetchSnapshot(request, timeout=DEADLINE_S))
            if answer.error_code:  # an error of the whole request names no partition
                raise TimeoutError(f"snapshot {wanted.end_offset}: error {answer.error_code}")
            piece = self._only(answer.topics, "snapshot")
            if piece.error_code:
                raise TimeoutError(f"snapshot {wanted.end_offset}: {error_name(piece.error_code)}")
            if piece.position != len(parts):
                raise Corrupt(f"snapshot {wanted.end_offset}: byte {piece.position} came, where {len(parts)} follows")
            parts += piece.unaligned_records
            if len(parts) >= piece.size:
                break
            if not piece.unaligned_records:
                raise Corrupt(f"snapshot {wanted.end_offset}: nothing came at byte {len(parts)} of {piece.size}")
        if not parts:
            raise Corrupt(f"snapshot {wanted.end_offset}: a checkpoint of no bytes")
        for position, _ in batches(data := bytes(parts)):
            check_batch(data, position)
        self._waiting.clear()
        self._position.fetched = self.delivered = wanted.end_offset
        self._position.fetched_epoch = self._delivered_epoch = wanted.epoch
        # Not before what waited is dropped: of a log that diverged, it would count as committed.
        self._position.high_watermark = max(self.high_watermark, wanted.end_offset, partition.high_watermark)
        return LoadedSnapshot(end_offset=wanted.end_offset, epoch=wanted.epoch, data=data)

    def _follow(
        self,
        response: fetch_pb2.FetchResponse,
        partition: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData,
    ) -> None:
        """Sets the reported leader as the node to try next, and takes its epoch: not of one that is deposed."""
        leader, position = partition.current_leader, self._position
        is_deposed = leader.leader_epoch < position.epoch
        position.epoch = max(position.epoch, leader.leader_epoch)
        if not self._from_any and leader.leader_id >= 0 and not is_deposed:
            at = next((each for each in response.node_endpoints if each.node_id == leader.leader_id), None)
            # After FENCED_LEADER_EPOCH and the like, the node that answers may be the leader itself.
            is_elsewhere = at is None and int(partition.error_code) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._relayed_leader = leader.leader_id if is_elsewhere else None
            self._servers.turn_to(self._servers.at if at is None else f"{at.host}:{at.port}")
        log.debug("redirected", error=error_name(partition.error_code), leader=leader.leader_id, epoch=position.epoch)


def _is_early(asked_at: float) -> bool:
    """Whether less than half of a fetch's wait has passed since `asked_at`: its server did not hold it for news."""
    return asyncio.get_running_loop().time() < asked_at + FETCH_WAIT_MS / 2000
