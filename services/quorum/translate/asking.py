"""Converts outgoing requests of the core to Kafka's messages, and the peers' answers back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, ZERO_UUID, OffsetAndEpoch, ReplicaKey, uuid_text
from quorate.raft import messages as raft
from quorate.raft.voters import ListenerEndpoint
from services.quorum.batches import parse_batches
from services.quorum.translate.envelope import TOPIC_ID, id_of, leader_of, only, peer_error

R = TypeVar("R", bound=raft.Response)


def to_vote(request: raft.VoteRequest) -> VoteRequest:
    """Converts the core's request to Vote v2."""
    topic = VoteRequest.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.replica.id,
        replica_directory_id=uuid_text(request.replica.directory_id),
        voter_directory_id=_directory(request.voter),
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.pre_vote,
    )
    return VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=id_of(request.voter.id if request.voter else None),
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def to_begin(
    request: raft.BeginQuorumEpochRequest, listeners: Sequence[ListenerEndpoint] = ()
) -> BeginQuorumEpochRequest:
    """Converts the core's request to BeginQuorumEpoch v1, with the leader's own `listeners` for the voter. KIP-853."""
    topic = BeginQuorumEpochRequest.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        voter_directory_id=_directory(request.voter),
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=id_of(request.voter.id if request.voter else None),
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochRequest.LeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in listeners
        ],
    )


def to_end(request: raft.EndQuorumEpochRequest, listeners: Sequence[ListenerEndpoint] = ()) -> EndQuorumEpochRequest:
    """Converts the core's request to EndQuorumEpoch v1, with the `listeners` of the leader that resigns (KIP-853)."""
    topic = EndQuorumEpochRequest.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            topic.PartitionData.ReplicaInfo(candidate_id=key.id, candidate_directory_id=uuid_text(key.directory_id))
            for key in request.preferred_successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            EndQuorumEpochRequest.LeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in listeners
        ],
    )


def to_fetch(request: raft.FetchRequest) -> FetchRequest:
    """Converts the core's request to Fetch v18."""
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        replica_directory_id=uuid_text(request.replica.directory_id),
        high_watermark=request.high_watermark,
    )
    return FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=FetchRequest.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[topic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def to_fetch_snapshot(request: raft.FetchSnapshotRequest) -> FetchSnapshotRequest:
    """Converts the core's request to FetchSnapshot v1."""
    topic = FetchSnapshotRequest.TopicSnapshot
    partition = topic.PartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=topic.PartitionSnapshot.SnapshotId(
            end_offset=request.snapshot_id.offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=uuid_text(request.replica.directory_id),
    )
    return FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
    )


def _directory(key: ReplicaKey | None) -> str:
    return uuid_text(key.directory_id if key else ZERO_UUID)


def _whole_error(message: Callable[..., R], answer: Any, reply_to: object) -> R:
    """Returns the core's response for a top-level error. As in Kafka its other fields are ignored: a node that does not
    know our cluster or version has no valid epoch or leader for us."""
    return message(epoch=raft.EPOCH_UNKNOWN, error=peer_error(answer.error_code), reply_to=reply_to)


def from_vote(answer: VoteResponse, reply_to: object) -> raft.VoteResponse:
    """Converts a peer's Vote v2 response to the core's form; a top-level error has no epoch and no leader.

    Raises ApiError for another topic or partition, or an error code that is not known.
    """
    if answer.error_code:
        return _whole_error(raft.VoteResponse, answer, reply_to)
    partition = only(answer)
    return raft.VoteResponse(
        epoch=partition.leader_epoch,
        leader_id=leader_of(partition.leader_id),
        granted=partition.vote_granted,
        error=peer_error(partition.error_code),
        reply_to=reply_to,
    )


def from_begin(answer: BeginQuorumEpochResponse, reply_to: object) -> raft.BeginQuorumEpochResponse:
    """Converts a peer's BeginQuorumEpoch v1 response to the core's form; a top-level error has no epoch and no leader.

    Raises ApiError for another topic or partition, or an error code that is not known.
    """
    if answer.error_code:
        return _whole_error(raft.BeginQuorumEpochResponse, answer, reply_to)
    partition = only(answer)
    return raft.BeginQuorumEpochResponse(
        epoch=partition.leader_epoch,
        leader_id=leader_of(partition.leader_id),
        error=peer_error(partition.error_code),
        reply_to=reply_to,
    )


def from_end(answer: EndQuorumEpochResponse, reply_to: object) -> raft.EndQuorumEpochResponse:
    """Converts a peer's EndQuorumEpoch v1 response to the core's form; a top-level error has no epoch and no leader.

    Raises ApiError for another topic or partition, or an error code that is not known.
    """
    if answer.error_code:
        return _whole_error(raft.EndQuorumEpochResponse, answer, reply_to)
    partition = only(answer)
    return raft.EndQuorumEpochResponse(
        epoch=partition.leader_epoch,
        leader_id=leader_of(partition.leader_id),
        error=peer_error(partition.error_code),
        reply_to=reply_to,
    )


def from_fetch(answer: FetchResponse, reply_to: object) -> raft.FetchResponse:
    """Converts a peer's Fetch v18 response to the core's form; a top-level error has no epoch and no leader.

    Raises Corrupt for a batch with a wrong CRC, record count or control record; ApiError for another topic or
    partition, or an error code that is not known. A last batch that is cut off is left out.
    """
    if answer.error_code:
        return _whole_error(raft.FetchResponse, answer, reply_to)
    partition = only(answer)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return raft.FetchResponse(
        epoch=partition.current_leader.leader_epoch,
        leader_id=leader_of(partition.current_leader.leader_id),
        error=peer_error(partition.error_code),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=_end_of(diverging),
        snapshot_id=_end_of(snapshot),
        batches=tuple(parse_batches(partition.records)),
        reply_to=reply_to,
    )


def _end_of(end: Any) -> OffsetAndEpoch | None:
    """Converts an epoch and end offset; None if both are absent. The core refuses an answer with only one of them."""
    if end.epoch < 0 and end.end_offset < 0:
        return None
    return OffsetAndEpoch(epoch=end.epoch, offset=end.end_offset)


def from_fetch_snapshot(answer: FetchSnapshotResponse, reply_to: object) -> raft.FetchSnapshotResponse:
    """Converts a peer's FetchSnapshot v1 response to the core's form; a top-level error has no epoch and no leader.

    Raises ApiError for another topic or partition, or an error code that is not known.
    """
    if answer.error_code:
        return _whole_error(raft.FetchSnapshotResponse, answer, reply_to)
    partition = only(answer)
    return raft.FetchSnapshotResponse(
        epoch=partition.current_leader.leader_epoch,
        leader_id=leader_of(partition.current_leader.leader_id),
        error=peer_error(partition.error_code),
        snapshot_id=OffsetAndEpoch(epoch=partition.snapshot_id.epoch, offset=partition.snapshot_id.end_offset),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
        reply_to=reply_to,
    )
