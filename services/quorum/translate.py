"""Kafka's envelope ↔ the core's flat messages: the only place that knows topics and partitions.

Every request of the quorum protocol names one topic, `__cluster_metadata`, with one partition, 0. A request
that names anything else is INVALID_REQUEST (KIP-595) and never reaches the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    ZERO_UUID,
    NodeId,
    OffsetAndEpoch,
    ReplicaKey,
    parse_uuid,
    uuid_text,
)
from quorate.raft import messages as raft
from services.quorum.batches import parse_batches

NOBODY: Final = -1
TOPIC_ID: Final = uuid_text(METADATA_TOPIC_ID)
NO_EPOCH_END: Final = -1


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node's quorum listener is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Endpoints = Mapping[NodeId, Address]


def only(request: Any, *, by_id: bool = False) -> Any:
    """The one partition that a request may name. Raises ApiError(INVALID_REQUEST)."""
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, partition = topics[0], topics[0].partitions[0]
        index = partition.partition if hasattr(partition, "partition") else partition.partition_index
        if by_id:
            named = topic.topic_id == TOPIC_ID
        else:
            named = (topic.name if hasattr(topic, "name") else topic.topic_name) == METADATA_TOPIC
        if named and index == METADATA_PARTITION:
            return partition
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"{type(request).__name__} must name {METADATA_TOPIC} ({TOPIC_ID}) and its partition {METADATA_PARTITION}, "
        "and nothing else",
    )


def _key(node_id: NodeId, directory_id: str) -> ReplicaKey:
    try:
        return ReplicaKey(node_id, parse_uuid(directory_id))
    except ValueError as problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(problem)) from None


def _voter(node_id: NodeId, directory_id: str) -> ReplicaKey | None:
    return None if node_id == NOBODY else _key(node_id, directory_id)


def _cluster(request: Any) -> str | None:
    return request.cluster_id if request.HasField("cluster_id") else None


def _leader(leader_id: NodeId) -> NodeId | None:
    return None if leader_id == NOBODY else leader_id


def _id(leader_id: NodeId | None) -> NodeId:
    return NOBODY if leader_id is None else leader_id


# -- requests that come in ---------------------------------------------------------------------------


def vote_request(request: VoteRequest, reply_to: object) -> raft.VoteRequest:
    """Vote v2. KIP-996."""
    partition = only(request)
    return raft.VoteRequest(
        epoch=partition.replica_epoch,
        replica=_key(partition.replica_id, partition.replica_directory_id),
        last=OffsetAndEpoch(epoch=partition.last_offset_epoch, offset=partition.last_offset),
        pre_vote=partition.pre_vote,
        voter=_voter(request.voter_id, partition.voter_directory_id),
        cluster_id=_cluster(request),
        reply_to=reply_to,
    )


def begin_request(request: BeginQuorumEpochRequest, reply_to: object) -> raft.BeginQuorumEpochRequest:
    """BeginQuorumEpoch v1."""
    partition = only(request)
    return raft.BeginQuorumEpochRequest(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter=_voter(request.voter_id, partition.voter_directory_id),
        cluster_id=_cluster(request),
        reply_to=reply_to,
    )


def end_request(request: EndQuorumEpochRequest, reply_to: object) -> raft.EndQuorumEpochRequest:
    """EndQuorumEpoch v1."""
    partition = only(request)
    return raft.EndQuorumEpochRequest(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        preferred_successors=tuple(
            _key(candidate.candidate_id, candidate.candidate_directory_id)
            for candidate in partition.preferred_candidates
        ),
        cluster_id=_cluster(request),
        reply_to=reply_to,
    )


def fetch_request(request: FetchRequest, reply_to: object) -> raft.FetchRequest:
    """Fetch v18."""
    partition = only(request, by_id=True)
    return raft.FetchRequest(
        epoch=partition.current_leader_epoch,
        replica=_key(request.replica_state.replica_id, partition.replica_directory_id),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        max_bytes=request.max_bytes,
        max_wait_ms=request.max_wait_ms,
        high_watermark=partition.high_watermark,
        cluster_id=_cluster(request),
        reply_to=reply_to,
    )


def fetch_snapshot_request(request: FetchSnapshotRequest, reply_to: object) -> raft.FetchSnapshotRequest:
    """FetchSnapshot v1."""
    partition = only(request)
    return raft.FetchSnapshotRequest(
        epoch=partition.current_leader_epoch,
        replica=_key(request.replica_id, partition.replica_directory_id),
        snapshot_id=OffsetAndEpoch(epoch=partition.snapshot_id.epoch, offset=partition.snapshot_id.end_offset),
        position=partition.position,
        max_bytes=request.max_bytes,
        cluster_id=_cluster(request),
        reply_to=reply_to,
    )


# -- answers that go out -----------------------------------------------------------------------------


def vote_answer(answer: raft.VoteResponse, endpoints: Endpoints) -> VoteResponse:
    """Vote v2."""
    topic = VoteResponse.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=answer.error,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
        leader_id=_id(answer.leader_id),
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return VoteResponse(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(VoteResponse.NodeEndpoint, answer.leader_id, endpoints),
    )


def begin_answer(answer: raft.BeginQuorumEpochResponse, endpoints: Endpoints) -> BeginQuorumEpochResponse:
    """BeginQuorumEpoch v1."""
    return _told(BeginQuorumEpochResponse, answer, endpoints)


def end_answer(answer: raft.EndQuorumEpochResponse, endpoints: Endpoints) -> EndQuorumEpochResponse:
    """EndQuorumEpoch v1."""
    return _told(EndQuorumEpochResponse, answer, endpoints)


def _told(message: Any, answer: Any, endpoints: Endpoints) -> Any:
    topic = message.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=answer.error,
        leader_id=_id(answer.leader_id),
        leader_epoch=answer.epoch,
    )
    return message(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(message.NodeEndpoint, answer.leader_id, endpoints),
    )


def fetch_answer(answer: raft.FetchResponse, records: bytes, endpoints: Endpoints) -> FetchResponse:
    """Fetch v18, with the bytes that the answer said to read."""
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=answer.error,  # type: ignore[arg-type]
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        records=records,
        current_leader=topic.PartitionData.LeaderIdAndEpoch(leader_id=_id(answer.leader_id), leader_epoch=answer.epoch),
    )
    if answer.diverging is not None:
        partition.diverging_epoch.epoch = answer.diverging.epoch
        partition.diverging_epoch.end_offset = answer.diverging.offset
    if answer.snapshot_id is not None:
        partition.snapshot_id.epoch = answer.snapshot_id.epoch
        partition.snapshot_id.end_offset = answer.snapshot_id.offset
    return FetchResponse(
        responses=[topic(topic_id=TOPIC_ID, partitions=[partition])],
        node_endpoints=_nodes(FetchResponse.NodeEndpoint, answer.leader_id, endpoints) if answer.error else [],
    )


def fetch_snapshot_answer(
    answer: raft.FetchSnapshotResponse, data: bytes, endpoints: Endpoints
) -> FetchSnapshotResponse:
    """FetchSnapshot v1, with the bytes that the answer said to read."""
    topic = FetchSnapshotResponse.TopicSnapshot
    partition = topic.PartitionSnapshot(
        index=METADATA_PARTITION,
        error_code=answer.error,  # type: ignore[arg-type]
        size=answer.size,
        position=answer.position,
        unaligned_records=data,
        current_leader=topic.PartitionSnapshot.LeaderIdAndEpoch(
            leader_id=_id(answer.leader_id), leader_epoch=answer.epoch
        ),
    )
    if answer.snapshot_id is not None:
        partition.snapshot_id.epoch = answer.snapshot_id.epoch
        partition.snapshot_id.end_offset = answer.snapshot_id.offset
    return FetchSnapshotResponse(
        topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(FetchSnapshotResponse.NodeEndpoint, answer.leader_id, endpoints),
    )


def _nodes(node: Callable[..., Any], leader_id: NodeId | None, endpoints: Endpoints) -> list[Any]:
    """Where the leader is, for an asker that has to go there."""
    if leader_id is None or leader_id not in endpoints:
        return []
    return [node(node_id=leader_id, host=endpoints[leader_id].host, port=endpoints[leader_id].port)]


# -- requests that go out ----------------------------------------------------------------------------


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
        voter_id=_id(request.voter.id if request.voter else None),
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def to_begin(request: raft.BeginQuorumEpochRequest) -> BeginQuorumEpochRequest:
    """BeginQuorumEpoch v1."""
    topic = BeginQuorumEpochRequest.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        voter_directory_id=_directory(request.voter),
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=_id(request.voter.id if request.voter else None),
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
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


# -- answers that come in ----------------------------------------------------------------------------


def from_vote(answer: VoteResponse, reply_to: object) -> raft.VoteResponse:
    """Vote v2."""
    partition = only(answer)
    return raft.VoteResponse(
        epoch=partition.leader_epoch,
        leader_id=_leader(partition.leader_id),
        granted=partition.vote_granted,
        error=ErrorCode(answer.error_code or partition.error_code),
        reply_to=reply_to,
    )


def from_begin(answer: BeginQuorumEpochResponse, reply_to: object) -> raft.BeginQuorumEpochResponse:
    """BeginQuorumEpoch v1."""
    partition = only(answer)
    return raft.BeginQuorumEpochResponse(
        epoch=partition.leader_epoch,
        leader_id=_leader(partition.leader_id),
        error=ErrorCode(answer.error_code or partition.error_code),
        reply_to=reply_to,
    )


def from_end(answer: EndQuorumEpochResponse, reply_to: object) -> raft.EndQuorumEpochResponse:
    """EndQuorumEpoch v1."""
    partition = only(answer)
    return raft.EndQuorumEpochResponse(
        epoch=partition.leader_epoch,
        leader_id=_leader(partition.leader_id),
        error=ErrorCode(answer.error_code or partition.error_code),
        reply_to=reply_to,
    )


def from_fetch(answer: FetchResponse, reply_to: object) -> raft.FetchResponse:
    """Fetch v18; its batches are checked. Raises Corrupt."""
    (topic,) = answer.responses
    (partition,) = topic.partitions
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return raft.FetchResponse(
        epoch=partition.current_leader.leader_epoch,
        leader_id=_leader(partition.current_leader.leader_id),
        error=ErrorCode(answer.error_code or partition.error_code),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=OffsetAndEpoch(epoch=diverging.epoch, offset=diverging.end_offset) if diverging.epoch >= 0 else None,
        snapshot_id=OffsetAndEpoch(epoch=snapshot.epoch, offset=snapshot.end_offset) if snapshot.epoch >= 0 else None,
        batches=tuple(parse_batches(partition.records)),
        reply_to=reply_to,
    )


def from_fetch_snapshot(answer: FetchSnapshotResponse, reply_to: object) -> raft.FetchSnapshotResponse:
    """FetchSnapshot v1."""
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return raft.FetchSnapshotResponse(
        epoch=partition.current_leader.leader_epoch,
        leader_id=_leader(partition.current_leader.leader_id),
        error=ErrorCode(answer.error_code or partition.error_code),
        snapshot_id=OffsetAndEpoch(epoch=partition.snapshot_id.epoch, offset=partition.snapshot_id.end_offset),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
        reply_to=reply_to,
    )
