"""What a node asks: requests that go out, answers that come in."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, ZERO_UUID, OffsetAndEpoch, ReplicaKey, uuid_text
from quorate.raft import messages as raft
from quorate.raft.voters import Endpoint
from services.quorum.batches import parse_batches
from services.quorum.translate.envelope import TOPIC_ID, error_of, id_of, leader_of, only


def to_vote(request: raft.VoteRequest) -> VoteRequest:
    """Vote v2."""
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


def to_begin(request: raft.BeginQuorumEpochRequest, listeners: Sequence[Endpoint] = ()) -> BeginQuorumEpochRequest:
    """BeginQuorumEpoch v1. The `listeners` are the leader's: a voter may lack the record that has them. KIP-853."""
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


def to_end(request: raft.EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    """EndQuorumEpoch v1."""
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
    )


def to_fetch(request: raft.FetchRequest) -> FetchRequest:
    """Fetch v18."""
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
    """FetchSnapshot v1."""
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


def from_vote(answer: VoteResponse, reply_to: object) -> raft.VoteResponse:
    """Vote v2. A node that does not know the version answers with an error, and of no partition."""
    if answer.error_code and not answer.topics:
        return raft.VoteResponse(epoch=raft.EPOCH_UNKNOWN, error=error_of(answer.error_code), reply_to=reply_to)
    partition = only(answer)
    return raft.VoteResponse(
        epoch=partition.leader_epoch,
        leader_id=leader_of(partition.leader_id),
        granted=partition.vote_granted,
        error=error_of(answer.error_code, partition.error_code),
        reply_to=reply_to,
    )


def from_begin(answer: BeginQuorumEpochResponse, reply_to: object) -> raft.BeginQuorumEpochResponse:
    """BeginQuorumEpoch v1."""
    partition = only(answer)
    return raft.BeginQuorumEpochResponse(
        epoch=partition.leader_epoch,
        leader_id=leader_of(partition.leader_id),
        error=error_of(answer.error_code, partition.error_code),
        reply_to=reply_to,
    )


def from_end(answer: EndQuorumEpochResponse, reply_to: object) -> raft.EndQuorumEpochResponse:
    """EndQuorumEpoch v1."""
    partition = only(answer)
    return raft.EndQuorumEpochResponse(
        epoch=partition.leader_epoch,
        leader_id=leader_of(partition.leader_id),
        error=error_of(answer.error_code, partition.error_code),
        reply_to=reply_to,
    )


def from_fetch(answer: FetchResponse, reply_to: object) -> raft.FetchResponse:
    """Fetch v18; its batches are checked. Raises Corrupt, ApiError."""
    partition = only(answer)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return raft.FetchResponse(
        epoch=partition.current_leader.leader_epoch,
        leader_id=leader_of(partition.current_leader.leader_id),
        error=error_of(answer.error_code, partition.error_code),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=OffsetAndEpoch(epoch=diverging.epoch, offset=diverging.end_offset) if diverging.epoch >= 0 else None,
        snapshot_id=OffsetAndEpoch(epoch=snapshot.epoch, offset=snapshot.end_offset) if snapshot.epoch >= 0 else None,
        batches=tuple(parse_batches(partition.records)),
        reply_to=reply_to,
    )


def from_fetch_snapshot(answer: FetchSnapshotResponse, reply_to: object) -> raft.FetchSnapshotResponse:
    """FetchSnapshot v1."""
    partition = only(answer)
    return raft.FetchSnapshotResponse(
        epoch=partition.current_leader.leader_epoch,
        leader_id=leader_of(partition.current_leader.leader_id),
        error=error_of(answer.error_code, partition.error_code),
        snapshot_id=OffsetAndEpoch(epoch=partition.snapshot_id.epoch, offset=partition.snapshot_id.end_offset),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
        reply_to=reply_to,
    )
