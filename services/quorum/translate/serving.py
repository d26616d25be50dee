"""Converts received requests to the core's messages, and the core's answers to Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, NodeId, OffsetAndEpoch
from quorate.raft import messages as raft
from services.quorum.translate.envelope import (
    TOPIC_ID,
    VOTERS_MAX,
    Endpoints,
    check_count,
    cluster_of,
    id_of,
    key_of,
    only,
    voter_of,
)


def vote_request(request: VoteRequest, reply_to: object) -> raft.VoteRequest:
    """Converts a received Vote v2 request to the core's form. Raises ApiError(INVALID_REQUEST). KIP-996."""
    partition = only(request)
    return raft.VoteRequest(
        epoch=partition.replica_epoch,
        replica=key_of(partition.replica_id, partition.replica_directory_id),
        last=OffsetAndEpoch(epoch=partition.last_offset_epoch, offset=partition.last_offset),
        pre_vote=partition.pre_vote,
        voter=voter_of(request.voter_id, partition.voter_directory_id),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def begin_request(request: BeginQuorumEpochRequest, reply_to: object) -> raft.BeginQuorumEpochRequest:
    """Converts a received BeginQuorumEpoch v1 request to the core's form. Raises ApiError(INVALID_REQUEST)."""
    partition = only(request)
    return raft.BeginQuorumEpochRequest(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter=voter_of(request.voter_id, partition.voter_directory_id),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def end_request(request: EndQuorumEpochRequest, reply_to: object) -> raft.EndQuorumEpochRequest:
    """Converts a received EndQuorumEpoch v1 request to the core's form. Raises ApiError(INVALID_REQUEST)."""
    partition = only(request)
    check_count("preferred_candidates", partition.preferred_candidates, "candidates", VOTERS_MAX)
    return raft.EndQuorumEpochRequest(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        preferred_successors=tuple(
            key_of(candidate.candidate_id, candidate.candidate_directory_id)
            for candidate in partition.preferred_candidates
        ),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def fetch_request(request: FetchRequest, reply_to: object) -> raft.FetchRequest:
    """Converts a received Fetch v18 request to the core's form. Raises ApiError(INVALID_REQUEST)."""
    partition = only(request)
    return raft.FetchRequest(
        epoch=partition.current_leader_epoch,
        replica=key_of(request.replica_state.replica_id, partition.replica_directory_id),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        max_bytes=request.max_bytes,
        max_wait_ms=request.max_wait_ms,
        high_watermark=partition.high_watermark,
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def fetch_snapshot_request(request: FetchSnapshotRequest, reply_to: object) -> raft.FetchSnapshotRequest:
    """Converts a received FetchSnapshot v1 request to the core's form. Raises ApiError(INVALID_REQUEST)."""
    partition = only(request)
    return raft.FetchSnapshotRequest(
        epoch=partition.current_leader_epoch,
        replica=key_of(request.replica_id, partition.replica_directory_id),
        snapshot_id=OffsetAndEpoch(epoch=partition.snapshot_id.epoch, offset=partition.snapshot_id.end_offset),
        position=partition.position,
        max_bytes=request.max_bytes,
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def vote_answer(answer: raft.VoteResponse, endpoints: Endpoints) -> VoteResponse:
    """Converts the core's answer to a Vote v2 response, with the leader's address if `endpoints` has it."""
    if _is_whole_error(answer):
        return VoteResponse(error_code=answer.error)  # type: ignore[arg-type]  # the stubs' enum type does not know ours
    topic = VoteResponse.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=answer.error,  # type: ignore[arg-type]
        leader_id=id_of(answer.leader_id),
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return VoteResponse(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(VoteResponse.NodeEndpoint, answer.leader_id, endpoints),
    )


def begin_answer(answer: raft.BeginQuorumEpochResponse, endpoints: Endpoints) -> BeginQuorumEpochResponse:
    """Converts the core's answer to a BeginQuorumEpoch v1 response, with the leader's address if `endpoints` has it."""
    return _leader_answer(BeginQuorumEpochResponse, answer, endpoints)


def end_answer(answer: raft.EndQuorumEpochResponse, endpoints: Endpoints) -> EndQuorumEpochResponse:
    """Converts the core's answer to an EndQuorumEpoch v1 response, with the leader's address if `endpoints` has it."""
    return _leader_answer(EndQuorumEpochResponse, answer, endpoints)


def _leader_answer(message: Any, answer: Any, endpoints: Endpoints) -> Any:
    if _is_whole_error(answer):
        return message(error_code=answer.error)
    topic = message.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=answer.error,
        leader_id=id_of(answer.leader_id),
        leader_epoch=answer.epoch,
    )
    return message(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(message.NodeEndpoint, answer.leader_id, endpoints),
    )


def fetch_answer(answer: raft.FetchResponse, records: bytes, endpoints: Endpoints) -> FetchResponse:
    """Converts the core's answer to a Fetch v18 response, with the encoded batches `records` that were read for it.

    The leader's address goes with it if `endpoints` has one.
    """
    if _is_whole_error(answer):
        return FetchResponse(error_code=answer.error)  # type: ignore[arg-type]
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=answer.error,  # type: ignore[arg-type]
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        records=records,
        current_leader=topic.PartitionData.LeaderIdAndEpoch(
            leader_id=id_of(answer.leader_id), leader_epoch=answer.epoch
        ),
    )
    if answer.diverging is not None:
        partition.diverging_epoch.epoch = answer.diverging.epoch
        partition.diverging_epoch.end_offset = answer.diverging.offset
    if answer.snapshot_id is not None:
        partition.snapshot_id.epoch = answer.snapshot_id.epoch
        partition.snapshot_id.end_offset = answer.snapshot_id.offset
    return FetchResponse(
        responses=[topic(topic_id=TOPIC_ID, partitions=[partition])],
        node_endpoints=_nodes(FetchResponse.NodeEndpoint, answer.leader_id, endpoints),
    )


def fetch_snapshot_answer(
    answer: raft.FetchSnapshotResponse, data: bytes, endpoints: Endpoints
) -> FetchSnapshotResponse:
    """Converts the core's answer to a FetchSnapshot v1 response, with the snapshot's bytes `data` for it.

    The leader's address goes with it if `endpoints` has one.
    """
    if _is_whole_error(answer):
        return FetchSnapshotResponse(error_code=answer.error)  # type: ignore[arg-type]
    topic = FetchSnapshotResponse.TopicSnapshot
    partition = topic.PartitionSnapshot(
        index=METADATA_PARTITION,
        error_code=answer.error,  # type: ignore[arg-type]
        size=answer.size,
        position=answer.position,
        unaligned_records=data,
        current_leader=topic.PartitionSnapshot.LeaderIdAndEpoch(
            leader_id=id_of(answer.leader_id), leader_epoch=answer.epoch
        ),
    )
    if answer.snapshot_id is not None:
        partition.snapshot_id.epoch = answer.snapshot_id.epoch
        partition.snapshot_id.end_offset = answer.snapshot_id.offset
    return FetchSnapshotResponse(
        topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(FetchSnapshotResponse.NodeEndpoint, answer.leader_id, endpoints),
    )


def _is_whole_error(answer: raft.Response) -> bool:
    """Whether the answer is a top-level error, which has no other fields, as in Kafka."""
    return answer.epoch == raft.EPOCH_UNKNOWN and answer.error is not ErrorCode.NONE


def _nodes(node: Callable[..., Any], leader_id: NodeId | None, endpoints: Endpoints) -> list[Any]:
    """Returns the leader's endpoint, also in a failed answer, as the sender may know it only as a bootstrap server.

    As Kafka's RaftUtil.singletonFetchResponse: in every answer, if a leader and its address are known.
    """
    at = None if leader_id is None else endpoints.get(leader_id)
    return [] if at is None else [node(node_id=leader_id, host=at.host, port=at.port)]
