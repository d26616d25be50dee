"""Reads committed records and snapshots of a running quorum, from any of its nodes that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from kraft.api.fetch import FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotResponse
from quorate.errors import ErrorCode, error_name
from quorate.network.metadata_fetch import FETCH_BYTES_MAX, fetch_request, fetch_snapshot_request
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, Epoch, Offset, OffsetAndEpoch
from quorate.pipeline.nodes import Nodes, NodeUnavailable, Unanswered
from quorate.wire.batch import batches, fetched_batches

__all__ = ["AnotherCluster", "EpochBehind", "FetchedBatches", "QuorumReader"]

T = TypeVar("T")

PAUSE_FIRST_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
_PARTITION: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"
_HOPELESS: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
_Partition = FetchResponse.FetchableTopicResponse.PartitionData
_Snapshot = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot


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


class _NodeBehind(NodeUnavailable):
    """A node's epoch is behind the epoch that the reader knows."""


class QuorumReader:
    """Reads from the nodes of one cluster, and tries each call at one endpoint after the other.

    All calls, also its making without a cluster id, raise Unanswered after `retry_s` seconds, or at once if a node
    refuses for good; and AnotherCluster. Call `close` at the end.
    """

    def __init__(self, nodes: Nodes, *, cluster_id: str | None = None, retry_s: float) -> None:
        self._nodes = nodes
        self._retry_s = retry_s
        self._epoch: Epoch = 0
        self.cluster_id = cluster_id or self._call(nodes.cluster_id)

    def close(self) -> None:
        """Closes every connection."""
        self._nodes.close()

    def fetch(self, offset: Offset, epoch: Epoch) -> FetchedBatches:
        """Fetches the batches that follow a log whose end offset is `offset` and whose last record is of `epoch`.

        There may be none, as when all that is committed was fetched. Raises EpochBehind if no node is in that epoch.
        """
        return self._call(lambda: self._fetch(offset, epoch, FETCH_BYTES_MAX))

    def high_watermark(self) -> Offset:
        """Returns the high watermark (exclusive) that the node that answers knows."""
        return self._call(self._high_watermark)

    def records(self, offset: Offset, *, bytes_max: int = FETCH_BYTES_MAX) -> FetchedBatches:
        """Returns at least one batch, from the one that holds `offset` on; or the snapshot that has replaced it.

        `offset` must be committed: a node that does not have it yet is one that fails, and others are tried.
        """
        return self._call(lambda: self._records(offset, bytes_max))

    def batch_end(self, offset: Offset) -> OffsetAndEpoch | None:
        """Returns the end offset and epoch of the batch that holds `offset`; None if a snapshot has replaced it."""
        for _, header in batches(self.records(offset, bytes_max=1).records):
            return OffsetAndEpoch(offset=header.next_offset, epoch=header.epoch)
        return None

    def snapshot(self, wanted: OffsetAndEpoch) -> bytes | None:
        """Downloads a checkpoint in chunks from one node and returns its bytes; None if the node no longer has it.

        Another node is asked from the first byte on: two nodes may have written the same state in other bytes.
        """
        return self._call(partial(self._whole, wanted))

    def _call(self, ask: Callable[[], T]) -> T:
        attempts = Retrying(
            retry=retry_if_exception_type(NodeUnavailable),
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

    def _ask(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except NodeUnavailable:
            self._nodes.leave()
            raise

    def _high_watermark(self) -> Offset:
        answer = self._fetch(0, 0, 1)
        if answer.high_watermark < 0:
            raise NodeUnavailable(f"{self._where} leads, and does not know yet what is committed")
        return answer.high_watermark

    def _records(self, offset: Offset, max_bytes: int) -> FetchedBatches:
        # Any epoch that does not end before `offset` will do: this does not ask whether two logs agree.
        epoch = self._epoch
        answer = self._fetch(offset, epoch, max_bytes)
        if answer.snapshot is not None and epoch < self._epoch:
            # A fetch with an epoch before the earliest snapshot's is always answered with that snapshot.
            answer = self._fetch(offset, self._epoch, max_bytes)
        if answer.diverging is not None:
            answer = self._fetch(offset, answer.diverging.epoch, max_bytes)
        if not answer.records and answer.snapshot is None:
            why = f"it has {answer.high_watermark} committed, and offset {offset} is known to be"
            raise NodeUnavailable(f"{self._where} has not come that far yet: {why}")
        self._check_order(answer.records, offset)
        return answer

    def _check_order(self, data: bytes, offset: Offset) -> None:
        """Raises NodeUnavailable unless the first batch holds `offset` and each other one follows the one before."""
        wanted = offset
        for position, header in fetched_batches(data):
            if not (
                header.base_offset == wanted or (position == 0 and header.base_offset < wanted < header.next_offset)
            ):
                gave = f"the batch of offsets {header.base_offset} to {header.next_offset - 1}"
                raise NodeUnavailable(f"{self._where} gave {gave}, asked for was offset {wanted}")
            wanted = header.next_offset

    def _fetch(self, offset: Offset, epoch: Epoch, max_bytes: int) -> FetchedBatches:
        while True:
            # A fetch whose last fetched epoch is above its current leader epoch would be refused, so both are raised.
            self._epoch = known = max(self._epoch, epoch)
            answer = self._nodes.fetch(
                fetch_request(self.cluster_id, leader_epoch=known, offset=offset, last_epoch=epoch, max_bytes=max_bytes)
            )
            partition = self._partition(answer.response)
            if partition is not None:
                break
            if self._epoch < epoch:
                raise _NodeBehind(f"{self._where} is in epoch {self._epoch}, behind epoch {epoch}")
            if self._epoch == known:
                raise NodeUnavailable(f"{self._where} does not know its leader's epoch; it is in {known}")
        if answer.silent_ms is not None:
            raise NodeUnavailable(f"{self._where} has not heard the leader for {answer.silent_ms} ms")
        snapshot, diverging = partition.snapshot_id, partition.diverging_epoch
        return FetchedBatches(
            high_watermark=partition.high_watermark,
            records=_committed(partition),
            snapshot=_point(snapshot.epoch, snapshot.end_offset),
            diverging=_point(diverging.epoch, diverging.end_offset),
        )

    def _partition(self, response: FetchResponse) -> _Partition | None:
        """Returns the partition of a fetch answer; None if only the leader epoch differed, which the retry then uses.

        Raises AnotherCluster, Unanswered for an error that no retry can cure, and NodeUnavailable for others.
        """
        partition = _first(each for topic in response.responses for each in topic.partitions)
        error = response.error_code or (partition.error_code if partition is not None else 0)
        if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise self._another()
        if error in _HOPELESS:
            raise Unanswered(f"{self._where} refuses to be read from: {error_name(error)}")
        if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH) and partition is not None:
            self._epoch = partition.current_leader.leader_epoch
            return None
        if error != ErrorCode.NONE:
            raise NodeUnavailable(f"{self._where}: {error_name(error)}")
        if partition is None:
            raise NodeUnavailable(f"{self._where} says nothing of {_PARTITION}")
        return partition

    def _whole(self, wanted: OffsetAndEpoch) -> bytes | None:
        """Returns the bytes of a checkpoint, all from the node that is asked now; None if it has it no longer.

        Raises NodeUnavailable if the node fails meanwhile.
        """
        parts = bytearray()
        while True:
            piece = self._piece(wanted, len(parts))
            if piece is None:
                return None
            data, size = piece
            parts += data
            if len(parts) >= size:
                return bytes(parts)

    def _piece(self, wanted: OffsetAndEpoch, position: int) -> tuple[bytes, int] | None:
        while True:
            known = self._epoch
            response = self._nodes.fetch_snapshot(
                fetch_snapshot_request(self.cluster_id, wanted, leader_epoch=known, position=position)
            )
            partition = _first(each for topic in response.topics for each in topic.partitions)
            error = response.error_code or (partition.error_code if partition is not None else 0)
            if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
                raise self._another()
            if error == ErrorCode.SNAPSHOT_NOT_FOUND:
                return None
            if error == ErrorCode.NONE:
                return self._bytes_of(partition, wanted, position)
            if partition is not None:
                self._epoch = partition.current_leader.leader_epoch
            elif error == ErrorCode.UNKNOWN_SERVER_ERROR:
                # A controller of Kafka (4.3.1, 4.4.0) cannot write a refusal of FetchSnapshot: it throws a
                # NullPointerException, as the response has no records. A Fetch says what is refused: the node (it does
                # not lead), the epoch, or the snapshot, if another one is the latest now.
                latest = self._fetch(0, 0, 1).snapshot
                if self._epoch == known and latest != wanted:
                    return None
            if self._epoch == known:
                raise NodeUnavailable(f"{self._where}: {error_name(error)}")

    def _another(self) -> AnotherCluster:
        found = self._nodes.cluster_id()
        return AnotherCluster(f"{self._where} is of cluster {found}, not of {self.cluster_id}")

    def _bytes_of(self, partition: _Snapshot | None, wanted: OffsetAndEpoch, position: int) -> tuple[bytes, int]:
        if partition is None:
            raise NodeUnavailable(f"{self._where} says nothing of {_PARTITION}")
        given = partition.snapshot_id
        if (given.end_offset, given.epoch, partition.position) != (wanted.offset, wanted.epoch, position):
            what = f"byte {partition.position} of snapshot {given.end_offset}-{given.epoch}"
            asked = f"byte {position} of {wanted.offset}-{wanted.epoch}"
            raise NodeUnavailable(f"{self._where} gave {what}, asked for was {asked}")
        if position < partition.size and not partition.unaligned_records:
            raise NodeUnavailable(f"{self._where} gave nothing at byte {position} of {partition.size}")
        return partition.unaligned_records, partition.size

    @property
    def _where(self) -> str:
        return f"endpoint {self._nodes.endpoint}"


def _first(found: Iterable[T]) -> T | None:
    return next(iter(found), None)


def _committed(partition: _Partition) -> bytes:
    """Cuts the answer to whole batches below the high watermark, because a leader also returns uncommitted records."""
    data, end = partition.records or b"", 0
    for position, header in fetched_batches(data):
        if header.next_offset > partition.high_watermark:
            break
        end = position + header.size
    return data[:end]


def _point(epoch: Epoch, offset: Offset) -> OffsetAndEpoch | None:
    return OffsetAndEpoch(epoch=epoch, offset=offset) if offset >= 0 else None
