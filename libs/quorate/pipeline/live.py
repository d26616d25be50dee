"""Reads committed records and snapshots of a running quorum over gRPC, from any of its nodes.

Followers and observers serve these reads too (`RelayFetchStream`), so the leader is not loaded by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import grpc
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ErrorCode, error_name
from quorate.nouns import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Epoch,
    Offset,
    OffsetAndEpoch,
    uuid_text,
)
from quorate.runtime.client import RECEIVE_BYTES_MAX
from quorate.runtime.log_reader import DEADLINE_S, FETCH_BYTES_MAX, SILENT_MS_MAX
from quorate.wire.batch import batches

__all__ = ["AnotherCluster", "EpochBehind", "FetchedBatches", "QuorumReader", "Unanswered"]

T = TypeVar("T")
Stub = Any
"""A QuorumStub on a blocking channel. Its type is Any because the generated types are those of asyncio's stub."""

PAUSE_FIRST_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
_TOPIC_ID: Final = uuid_text(METADATA_TOPIC_ID)
_PARTITION: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"
_HOPELESS: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
_Partition = FetchResponse.FetchableTopicResponse.PartitionData
_Snapshot = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot


class Unanswered(Exception):
    """No endpoint has answered within the retry time; the message names the last endpoint and its failure."""


class EpochBehind(Unanswered):
    """Every node that answers is in an earlier epoch than the reader: the log was replaced, or the nodes lag behind."""


class AnotherCluster(Exception):
    """An endpoint belongs to another cluster than the one that is read."""


class FetchedBatches(NamedTuple):
    """A node's answer to a fetch: whole batches below the high watermark, or the reason why there are none.

    `snapshot` is set if the log no longer has the offset and a snapshot does. `diverging` is set if the logs diverge:
    it is the last epoch on which both agree, and its end offset.
    """

    high_watermark: Offset
    records: bytes
    snapshot: OffsetAndEpoch | None
    diverging: OffsetAndEpoch | None


class _Again(Exception):
    """A failure that may be temporary or specific to one node; the call is retried at the next endpoint."""


class _NodeBehind(_Again):
    """A node's epoch is behind the epoch that the reader knows."""


class QuorumReader:
    """A client of one cluster's nodes that retries a call at each endpoint in turn.

    All calls raise Unanswered after `retry_s` seconds, and AnotherCluster. Call `close` at the end.
    """

    def __init__(self, endpoints: Sequence[str], *, cluster_id: str | None = None, retry_s: float) -> None:
        assert endpoints
        self._endpoints = deque(endpoints)
        self._retry_s = retry_s
        self._channels: dict[str, grpc.Channel] = {}
        self._epoch: Epoch = 0
        self._given = cluster_id
        self.cluster_id = cluster_id or self._call(self._find)

    def close(self) -> None:
        """Closes every connection."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def fetch(self, offset: Offset, epoch: Epoch) -> FetchedBatches:
        """Fetches the batches that follow a log whose end offset is `offset` and whose last record is of `epoch`."""
        return self._call(lambda endpoint, stub: self._fetch(endpoint, stub, offset, epoch, FETCH_BYTES_MAX))

    def high_watermark(self) -> Offset:
        """Returns the high watermark (exclusive) that the node that answers knows."""
        return self._call(lambda endpoint, stub: self._fetch(endpoint, stub, 0, 0, 1)).high_watermark

    def records(self, offset: Offset, *, bytes_max: int = FETCH_BYTES_MAX) -> FetchedBatches:
        """Returns at least one batch, from the one that holds `offset` on; or the snapshot that has replaced it."""
        return self._call(lambda endpoint, stub: self._records(endpoint, stub, offset, bytes_max))

    def batch_end(self, offset: Offset) -> OffsetAndEpoch | None:
        """Returns the end offset and epoch of the batch that holds `offset`; None if a snapshot has replaced it."""
        for _, header in batches(self.records(offset, bytes_max=1).records):
            return OffsetAndEpoch(offset=header.next_offset, epoch=header.epoch)
        return None

    def snapshot(self, wanted: OffsetAndEpoch) -> bytes | None:
        """Downloads a checkpoint in chunks and returns its bytes; None if the node no longer has it."""
        parts = bytearray()
        while True:
            piece = self._call(partial(self._piece, wanted=wanted, position=len(parts)))
            if piece is None:
                return None
            data, size = piece
            parts += data
            if len(parts) >= size:
                return bytes(parts)

    def _call(self, ask: Callable[[str, Stub], T]) -> T:
        attempts = Retrying(
            retry=retry_if_exception_type(_Again),
            stop=stop_after_delay(self._retry_s),
            wait=wait_random_exponential(multiplier=PAUSE_FIRST_S, max=PAUSE_MAX_S),
        )
        try:
            for attempt in attempts:
                with attempt:
                    return self._ask(ask)
        except RetryError as given_up:
            why = given_up.last_attempt.exception()
            count = given_up.last_attempt.attempt_number
            kind = EpochBehind if isinstance(why, _NodeBehind) else Unanswered
            raise kind(f"{why}; {count} attempts in {self._retry_s:g} s") from None
        raise AssertionError("tenacity ends with a result or raises")

    def _ask(self, ask: Callable[[str, Stub], T]) -> T:
        endpoint = self._endpoints[0]
        try:
            return ask(endpoint, self._stub(endpoint))
        except grpc.RpcError as failure:
            self._endpoints.rotate(-1)
            code = failure.code()
            if code is grpc.StatusCode.UNIMPLEMENTED:
                raise Unanswered(f"endpoint {endpoint} serves no kraft.service.Quorum") from None
            raise _Again(f"endpoint {endpoint}: {code.name}: {failure.details()}") from None
        except _Again:
            self._endpoints.rotate(-1)
            raise

    def _find(self, endpoint: str, stub: Stub) -> str:
        found: str = stub.FindQuorum(FindQuorumRequest(), timeout=DEADLINE_S).cluster_id
        return found

    def _records(self, endpoint: str, stub: Stub, offset: Offset, max_bytes: int) -> FetchedBatches:
        # Any epoch that does not end before `offset` will do: this does not ask whether two logs agree.
        epoch = self._epoch
        answer = self._fetch(endpoint, stub, offset, epoch, max_bytes)
        if answer.snapshot is not None and epoch < self._epoch:
            # A fetch with an epoch before the earliest snapshot's is always answered with that snapshot.
            answer = self._fetch(endpoint, stub, offset, self._epoch, max_bytes)
        if answer.diverging is not None:
            answer = self._fetch(endpoint, stub, offset, answer.diverging.epoch, max_bytes)
        if not answer.records and answer.snapshot is None:
            why = f"it has {answer.high_watermark} committed, and offset {offset} is known to be"
            raise _Again(f"endpoint {endpoint} has not come that far yet: {why}")
        return answer

    def _fetch(self, endpoint: str, stub: Stub, offset: Offset, epoch: Epoch, max_bytes: int) -> FetchedBatches:
        while True:
            # A fetch whose last fetched epoch is above its current leader epoch would be refused, so both are raised.
            self._epoch = known = max(self._epoch, epoch)
            call = stub.RelayFetchStream(iter([self._request(offset, epoch, max_bytes)]), timeout=DEADLINE_S)
            answer = next(call, None)
            if answer is None:
                raise _Again(f"endpoint {endpoint} ended the stream without an answer")
            partition = self._partition(endpoint, answer.response)
            if partition is not None:
                break
            if self._epoch < epoch:
                raise _NodeBehind(f"endpoint {endpoint} is in epoch {self._epoch}, behind epoch {epoch}")
            if self._epoch == known:
                raise _Again(f"endpoint {endpoint} does not know its leader's epoch; it is in {known}")
        if answer.silent_ms > SILENT_MS_MAX:
            raise _Again(f"endpoint {endpoint} has not heard the leader for {answer.silent_ms} ms")
        snapshot, diverging = partition.snapshot_id, partition.diverging_epoch
        return FetchedBatches(
            high_watermark=partition.high_watermark,
            records=_committed(partition),
            snapshot=_point(snapshot.epoch, snapshot.end_offset) if partition.HasField("snapshot_id") else None,
            diverging=_point(diverging.epoch, diverging.end_offset) if partition.HasField("diverging_epoch") else None,
        )

    def _partition(self, endpoint: str, response: FetchResponse) -> _Partition | None:
        """Returns the partition of a fetch answer; None if only the leader epoch differed, which the retry then uses.

        Raises AnotherCluster, Unanswered for an error that no retry can cure, and _Again for others.
        """
        partition = _first(each for topic in response.responses for each in topic.partitions)
        error = response.error_code or (partition.error_code if partition is not None else 0)
        if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise self._another(endpoint)
        if error in _HOPELESS:
            raise Unanswered(f"endpoint {endpoint} refuses to be read from: {error_name(error)}")
        if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH) and partition is not None:
            self._epoch = partition.current_leader.leader_epoch
            return None
        if error != ErrorCode.NONE:
            raise _Again(f"endpoint {endpoint}: {error_name(error)}")
        if partition is None:
            raise _Again(f"endpoint {endpoint} says nothing of {_PARTITION}")
        return partition

    def _piece(self, endpoint: str, stub: Stub, *, wanted: OffsetAndEpoch, position: int) -> tuple[bytes, int] | None:
        while True:
            request = self._snapshot_request(wanted, position)
            response = stub.RelayFetchSnapshot(request, timeout=DEADLINE_S).response
            partition = _first(each for topic in response.topics for each in topic.partitions)
            error = response.error_code or (partition.error_code if partition is not None else 0)
            if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
                raise self._another(endpoint)
            if error == ErrorCode.SNAPSHOT_NOT_FOUND:
                return None
            if error == ErrorCode.NONE:
                return _bytes_of(endpoint, partition, position)
            known = self._epoch
            if partition is not None:
                self._epoch = partition.current_leader.leader_epoch
            if self._epoch == known:
                raise _Again(f"endpoint {endpoint}: {error_name(error)}")

    def _another(self, endpoint: str) -> AnotherCluster:
        found = self._find(endpoint, self._stub(endpoint))
        return AnotherCluster(f"endpoint {endpoint} is of cluster {found}, not of {self.cluster_id}")

    def _stub(self, endpoint: str) -> Stub:
        if endpoint not in self._channels:
            options = [("grpc.max_receive_message_length", RECEIVE_BYTES_MAX), ("grpc.enable_retries", 0)]
            self._channels[endpoint] = grpc.insecure_channel(endpoint, options=options)
        channel: Any = self._channels[endpoint]
        return QuorumStub(channel)

    def _request(self, offset: Offset, epoch: Epoch, max_bytes: int) -> FetchRequest:
        topic = FetchRequest.FetchTopic
        partition = topic.FetchPartition(
            partition=METADATA_PARTITION,
            current_leader_epoch=self._epoch,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
        )
        return FetchRequest(
            cluster_id=self.cluster_id,
            replica_state=FetchRequest.ReplicaState(replica_id=-1),
            max_bytes=max_bytes,
            session_epoch=-1,
            topics=[topic(topic_id=_TOPIC_ID, partitions=[partition])],
        )

    def _snapshot_request(self, wanted: OffsetAndEpoch, position: int) -> FetchSnapshotRequest:
        topic = FetchSnapshotRequest.TopicSnapshot
        partition = topic.PartitionSnapshot(
            partition=METADATA_PARTITION,
            current_leader_epoch=self._epoch,
            snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=wanted.offset, epoch=wanted.epoch),
            position=position,
        )
        return FetchSnapshotRequest(
            cluster_id=self.cluster_id,
            replica_id=-1,
            max_bytes=FETCH_BYTES_MAX,
            topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
        )


def _bytes_of(endpoint: str, partition: _Snapshot | None, position: int) -> tuple[bytes, int]:
    if partition is None:
        raise _Again(f"endpoint {endpoint} says nothing of {_PARTITION}")
    if position < partition.size and not partition.unaligned_records:
        raise _Again(f"endpoint {endpoint} gave nothing at byte {position} of {partition.size}")
    return partition.unaligned_records, partition.size


def _first(found: Iterable[T]) -> T | None:
    return next(iter(found), None)


def _committed(partition: _Partition) -> bytes:
    """Cuts the answer to whole batches below the high watermark, because a leader also returns uncommitted records."""
    data, end = partition.records, 0
    for position, header in batches(data):
        if header.next_offset > partition.high_watermark:
            break
        end = position + header.size
    return data[:end]


def _point(epoch: Epoch, offset: Offset) -> OffsetAndEpoch | None:
    return OffsetAndEpoch(epoch=epoch, offset=offset) if offset >= 0 else None
