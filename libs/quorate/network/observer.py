"""Reads the metadata log of a live Kafka quorum, as an observer with replica id -1: nothing on the cluster changes.

The leader keeps no state of such a replica (`LeaderState.updateReplicaState` passes over negative ids).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.fetch import FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotResponse
from quorate.errors import ApiError, Corrupt, ErrorCode, error_of
from quorate.network.client import Connection
from quorate.network.client_config import ClientConfig, Endpoint
from quorate.network.metadata_fetch import CONTROLLERS, fetch_request, fetch_snapshot_request
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.wire.batch import BatchHeader, batches, check_batch

__all__ = ["Checkpoint", "FetchedBatch", "Observer"]

FETCH_WAIT_MS: Final = 500
RETRY_S: Final = 0.1
_NEVER_HEALS: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Refusals that another try does not change."""

T = TypeVar("T")

_Partition = FetchResponse.FetchableTopicResponse.PartitionData
_Endpoints = Sequence[FetchResponse.NodeEndpoint] | Sequence[FetchSnapshotResponse.NodeEndpoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatch:
    """A committed batch, its checksum valid."""

    header: BatchHeader
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A whole checkpoint, which replaces the log before its end offset (exclusive)."""

    id: OffsetAndEpoch
    data: bytes


class Observer:
    """One reading of the log, from its start to the high watermark in the leader's first answer.

    It follows the leader, also through elections, and gives up when `default.api.timeout.ms` has brought nothing.
    """

    def __init__(self, bootstrap: Sequence[Endpoint], config: ClientConfig) -> None:
        assert bootstrap
        self._servers = deque(bootstrap)
        self._config = config
        self._connection: Connection | None = None
        self._at = bootstrap[0]
        self._leader: Endpoint | None = None
        self._epoch: Epoch = 0
        self._last_epoch: Epoch = 0
        self._delivered_epoch: Epoch = 0
        self._fetched: Offset = 0
        self._waiting: deque[FetchedBatch] = deque()
        self.cluster_id: str | None = None
        self.delivered: Offset = 0
        self.target: Offset | None = None
        """The high watermark at which the reading ends, once a leader has reported one."""

    async def events(self) -> AsyncIterator[FetchedBatch | Checkpoint]:
        """Yields the committed batches and checkpoints, in order, up to `target`.

        Raises ApiError for a refusal that another try does not change, TimeoutError when patience is over.
        """
        loop = asyncio.get_running_loop()
        patience_s = self._config.api_timeout_ms / 1000
        deadline, problem = loop.time() + patience_s, "no controller has reported a high watermark"
        try:
            while self.target is None or self.delivered < self.target:
                if loop.time() > deadline:
                    raise TimeoutError(
                        f"nothing was read for {self._config.api_timeout_ms} ms (default.api.timeout.ms); "
                        f"last: {problem}"
                    )
                before = self._fetched
                try:
                    found = await self._next()
                except ApiError as refusal:
                    if refusal.code in _NEVER_HEALS:
                        raise
                    problem = str(refusal)
                except (OSError, Corrupt) as failure:
                    problem = f"{self._at[0]}:{self._at[1]}: {failure}"
                else:
                    if self._fetched > before:
                        deadline = loop.time() + patience_s
                    for event in found:
                        yield event
                    continue
                await self._leave()
                await asyncio.sleep(RETRY_S)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Closes the connection; the next one goes to the leader that an answer named, or else to the next server."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        if self._leader is None:
            self._servers.rotate(-1)
        self._at, self._leader = self._leader or self._servers[0], None

    async def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = await self._config.connect(self._at)
            if self.cluster_id is None:
                asked = DescribeClusterRequest(endpoint_type=CONTROLLERS)
                described = await self._connection.ask_for(DescribeClusterResponse, asked)
                _check(described.error_code, described.error_message or "DescribeCluster")
                self.cluster_id = described.cluster_id
        return self._connection

    async def _next(self) -> list[FetchedBatch | Checkpoint]:
        """Asks once. Raises OSError, ApiError or Corrupt when that leads nowhere."""
        connection = await self._connected()
        answer = await connection.ask_for(
            FetchResponse,
            fetch_request(
                self.cluster_id,
                leader_epoch=self._epoch,
                offset=self._fetched,
                last_epoch=self._last_epoch,
                max_wait_ms=FETCH_WAIT_MS,
            ),
        )
        _check(answer.error_code, "Fetch")
        partition = _only([each for topic in answer.responses for each in topic.partitions], "Fetch")
        if partition.error_code:
            self._follow(partition, answer.node_endpoints)
            raise ApiError(error_of(partition.error_code), f"the leader of epoch {self._epoch} is to be asked")
        if partition.snapshot_id.end_offset >= 0:
            wanted = OffsetAndEpoch(epoch=partition.snapshot_id.epoch, offset=partition.snapshot_id.end_offset)
            return [await self._load(connection, wanted)]
        if partition.diverging_epoch.epoch >= 0:
            self._truncate(partition.diverging_epoch.end_offset, partition.diverging_epoch.epoch)
            return []
        committed = self._take(partition.records or b"", partition.high_watermark)
        if self.target is None and partition.high_watermark >= 0:
            self.target = partition.high_watermark
        return [*committed]

    def _follow(self, partition: _Partition, endpoints: _Endpoints) -> None:
        """Notes who leads, to ask there."""
        leader = partition.current_leader
        self._epoch = max(self._epoch, leader.leader_epoch)
        for endpoint in endpoints:
            if endpoint.node_id == leader.leader_id:
                self._leader = (endpoint.host, endpoint.port)

    def _take(self, data: bytes, high_watermark: Offset) -> list[FetchedBatch]:
        """Returns the batches that are committed now. Raises Corrupt."""
        for position, header in batches(data):
            check_batch(data, position)
            if header.base_offset != self._fetched:  # the batch's checksum does not cover it
                raise Corrupt(f"a batch at offset {header.base_offset} came, where {self._fetched} follows")
            self._waiting.append(FetchedBatch(header=header, data=data[position : position + header.size]))
            self._fetched, self._last_epoch = header.next_offset, header.epoch
        committed = []
        while self._waiting and self._waiting[0].header.next_offset <= high_watermark:
            header = self._waiting[0].header
            committed.append(self._waiting.popleft())
            self.delivered, self._delivered_epoch = header.next_offset, header.epoch
        return committed

    def _truncate(self, end: Offset, epoch: Epoch) -> None:
        """Drops what the leader does not have. Raises Corrupt if that would be what is committed."""
        before = self._fetched
        while self._waiting and (self._waiting[-1].header.next_offset > end or self._waiting[-1].header.epoch > epoch):
            dropped = self._waiting.pop()
            self._fetched = dropped.header.base_offset
        self._last_epoch = self._waiting[-1].header.epoch if self._waiting else self._delivered_epoch
        if self._fetched == before:
            raise Corrupt(f"the log is said to diverge after offset {end} in epoch {epoch}, below what is committed")

    async def _load(self, connection: Connection, wanted: OffsetAndEpoch) -> Checkpoint:
        """Fetches a checkpoint whole. Raises Corrupt, ApiError, OSError."""
        if wanted.offset < self.delivered:
            raise Corrupt(f"a checkpoint up to {wanted.offset} is to be loaded, and {self.delivered} was committed")
        parts = bytearray()
        while True:
            asked = fetch_snapshot_request(self.cluster_id, wanted, leader_epoch=self._epoch, position=len(parts))
            answer = await connection.ask_for(FetchSnapshotResponse, asked)
            _check(answer.error_code, "FetchSnapshot")
            piece = _only([each for topic in answer.topics for each in topic.partitions], "FetchSnapshot")
            _check(piece.error_code, f"checkpoint {wanted.offset}-{wanted.epoch}")
            if piece.position != len(parts):
                raise Corrupt(f"checkpoint: byte {piece.position} came, where {len(parts)} follows")
            parts += piece.unaligned_records
            if len(parts) >= piece.size:
                break
            if not piece.unaligned_records:
                raise Corrupt(f"checkpoint: nothing came at byte {len(parts)} of {piece.size}")
        if not parts:
            raise Corrupt(
                f"checkpoint {wanted.offset}-{wanted.epoch} has no bytes; it has at least a header and a footer"
            )
        data = bytes(parts)
        for position, _ in batches(data):
            check_batch(data, position)
        self._waiting.clear()
        self._fetched = self.delivered = wanted.offset
        self._last_epoch = self._delivered_epoch = wanted.epoch
        return Checkpoint(id=wanted, data=data)


def _check(code: int, what: str) -> None:
    """Raises ApiError for an error of a whole answer."""
    if code != ErrorCode.NONE:
        raise ApiError(error_of(code), f"{what}: error {code}")


def _only(found: Sequence[T], what: str) -> T:
    if len(found) != 1:
        raise Corrupt(f"the answer to {what} has {len(found)} partitions; one was asked for")
    return found[0]
