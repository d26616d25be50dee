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

from kraft.api import fetch_pb2, fetch_snapshot_pb2
from kraft.service.quorum_pb2 import FindQuorumRequest, RelayFetchResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import Corrupt, ErrorCode, error_name
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID, Epoch, NodeId, Offset, uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.logs import logger
from quorate.wire.batch import BatchHeader, batches, check_batch

log = logger(__name__)

FETCH_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
RETRY_S: Final = 0.1
"""The pause in seconds after a failed fetch, before the next node is tried."""
HINTED_RETRY_S: Final = 0.01
"""The pause in seconds before the reported leader is tried: two nodes may name each other as the leader."""
PAUSE_S: Final = 0.01
"""The pause in seconds after an answer with all that there is: what comes meanwhile is fetched in one answer."""
DEADLINE_S: Final = 5.0
LOOK_AGAIN_S: Final = 5.0
"""How long (s) a follower is read in place of a leader without an address, before that is asked for again."""
SILENT_MS_MAX: Final = 5_000
"""The time in ms after which a relay without contact to the leader is left: it may be partitioned from the others."""

_TOPIC_ID: Final = uuid_text(METADATA_TOPIC_ID)


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

    `replica_id` is the reader's node id in the leader's list of observers; -1 keeps it out of the list. With
    `from_any` it fetches from followers in `servers`, too, which takes load off the leader. Without, it does so while
    the leader has no address for gRPC: then it is a Kafka's controller, and a follower is the way to its log.

    It reads the log of one cluster: of `cluster_id`, or of the first node that answers. Every request carries the
    cluster id, and a node of another cluster is skipped.
    """

    def __init__(
        self,
        servers: Sequence[str],
        connect: Callable[[str], grpc.aio.Channel],
        *,
        cluster_id: str | None = None,
        replica_id: NodeId = -1,
        from_any: bool = False,
    ) -> None:
        assert servers
        self._from_any = from_any
        self._servers = deque(servers)
        self._connect = connect
        self.cluster_id = cluster_id
        self.leader_id: NodeId = -1
        """The node id of the leader in the last answer; -1 before the first answer, or if it is unknown."""
        self._replica_id = replica_id
        # It tells readers of one node id, or of none, from each other, so that the leader can park a fetch of each.
        self._directory_id = uuid_text(random_uuid())
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._at = servers[0]
        self._hint: str | None = None
        self._is_relayed = False
        self._relayed_leader: NodeId | None = None
        """The leader that cannot be reached by gRPC, for whose log a follower is asked; None if there is none."""
        self._epoch: Epoch = 0
        self._last_epoch: Epoch = 0
        self._fetched: Offset = 0
        self._delivered_epoch: Epoch = 0
        self._waiting: deque[tuple[BatchHeader, bytes]] = deque()
        self.high_watermark: Offset = 0
        self.delivered: Offset = 0

    async def events(self) -> AsyncIterator[Event]:
        """Yields committed batches and loaded snapshots in order, until cancelled. Failed fetches are retried."""
        while True:
            try:
                async for event in self._stream():
                    yield event
            except grpc.aio.AioRpcError as failure:
                log.debug("fetch failed", server=self._at, status=failure.code().name, details=failure.details())
            except asyncio.InvalidStateError as failure:  # gRPC raises this for a write on a stream that has just ended
                log.debug("fetch failed", server=self._at, reason=str(failure))
            except TimeoutError:
                log.debug("fetch timed out", server=self._at)
            except Corrupt as damage:  # the rest of the answer is dropped, and fetched again from the next node
                log.warning("a fetch brought what does not fit", server=self._at, reason=str(damage))
            await asyncio.sleep(RETRY_S if self._hint is None else HINTED_RETRY_S)
            self._at = self._next_server()

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether a follower is read because the leader has no address for gRPC."""
        return self._is_relayed

    async def close(self) -> None:
        """Closes every channel."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _stream(self) -> AsyncIterator[Event]:
        stub = QuorumStub(self._channel(self._at))
        if self.cluster_id is None:
            self.cluster_id = (await stub.FindQuorum(FindQuorumRequest(), timeout=DEADLINE_S)).cluster_id
        relayed, self._relayed_leader = self._relayed_leader, None
        loop, is_relayed = asyncio.get_running_loop(), self._from_any or relayed is not None
        look_again_at = loop.time() + LOOK_AGAIN_S
        call: Any = stub.RelayFetchStream() if is_relayed else stub.FetchStream()
        try:
            while True:
                await call.write(self._request())
                # Not `wait_for`: before Python 3.12 it may lose a cancellation, and then this loop could not be ended.
                async with asyncio.timeout(FETCH_WAIT_MS / 1000 + DEADLINE_S):
                    answer = await call.read()
                if answer is grpc.aio.EOF:
                    return
                response = self._response_of(answer)
                if self._is_refused(response):
                    return
                partition = self._only(response.responses, "fetch")
                self.leader_id = partition.current_leader.leader_id
                if partition.error_code:
                    self._follow(response, partition)
                    return
                if relayed is not None and (relayed != self.leader_id or loop.time() >= look_again_at):
                    return  # another leads now, or its address may have become known: the next node is asked for it
                self._is_relayed = relayed is not None
                if partition.HasField("snapshot_id") and partition.snapshot_id.end_offset >= 0:
                    yield await self._load(stub, partition.snapshot_id, is_relayed=is_relayed)
                elif partition.HasField("diverging_epoch") and partition.diverging_epoch.epoch >= 0:
                    self._truncate(partition.diverging_epoch)
                else:
                    for event in self._take(partition):
                        yield event
                    if partition.records and self._fetched >= self.high_watermark:
                        await asyncio.sleep(PAUSE_S)
        finally:
            call.cancel()

    def _response_of(self, answer: fetch_pb2.FetchResponse | RelayFetchResponse) -> fetch_pb2.FetchResponse:
        """Returns the fetch response. Raises TimeoutError if a relay has had no contact to the leader for too long."""
        if isinstance(answer, fetch_pb2.FetchResponse):
            return answer
        if answer.silent_ms > SILENT_MS_MAX:
            raise TimeoutError(f"{self._at} has not heard the leader for {answer.silent_ms} ms")
        return answer.response

    @staticmethod
    def _only(topics: Sequence[Any], what: str) -> Any:
        """Returns the one partition of an answer. Raises Corrupt if the answer has another number of partitions."""
        partitions = [each for topic in topics for each in topic.partitions]
        if len(partitions) != 1:
            raise Corrupt(f"the answer to a {what} has {len(partitions)} partitions; one was asked for")
        return partitions[0]

    def _is_refused(self, response: fetch_pb2.FetchResponse) -> bool:
        """Returns whether the whole request was refused. What a node of another cluster says of leaders is ignored."""
        partitions = [each for topic in response.responses for each in topic.partitions]
        codes = {int(response.error_code), *(int(each.error_code) for each in partitions)}
        if int(ErrorCode.INCONSISTENT_CLUSTER_ID) in codes:
            log.warning("a node of another cluster is passed over", server=self._at, cluster_id=self.cluster_id)
        elif response.error_code:
            log.warning("fetch refused", server=self._at, error_code=int(response.error_code))
        return bool(response.error_code) or int(ErrorCode.INCONSISTENT_CLUSTER_ID) in codes

    def _request(self) -> fetch_pb2.FetchRequest:
        return fetch_pb2.FetchRequest(
            cluster_id=self.cluster_id,
            replica_state=fetch_pb2.FetchRequest.ReplicaState(replica_id=self._replica_id),
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=FETCH_BYTES_MAX,
            session_epoch=-1,
            topics=[
                fetch_pb2.FetchRequest.FetchTopic(
                    topic_id=_TOPIC_ID,
                    partitions=[
                        fetch_pb2.FetchRequest.FetchTopic.FetchPartition(
                            partition=METADATA_PARTITION,
                            current_leader_epoch=self._epoch,
                            fetch_offset=self._fetched,
                            last_fetched_epoch=self._last_epoch,
                            high_watermark=self.high_watermark,
                            replica_directory_id=self._directory_id,
                        )
                    ],
                )
            ],
        )

    def _take(self, partition: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData) -> list[Event]:
        data = partition.records
        for position, header in batches(data):
            check_batch(data, position)
            if header.base_offset != self._fetched:  # the batch's checksum does not cover it
                raise Corrupt(f"a batch at offset {header.base_offset} came, where {self._fetched} follows")
            self._waiting.append((header, data[position : position + header.size]))
            self._fetched, self._last_epoch = header.next_offset, header.epoch
        self.high_watermark = max(self.high_watermark, partition.high_watermark)
        committed: list[Event] = []
        while self._waiting and self._waiting[0][0].next_offset <= self.high_watermark:
            header, batch = self._waiting.popleft()
            self.delivered, self._delivered_epoch = header.next_offset, header.epoch
            committed.append(CommittedBatch(header=header, data=batch, high_watermark=self.high_watermark))
        return committed

    def _truncate(self, diverging: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset) -> None:
        """Drops the batches after the diverging epoch's end offset: the leader does not have them.

        Raises Corrupt if there are none to drop: the next fetch would get the same answer.
        """
        fetched = self._fetched
        while self._waiting:
            header, _ = self._waiting[-1]
            if header.epoch <= diverging.epoch and header.next_offset <= diverging.end_offset:
                break
            self._waiting.pop()
        kept = self._waiting[-1][0] if self._waiting else None
        self._fetched = kept.next_offset if kept else self.delivered
        self._last_epoch = kept.epoch if kept else self._delivered_epoch
        if self._fetched == fetched:
            end = f"offset {diverging.end_offset} in epoch {diverging.epoch}"
            raise Corrupt(f"the log is said to diverge after {end}, which leaves nothing to drop before {fetched}")
        log.info("truncated what was not committed", to=self._fetched, epoch=diverging.epoch)

    async def _load(
        self,
        stub: QuorumStub,
        wanted: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData.SnapshotId,
        *,
        is_relayed: bool,
    ) -> LoadedSnapshot:
        if wanted.end_offset < self.delivered:
            raise Corrupt(f"a snapshot up to {wanted.end_offset} is to be loaded, and {self.delivered} was committed")
        parts = bytearray()
        while True:
            request = self._snapshot_request(wanted, len(parts))
            if is_relayed:
                answer = (await stub.RelayFetchSnapshot(request, timeout=DEADLINE_S)).response
            else:
                answer = await stub.FetchSnapshot(request, timeout=DEADLINE_S)
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
        self._fetched = self.delivered = wanted.end_offset
        self._last_epoch = self._delivered_epoch = wanted.epoch
        self.high_watermark = max(self.high_watermark, wanted.end_offset)
        return LoadedSnapshot(end_offset=wanted.end_offset, epoch=wanted.epoch, data=data)

    def _snapshot_request(
        self,
        wanted: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData.SnapshotId,
        position: int,
    ) -> fetch_snapshot_pb2.FetchSnapshotRequest:
        topic = fetch_snapshot_pb2.FetchSnapshotRequest.TopicSnapshot
        partition = topic.PartitionSnapshot(
            partition=METADATA_PARTITION,
            current_leader_epoch=self._epoch,
            snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=position,
        )
        return fetch_snapshot_pb2.FetchSnapshotRequest(
            cluster_id=self.cluster_id,
            replica_id=self._replica_id,
            max_bytes=FETCH_BYTES_MAX,
            topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
        )

    def _follow(
        self,
        response: fetch_pb2.FetchResponse,
        partition: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData,
    ) -> None:
        """Sets the reported leader as the node to try next, and takes its epoch."""
        leader = partition.current_leader
        if leader.leader_epoch > self._epoch or (leader.leader_epoch == self._epoch and leader.leader_id >= 0):
            self._epoch = leader.leader_epoch
        if not self._from_any and leader.leader_id >= 0:
            at = next((each for each in response.node_endpoints if each.node_id == leader.leader_id), None)
            # After FENCED_LEADER_EPOCH and the like, the node that answers may be the leader itself.
            is_elsewhere = at is None and int(partition.error_code) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._relayed_leader = leader.leader_id if is_elsewhere else None
            self._hint = self._at if at is None else f"{at.host}:{at.port}"
        log.debug("redirected", error=error_name(partition.error_code), leader=leader.leader_id, epoch=self._epoch)

    def _next_server(self) -> str:
        """Returns the reported leader, or else the next server in turn."""
        hint, self._hint = self._hint, None
        if hint is not None:
            return hint
        self._servers.rotate(-1)
        return self._servers[0]

    def _channel(self, server: str) -> grpc.aio.Channel:
        if server not in self._channels:
            self._channels[server] = self._connect(server)
        return self._channels[server]
