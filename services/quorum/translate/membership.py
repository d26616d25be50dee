"""Who votes: requests and answers of KIP-853, both ways. They have no envelope of topics and partitions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest, AddRaftVoterResponse
from kraft.api.api_versions_pb2 import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest
from kraft.api.fetch_pb2 import FetchRequest
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft.api.update_raft_voter_pb2 import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft.api.vote_pb2 import VoteRequest
from kraft.service.quorum_pb2 import TransferLeadershipRequest, TransferLeadershipResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import uuid_text
from quorate.raft import messages as raft
from quorate.raft.voters import Endpoint, VersionRange, Voter
from quorate.wire.schema import layout
from services.quorum.translate.envelope import Endpoints, cluster_of, error_of, id_of, key_of, leader_of

KRAFT_VERSION: Final = "kraft.version"
SOFTWARE: Final = "quorate"

_SERVED: Final[tuple[Any, ...]] = (
    FetchRequest,
    ApiVersionsRequest,
    VoteRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    DescribeQuorumRequest,
    FetchSnapshotRequest,
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
"""Kafka's APIs that a quorum node answers, by api key."""


# What a node serves.


def api_versions_request(request: ApiVersionsRequest, reply_to: object) -> raft.ApiVersionsRequest:
    """ApiVersions v5."""
    return raft.ApiVersionsRequest(cluster_id=cluster_of(request), reply_to=reply_to)


def add_request(request: AddRaftVoterRequest, reply_to: object) -> raft.AddRaftVoterRequest:
    """AddRaftVoter v1."""
    return raft.AddRaftVoterRequest(
        voter=Voter(
            key=key_of(request.voter_id, request.voter_directory_id), endpoints=_endpoints_of(request.listeners)
        ),
        timeout_ms=request.timeout_ms,
        ack_when_committed=request.ack_when_committed,
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def remove_request(request: RemoveRaftVoterRequest, reply_to: object) -> raft.RemoveRaftVoterRequest:
    """RemoveRaftVoter v0."""
    return raft.RemoveRaftVoterRequest(
        voter=key_of(request.voter_id, request.voter_directory_id),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def update_request(request: UpdateRaftVoterRequest, reply_to: object) -> raft.UpdateRaftVoterRequest:
    """UpdateRaftVoter v0."""
    feature = request.k_raft_version_feature
    return raft.UpdateRaftVoterRequest(
        epoch=request.current_leader_epoch,
        voter=Voter(
            key=key_of(request.voter_id, request.voter_directory_id),
            endpoints=_endpoints_of(request.listeners),
            kraft_versions=VersionRange(feature.min_supported_version, feature.max_supported_version),
        ),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def transfer_request(request: TransferLeadershipRequest, reply_to: object) -> raft.TransferLeadershipRequest:
    """Ours: Kafka has no such RPC."""
    return raft.TransferLeadershipRequest(
        to=leader_of(request.voter_id), epoch=request.epoch, timeout_ms=request.timeout_ms, reply_to=reply_to
    )


def transfer_answer(answer: raft.TransferLeadershipResponse) -> TransferLeadershipResponse:
    """Ours."""
    return TransferLeadershipResponse(
        error_code=answer.error,  # type: ignore[arg-type]
        error_message=answer.message,
        leader_id=id_of(answer.leader_id),
        leader_epoch=answer.epoch,
    )


def api_versions_answer(answer: raft.ApiVersionsResponse) -> ApiVersionsResponse:
    """ApiVersions v5."""
    versions = answer.kraft_versions
    return ApiVersionsResponse(
        error_code=answer.error,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
        api_keys=_served(),
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(
                name=KRAFT_VERSION, min_version=versions.lowest, max_version=versions.highest
            )
        ],
    )


def add_answer(answer: raft.AddRaftVoterResponse) -> AddRaftVoterResponse:
    """AddRaftVoter v1."""
    return AddRaftVoterResponse(error_code=answer.error, error_message=answer.message or None)  # type: ignore[arg-type]


def remove_answer(answer: raft.RemoveRaftVoterResponse) -> RemoveRaftVoterResponse:
    """RemoveRaftVoter v0."""
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=answer.message or None)  # type: ignore[arg-type]


def update_answer(answer: raft.UpdateRaftVoterResponse, endpoints: Endpoints) -> UpdateRaftVoterResponse:
    """UpdateRaftVoter v0."""
    leader = UpdateRaftVoterResponse.CurrentLeader(leader_id=id_of(answer.leader_id), leader_epoch=answer.epoch)
    if answer.leader_id is not None and answer.leader_id in endpoints:
        leader.host, leader.port = endpoints[answer.leader_id].host, endpoints[answer.leader_id].port
    return UpdateRaftVoterResponse(error_code=answer.error, current_leader=leader)  # type: ignore[arg-type]


@cache
def _served() -> tuple[ApiVersionsResponse.ApiVersion, ...]:
    layouts = [layout(request) for request in _SERVED]
    return tuple(
        ApiVersionsResponse.ApiVersion(
            api_key=each.key or 0, min_version=each.versions.start, max_version=each.versions.stop - 1
        )
        for each in sorted(layouts, key=lambda each: each.key or 0)
    )


def _endpoints_of(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    """Raises ApiError(INVALID_REQUEST) for a name that is there twice."""
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in listeners)
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"listeners: the names are {names}; each may be there once")
    return endpoints


# What a node asks.


def to_api_versions(request: raft.ApiVersionsRequest) -> ApiVersionsRequest:
    """ApiVersions v5."""
    return ApiVersionsRequest(client_software_name=SOFTWARE, cluster_id=request.cluster_id)


def to_add(request: raft.AddRaftVoterRequest) -> AddRaftVoterRequest:
    """AddRaftVoter v1."""
    return AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.voter.key.id,
        voter_directory_id=uuid_text(request.voter.key.directory_id),
        listeners=_listeners(AddRaftVoterRequest.Listener, request.voter),
        ack_when_committed=request.ack_when_committed,
    )


def to_remove(request: raft.RemoveRaftVoterRequest) -> RemoveRaftVoterRequest:
    """RemoveRaftVoter v0."""
    return RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        voter_directory_id=uuid_text(request.voter.directory_id),
    )


def to_update(request: raft.UpdateRaftVoterRequest) -> UpdateRaftVoterRequest:
    """UpdateRaftVoter v0."""
    versions = request.voter.kraft_versions
    return UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=request.voter.key.id,
        voter_directory_id=uuid_text(request.voter.key.directory_id),
        listeners=_listeners(UpdateRaftVoterRequest.Listener, request.voter),
        k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(
            min_supported_version=versions.lowest, max_supported_version=versions.highest
        ),
    )


def from_api_versions(answer: ApiVersionsResponse, reply_to: object) -> raft.ApiVersionsResponse:
    """ApiVersions v5; a node that does not name kraft.version works with level 0 only."""
    ranges = {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features}
    return raft.ApiVersionsResponse(
        kraft_versions=VersionRange(*ranges.get(KRAFT_VERSION, (0, 0))),
        error=error_of(answer.error_code),
        reply_to=reply_to,
    )


def from_add(answer: AddRaftVoterResponse, reply_to: object) -> raft.AddRaftVoterResponse:
    """AddRaftVoter v1."""
    return raft.AddRaftVoterResponse(error=error_of(answer.error_code), message=answer.error_message, reply_to=reply_to)


def from_remove(answer: RemoveRaftVoterResponse, reply_to: object) -> raft.RemoveRaftVoterResponse:
    """RemoveRaftVoter v0."""
    return raft.RemoveRaftVoterResponse(
        error=error_of(answer.error_code), message=answer.error_message, reply_to=reply_to
    )


def from_update(answer: UpdateRaftVoterResponse, reply_to: object) -> raft.UpdateRaftVoterResponse:
    """UpdateRaftVoter v0."""
    return raft.UpdateRaftVoterResponse(
        epoch=answer.current_leader.leader_epoch,
        leader_id=leader_of(answer.current_leader.leader_id),
        error=error_of(answer.error_code),
        reply_to=reply_to,
    )


def _listeners(listener: Any, voter: Voter) -> list[Any]:
    return [listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints]
