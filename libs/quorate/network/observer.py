"""Reads the metadata log of a live Kafka quorum, as an observer.

With replica id -1 nothing on the cluster changes: the leader keeps no state of such a replica
(`LeaderState.updateReplicaState` passes over negative ids). A broker has its own id, and is listed by DescribeQuorum.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar

from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.fetch import FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotResponse
from quorate.errors import ApiError, Corrupt, ErrorCode, error_of, refusal_of
from quorate.network.client import Connection
from quorate.network.client_config import ClientConfig, Endpoint
from quorate.network.metadata_fetch import UNNAMED, check_version, fetch_request, fetch_snapshot_request
from quorate.nouns import EndpointType, Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.wire.batch import BatchHeader, batches, check_batch, fetched_batches

__all__ = ["Checkpoint", "FailedTry", "FetchedBatch", "Observer"]

FETCH_WAIT_MS: Final = 500
RETRY_S: Final = 0.1
RETRY_MAX_S: Final = 1.0
"""The pause in seconds after an answer that names the leader, and the longest one: after each try in a row that fails
otherwise it is twice as long. Kafka's `reconnect.backoff.max.ms` is as long."""
_NEVER_HEALS: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
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
    """A committed batch: its header, and all its bytes, header included. The checksum is valid."""

    header: BatchHeader
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The bytes of a whole checkpoint (snapshot, KIP-630), which replaces the log before its end offset (exclusive)."""

    id: OffsetAndEpoch
    data: bytes


class _NotYet(ApiError):
    """UNSUPPORTED_VERSION of a controller that has not replayed its log, and so its metadata.version, yet.

    Another try may succeed, unlike after an UNSUPPORTED_VERSION of other causes.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTry:
    """A request to a controller that brought nothing of the log, and why."""

    at: Endpoint
    cause: ApiError | OSError | Corrupt
    is_redirected: bool
    """Whether the answer named the leader, which is asked next."""

    @property
    def refusal(self) -> ApiError | None:
        """The refusal, naming the controller, if it is one that another try does not change; else None."""
        if isinstance(self.cause, ApiError) and self.cause.code in _NEVER_HEALS and not isinstance(self.cause, _NotYet):
            return ApiError(self.cause.code, f"{self._where}: {self.cause.message}")
        return None

    def __str__(self) -> str:
        return f"{self._where}: {str(self.cause) or type(self.cause).__name__}"

    @property
    def _where(self) -> str:
        host, port = self.at
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Observer:
    """A reader of the log from its start on, or from a checkpoint. It follows the leader, also through elections.

    It reads the log of one cluster: of `cluster_id`, or of the first controller that answers. To learn that id takes
    ALTER on the cluster, if its controllers authorize; to read the log takes CLUSTER_ACTION.
    """

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        config: ClientConfig,
        *,
        cluster_id: str | None = None,
        replica: ReplicaKey = UNNAMED,
    ) -> None:
        assert bootstrap
        self._replica = replica
        self._servers = deque(bootstrap)
        self.config = config
        """How a controller is connected to; what is set here is for the next connection."""
        self._connection: Connection | None = None
        self._at = bootstrap[0]
        self._leader: Endpoint | None = None
        self._epoch: Epoch = 0
        self._last_epoch: Epoch = 0
        self._delivered_epoch: Epoch = 0
        self._fetched: Offset = 0
        self._waiting: deque[FetchedBatch] = deque()
        self.cluster_id = cluster_id
        self.leader_id: NodeId = -1
        """The leader's node id in the last answer; -1 before it, if it names none, or if no answer comes any more."""
        self.leader_at: Endpoint | None = None
        """Where the leader is, by the last answer: it gave its log, or another named it. None if unknown."""
        self.delivered: Offset = 0
        self.high_watermark: Offset = -1
        """The highest high watermark that a leader has reported; -1 before the first."""

    async def events(self) -> AsyncIterator[FetchedBatch | Checkpoint]:
        """Yields the committed batches and checkpoints, in order, and ends at the high watermark reported first.

        Raises ApiError for a refusal that another try does not change; TimeoutError when `default.api.timeout.ms` has
        brought nothing.
        """
        loop = asyncio.get_running_loop()
        patience_s = self.config.api_timeout_ms / 1000
        deadline, problem = loop.time() + patience_s, "no controller has reported a high watermark"
        target, before = -1, self._fetched
        async with aclosing(self.answers()) as answers:
            async for answer in answers:
                if not isinstance(answer, FailedTry):
                    for event in answer:
                        yield event
                elif answer.refusal is not None:
                    raise answer.refusal
                else:
                    problem = str(answer)
                target = self.high_watermark if target < 0 else target
                if 0 <= target <= self.delivered:
                    return
                if self._fetched > before:
                    deadline, before = loop.time() + patience_s, self._fetched
                if loop.time() > deadline:
                    raise TimeoutError(
                        f"nothing was read for {self.config.api_timeout_ms} ms (default.api.timeout.ms); "
                        f"last: {problem}"
                    )

    async def answers(self) -> AsyncGenerator[list[FetchedBatch | Checkpoint] | FailedTry, None]:
        """Yields what each answer brings, in order and without end: committed batches and checkpoints, perhaps none.

        A FailedTry stands for a try that leads nowhere; the next one follows after a pause, also after a refusal.
        """
        failures, loop = 0, asyncio.get_running_loop()
        try:
            while True:
                before, early_until = (self._fetched, self.high_watermark), loop.time() + FETCH_WAIT_MS / 1000
                try:
                    found = await self._next()
                except (ApiError, OSError, Corrupt) as failure:
                    is_redirected = self._leader is not None
                    self.leader_id = self.leader_id if is_redirected else -1
                    self.leader_at = self._leader
                    yield FailedTry(at=self._at, cause=failure, is_redirected=is_redirected)
                    await self._leave()
                    failures = 0 if is_redirected else failures + 1
                    await asyncio.sleep(min(RETRY_MAX_S, RETRY_S * 2 ** min(failures, 10)))
                else:
                    failures, self.leader_at = 0, self._at
                    # To ask at once after an answer that was not held, and says nothing, would be a busy loop.
                    says_nothing = before == (self._fetched, self.high_watermark) and loop.time() < early_until
                    yield found
                    if says_nothing:
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
            self._connection = await self.config.connect(self._at)
            check_version(self._connection, self._replica)
            if self.cluster_id is None:
                asked = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLERS)
                described = await self._connection.ask_for(DescribeClusterResponse, asked)
                what = described.error_message or "DescribeCluster"
                if described.error_code == ErrorCode.UNSUPPORTED_VERSION:
                    raise _NotYet(ErrorCode.UNSUPPORTED_VERSION, what)
                self._check(described.error_code, what, needs="ALTER")
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
                high_watermark=self.high_watermark,
                max_wait_ms=FETCH_WAIT_MS,
                replica=self._replica,
            ),
        )
        self._check(answer.error_code, "Fetch")
        partition = _only([each for topic in answer.responses for each in topic.partitions], "Fetch")
        self.leader_id = partition.current_leader.leader_id
        if partition.error_code:
            self._follow(partition, answer.node_endpoints)
            raise ApiError(error_of(partition.error_code), f"the leader of epoch {self._epoch} is to be asked")
        if partition.snapshot_id.end_offset >= 0:
            wanted = OffsetAndEpoch(epoch=partition.snapshot_id.epoch, offset=partition.snapshot_id.end_offset)
            checkpoint = await self._load(connection, wanted)
            self.high_watermark = max(self.high_watermark, partition.high_watermark)
            return [checkpoint]
        if partition.diverging_epoch.epoch >= 0:
            self._truncate(partition.diverging_epoch.end_offset, partition.diverging_epoch.epoch)
            return []
        return [*self._take(partition.records or b"", partition.high_watermark)]

    def _follow(self, partition: _Partition, endpoints: _Endpoints) -> None:
        """Notes who leads, to ask there: not whom a deposed leader names, which is itself."""
        leader = partition.current_leader
        if leader.leader_epoch < self._epoch:
            return
        self._epoch = leader.leader_epoch
        for endpoint in endpoints:
            if endpoint.node_id == leader.leader_id:
                self._leader = (endpoint.host, endpoint.port)

    def _take(self, data: bytes, high_watermark: Offset) -> list[FetchedBatch]:
        """Keeps the whole batches of a Fetch answer; returns those that its high watermark commits. Raises Corrupt."""
        for position, header in fetched_batches(data):
            check_batch(data, position)
            if header.base_offset != self._fetched:  # the batch's checksum does not cover it
                raise Corrupt(f"a batch at offset {header.base_offset} came, where {self._fetched} follows")
            self._waiting.append(FetchedBatch(header=header, data=data[position : position + header.size]))
            self._fetched, self._last_epoch = header.next_offset, header.epoch
        self.high_watermark = max(self.high_watermark, high_watermark)
        committed = []
        while self._waiting and self._waiting[0].header.next_offset <= self.high_watermark:
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
            asked = fetch_snapshot_request(
                self.cluster_id, wanted, leader_epoch=self._epoch, position=len(parts), replica=self._replica
            )
            answer = await connection.ask_for(FetchSnapshotResponse, asked)
            self._check(answer.error_code, "FetchSnapshot")
            piece = _only([each for topic in answer.topics for each in topic.partitions], "FetchSnapshot")
            self._check(piece.error_code, f"checkpoint {wanted.offset}-{wanted.epoch}")
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

    def _check(self, code: int, what: str, *, needs: str = "CLUSTER_ACTION") -> None:
        """Raises ApiError for an error of a whole answer; `needs` is the right that it needs on the cluster."""
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{what} requires {needs} on the cluster")
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise ApiError(
                ErrorCode.INCONSISTENT_CLUSTER_ID, f"{what}: it is of another cluster than {self.cluster_id}"
            )
        if code != ErrorCode.NONE:
            raise refusal_of(code, what)


def _only(found: Sequence[T], what: str) -> T:
    if len(found) != 1:
        raise Corrupt(f"the answer to {what} has {len(found)} partitions; one was asked for")
    return found[0]
