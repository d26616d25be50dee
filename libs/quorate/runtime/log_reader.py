"""Follows the metadata log of a quorum over gRPC and hands on what is committed: an observer's fetch loop.

Nothing is kept on disk. What was fetched but is not yet below the high watermark waits here, and is
dropped again when the leader's log turns out to be another one (KIP-595, diverging epochs).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from kraft.api import fetch_pb2, fetch_snapshot_pb2
from kraft.service.quorum_pb2 import RelayFetchResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID, Epoch, NodeId, Offset, uuid_text
from quorate.runtime.logs import logger
from quorate.wire.batch import BatchHeader, batches, check_batch

log = logger(__name__)

FETCH_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
RETRY_S: Final = 0.1
"""Pause after a node could not be reached or could not answer, before the next is asked."""
HINTED_RETRY_S: Final = 0.01
"""Pause before the node is asked that was named as the leader: two that name each other are not asked in a rush."""
DEADLINE_S: Final = 5.0
SILENT_MS_MAX: Final = 5_000
"""A relay that has not heard the leader for longer is left for another: it may be cut off from the others."""

_TOPIC_ID: Final = uuid_text(METADATA_TOPIC_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """One batch below the high watermark: its header, and its bytes, checked."""

    header: BatchHeader
    data: bytes
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSnapshot:
    """A whole checkpoint that takes the place of the log before `end_offset`."""

    end_offset: Offset
    epoch: Epoch
    data: bytes


Event = CommittedBatch | LoadedSnapshot


class LogReader:
    """Reads committed batches from offset 0 or a snapshot, over leader changes, for as long as it is asked.

    `replica_id` is the reader's node id for the leader's list of observers, -1 to stay out of it. With `from_any`
    the `servers` are read from whether they lead or not: then the leader has nothing to do with this reader.
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
        self._cluster_id = cluster_id
        self._replica_id = replica_id
        # Readers without an id are told apart by it, so that the leader can hold a fetch of each.
        self._directory_id = uuid_text(secrets.token_bytes(16)) if replica_id < 0 else ""
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._at = servers[0]
        self._hint: str | None = None
        self._epoch: Epoch = 0
        self._last_epoch: Epoch = 0
        self._fetched: Offset = 0
        self._delivered_epoch: Epoch = 0
        self._waiting: deque[tuple[BatchHeader, bytes]] = deque()
        self.high_watermark: Offset = 0
        self.delivered: Offset = 0

    async def events(self) -> AsyncIterator[Event]:
        """Every event in order; ends only by being cancelled."""
        while True:
            try:
                async for event in self._stream():
                    yield event
            except grpc.aio.AioRpcError as failure:
                log.debug("fetch failed", server=self._at, status=failure.code().name, details=failure.details())
            except asyncio.InvalidStateError as failure:  # gRPC's answer to a write on a stream that has just ended
                log.debug("fetch failed", server=self._at, reason=str(failure))
            except TimeoutError:
                log.debug("fetch timed out", server=self._at)
            await asyncio.sleep(RETRY_S if self._hint is None else HINTED_RETRY_S)
            self._at = self._next_server()

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _stream(self) -> AsyncIterator[Event]:
        stub = QuorumStub(self._channel(self._at))
        call: Any = stub.RelayFetchStream() if self._from_any else stub.FetchStream()
        try:
            while True:
                await call.write(self._request())
                # Not `wait_for`: before Python 3.12 it may lose a cancellation, and then nobody could end this.
                async with asyncio.timeout(FETCH_WAIT_MS / 1000 + DEADLINE_S):
                    answer = await call.read()
                if answer is grpc.aio.EOF:
                    return
                response = self._heard(answer)
                partition = response.responses[0].partitions[0]
                if partition.error_code:
                    self._follow(response, partition)
                    return
                if partition.HasField("snapshot_id") and partition.snapshot_id.end_offset >= 0:
                    yield await self._load(stub, partition.snapshot_id)
                elif partition.HasField("diverging_epoch") and partition.diverging_epoch.epoch >= 0:
                    self._truncate(partition.diverging_epoch)
                else:
                    for event in self._take(partition):
                        yield event
        finally:
            call.cancel()

    def _heard(self, answer: fetch_pb2.FetchResponse | RelayFetchResponse) -> fetch_pb2.FetchResponse:
        """The answer itself. Raises TimeoutError when a relay has heard of nothing new for too long."""
        if isinstance(answer, fetch_pb2.FetchResponse):
            return answer
        if answer.silent_ms > SILENT_MS_MAX:
            raise TimeoutError(f"{self._at} has not heard the leader for {answer.silent_ms} ms")
        return answer.response

    def _request(self) -> fetch_pb2.FetchRequest:
        return fetch_pb2.FetchRequest(
            cluster_id=self._cluster_id,
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
            assert header.base_offset == self._fetched, (header.base_offset, self._fetched)
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
        """Drop what the leader does not have: everything after the end of the epoch that both have seen."""
        while self._waiting:
            header, _ = self._waiting[-1]
            if header.epoch <= diverging.epoch and header.next_offset <= diverging.end_offset:
                break
            self._waiting.pop()
        kept = self._waiting[-1][0] if self._waiting else None
        self._fetched = kept.next_offset if kept else self.delivered
        self._last_epoch = kept.epoch if kept else self._delivered_epoch
        log.info("truncated what was not committed", to=self._fetched, epoch=diverging.epoch)

    async def _load(
        self, stub: QuorumStub, wanted: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData.SnapshotId
    ) -> LoadedSnapshot:
        parts = bytearray()
        while True:
            request = self._snapshot_request(wanted, len(parts))
            if self._from_any:
                answer = (await stub.RelayFetchSnapshot(request, timeout=DEADLINE_S)).response
            else:
                answer = await stub.FetchSnapshot(request, timeout=DEADLINE_S)
            piece = answer.topics[0].partitions[0]
            if piece.error_code:
                raise TimeoutError(f"snapshot {wanted.end_offset}: {ErrorCode(piece.error_code).name}")
            parts += piece.unaligned_records
            if len(parts) >= piece.size:
                break
        self._waiting.clear()
        self._fetched = self.delivered = wanted.end_offset
        self._last_epoch = self._delivered_epoch = wanted.epoch
        self.high_watermark = max(self.high_watermark, wanted.end_offset)
        return LoadedSnapshot(end_offset=wanted.end_offset, epoch=wanted.epoch, data=bytes(parts))

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
            cluster_id=self._cluster_id,
            replica_id=self._replica_id,
            max_bytes=FETCH_BYTES_MAX,
            topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
        )

    def _follow(
        self,
        response: fetch_pb2.FetchResponse,
        partition: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData,
    ) -> None:
        """Go where the answer says the leader is, in the epoch that it names."""
        leader = partition.current_leader
        if leader.leader_epoch > self._epoch or (leader.leader_epoch == self._epoch and leader.leader_id >= 0):
            self._epoch = leader.leader_epoch
        for endpoint in response.node_endpoints:
            if endpoint.node_id == leader.leader_id and not self._from_any:
                self._hint = f"{endpoint.host}:{endpoint.port}"
        log.debug("redirected", error=ErrorCode(partition.error_code).name, leader=leader.leader_id, epoch=self._epoch)

    def _next_server(self) -> str:
        """Where the leader was said to be, or else the next one in turn."""
        hint, self._hint = self._hint, None
        if hint is not None:
            return hint
        self._servers.rotate(-1)
        return self._servers[0]

    def _channel(self, server: str) -> grpc.aio.Channel:
        if server not in self._channels:
            self._channels[server] = self._connect(server)
        return self._channels[server]
