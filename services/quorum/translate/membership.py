"""Converts the messages of membership changes (KIP-853) between protobuf and the core's form."""

from __future__ import annotations

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
from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    ControllerPresenceRequest,
    ControllerPresenceResponse,
    SetTargetVotersResponse,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
)
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import uuid_text
from quorate.raft import messages as raft
from quorate.raft.voters import VersionRange, Voter, VoterSet
from quorate.wire.schema import layout
from services.quorum.translate.envelope import (
    VOTERS_MAX,
    Endpoints,
    check_count,
    cluster_of,
    id_of,
    key_of,
    leader_of,
    listeners_of,
    peer_error,
)

KRAFT_VERSION: Final = "kraft.version"
SOFTWARE: Final = "quorate"
IDS_SHOWN_MAX: Final = 10
SEQUENCE_MAX: Final = 1 << 62
LEVEL_MAX: Final = 2**15 - 1
"""Highest level of a feature: Kafka's levels are int16."""

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
"""The Kafka APIs that a quorum node serves, for ApiVersions."""


# Calls to this node.


def api_versions_request(request: ApiVersionsRequest, reply_to: object) -> raft.ApiVersionsRequest:
    """Converts a received ApiVersions v5 request to the core's form."""
    return raft.ApiVersionsRequest(cluster_id=cluster_of(request), reply_to=reply_to)


def add_request(request: AddRaftVoterRequest, reply_to: object) -> raft.AddRaftVoterRequest:
    """Converts a received AddRaftVoter v1 request to the core's form. Raises ApiError(INVALID_REQUEST)."""
    return raft.AddRaftVoterRequest(
        voter=Voter(
            key=key_of(request.voter_id, request.voter_directory_id),
            endpoints=listeners_of("listeners", request.listeners),
        ),
        timeout_ms=request.timeout_ms,
        ack_when_committed=request.ack_when_committed,
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def remove_request(request: RemoveRaftVoterRequest, reply_to: object) -> raft.RemoveRaftVoterRequest:
    """Converts a received RemoveRaftVoter v0 request to the core's form. Raises ApiError(INVALID_REQUEST)."""
    return raft.RemoveRaftVoterRequest(
        voter=key_of(request.voter_id, request.voter_directory_id),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def alter_request(request: AlterQuorumRequest, reply_to: object) -> raft.AlterQuorumRequest:
    """Converts a received AlterQuorum or SetTargetVoters request, which Kafka does not have, to the core's form.

    A target of None cancels the present one. KIP-595's first form has AlterQuorum. Raises ApiError(INVALID_REQUEST)
    for double ids, malformed voters, and a request with both voters and `cancel` or with neither.
    """
    return raft.AlterQuorumRequest(
        target=_target_of(request),
        validate_only=request.validate_only,
        cluster_id=request.cluster_id or None,
        reply_to=reply_to,
    )


def _target_of(request: AlterQuorumRequest) -> VoterSet | None:
    """Returns the target voter set of a request; None cancels the target. Raises ApiError(INVALID_REQUEST)."""
    check_count("voters", request.voters, "voters", VOTERS_MAX)
    ids = [voter.id for voter in request.voters]
    why = None
    if request.cancel and ids:
        why = f"{len(ids)} are named, and cancel is set; one excludes the other"
    elif not request.cancel and not ids:
        why = "the target has no voter; it must have at least one"
    elif len(set(ids)) < len(ids):
        why = f"the target has the ids {sorted(ids)[:IDS_SHOWN_MAX]}; each must be there once"
    if why is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"voters: {why}", {"field": "voters"})
    if request.cancel:
        return None
    return VoterSet(
        tuple(
            Voter(
                key=key_of(voter.id, voter.directory_id),
                endpoints=listeners_of(f"voters[{place}].listeners", voter.listeners),
            )
            for place, voter in enumerate(request.voters)
        )
    )


def alter_answer(answer: raft.AlterQuorumResponse) -> SetTargetVotersResponse:
    """Converts the core's answer to a SetTargetVoters response, which Kafka does not have; no offset becomes -1."""
    return SetTargetVotersResponse(
        error_code=answer.error,  # type: ignore[arg-type]
        error_message=answer.message,
        offset=-1 if answer.offset is None else answer.offset,
    )


def update_request(request: UpdateRaftVoterRequest, reply_to: object) -> raft.UpdateRaftVoterRequest:
    """Converts a received UpdateRaftVoter v0 request to the core's form. Raises ApiError(INVALID_REQUEST)."""
    return raft.UpdateRaftVoterRequest(
        epoch=request.current_leader_epoch,
        voter=Voter(
            key=key_of(request.voter_id, request.voter_directory_id),
            endpoints=listeners_of("listeners", request.listeners),
            kraft_versions=_range_of(request.k_raft_version_feature),
        ),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def transfer_request(request: TransferLeadershipRequest, reply_to: object) -> raft.TransferLeadershipRequest:
    """Converts a received TransferLeadership request, which Kafka does not have, to the core's form.

    The voter -1 becomes None: the voter with the longest log.
    """
    return raft.TransferLeadershipRequest(
        to=leader_of(request.voter_id), epoch=request.epoch, timeout_ms=request.timeout_ms, reply_to=reply_to
    )


def presence_request(request: ControllerPresenceRequest, reply_to: object) -> raft.ControllerPresenceRequest:
    """Converts a received ControllerPresence request, which Kafka does not have, to the core's form.

    Raises ApiError(INVALID_REQUEST) for a malformed directory id, or a sequence below 1 or above 2^62.
    """
    return raft.ControllerPresenceRequest(
        epoch=request.leader_epoch,
        replica=key_of(request.voter_id, request.directory_id),
        is_present=request.is_present,
        sequence=_sequence(request.sequence, lowest=1),
        cluster_id=cluster_of(request),
        reply_to=reply_to,
    )


def _sequence(sequence: int, *, lowest: int) -> int:
    """Checks the sequence of a report; it must leave room for many more. Raises ApiError(INVALID_REQUEST)."""
    if not lowest <= sequence <= SEQUENCE_MAX:
        why = f"sequence: {sequence}; it is from {lowest} to {SEQUENCE_MAX}"
        raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "sequence"})
    return sequence


def presence_answer(answer: raft.ControllerPresenceResponse) -> ControllerPresenceResponse:
    """Converts the core's answer to a ControllerPresence response."""
    return ControllerPresenceResponse(
        error_code=answer.error,  # type: ignore[arg-type]
        leader_id=id_of(answer.leader_id),
        leader_epoch=answer.epoch,
        sequence=answer.sequence,
        is_present=answer.is_present,
    )


def transfer_answer(answer: raft.TransferLeadershipResponse) -> TransferLeadershipResponse:
    """Converts the core's answer to a TransferLeadership response."""
    return TransferLeadershipResponse(
        error_code=answer.error,  # type: ignore[arg-type]
        error_message=answer.message,
        leader_id=id_of(answer.leader_id),
        leader_epoch=answer.epoch,
    )


def api_versions_answer(answer: raft.ApiVersionsResponse) -> ApiVersionsResponse:
    """Converts the core's answer to an ApiVersions v5 response."""
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
    """Converts the core's answer to an AddRaftVoter v1 response."""
    return AddRaftVoterResponse(error_code=answer.error, error_message=answer.message or None)  # type: ignore[arg-type]


def remove_answer(answer: raft.RemoveRaftVoterResponse) -> RemoveRaftVoterResponse:
    """Converts the core's answer to a RemoveRaftVoter v0 response."""
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=answer.message or None)  # type: ignore[arg-type]


def update_answer(answer: raft.UpdateRaftVoterResponse, endpoints: Endpoints) -> UpdateRaftVoterResponse:
    """Converts the core's answer to an UpdateRaftVoter v0 response, with the leader's address if `endpoints` has it."""
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


def _range_of(feature: Any) -> VersionRange:
    """Converts and checks a range of kraft.version levels. Raises ApiError(INVALID_REQUEST)."""
    lowest, highest = feature.min_supported_version, feature.max_supported_version
    if not 0 <= lowest <= highest <= LEVEL_MAX:
        why = f"k_raft_version_feature: {lowest} to {highest} is no range of levels from 0 to {LEVEL_MAX}"
        raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "k_raft_version_feature"})
    return VersionRange(lowest, highest)


# Calls of this node.


def to_api_versions(request: raft.ApiVersionsRequest) -> ApiVersionsRequest:
    """Converts the core's request to ApiVersions v5."""
    return ApiVersionsRequest(client_software_name=SOFTWARE, cluster_id=request.cluster_id)


def to_add(request: raft.AddRaftVoterRequest) -> AddRaftVoterRequest:
    """Converts the core's request to AddRaftVoter v1."""
    return AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.voter.key.id,
        voter_directory_id=uuid_text(request.voter.key.directory_id),
        listeners=_listeners(AddRaftVoterRequest.Listener, request.voter),
        ack_when_committed=request.ack_when_committed,
    )


def to_remove(request: raft.RemoveRaftVoterRequest) -> RemoveRaftVoterRequest:
    """Converts the core's request to RemoveRaftVoter v0."""
    return RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        voter_directory_id=uuid_text(request.voter.directory_id),
    )


def to_update(request: raft.UpdateRaftVoterRequest) -> UpdateRaftVoterRequest:
    """Converts the core's request to UpdateRaftVoter v0."""
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


def to_presence(request: raft.ControllerPresenceRequest) -> ControllerPresenceRequest:
    """Converts the core's request to ControllerPresence."""
    return ControllerPresenceRequest(
        cluster_id=request.cluster_id,
        leader_epoch=request.epoch,
        voter_id=request.replica.id,
        directory_id=uuid_text(request.replica.directory_id),
        is_present=request.is_present,
        sequence=request.sequence,
    )


def from_presence(answer: ControllerPresenceResponse, reply_to: object) -> raft.ControllerPresenceResponse:
    """Converts a peer's ControllerPresence response to the core's form.

    Raises ApiError for an error code that is not known, or a sequence below 0 or above 2^62.
    """
    return raft.ControllerPresenceResponse(
        epoch=answer.leader_epoch,
        leader_id=leader_of(answer.leader_id),
        sequence=_sequence(answer.sequence, lowest=0),
        is_present=answer.is_present,
        error=peer_error(answer.error_code),
        reply_to=reply_to,
    )


def from_api_versions(answer: ApiVersionsResponse, reply_to: object) -> raft.ApiVersionsResponse:
    """Converts a peer's ApiVersions v5 response to the core's form, which has its range of kraft.version alone.

    A peer that does not list kraft.version supports level 0 only. Raises ApiError for an error code that is not known.
    """
    ranges = {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features}
    return raft.ApiVersionsResponse(
        kraft_versions=VersionRange(*ranges.get(KRAFT_VERSION, (0, 0))),
        error=peer_error(answer.error_code),
        reply_to=reply_to,
    )


def from_add(answer: AddRaftVoterResponse, reply_to: object) -> raft.AddRaftVoterResponse:
    """Converts a peer's AddRaftVoter v1 response to the core's form. Raises ApiError for an unknown error code."""
    return raft.AddRaftVoterResponse(
        error=peer_error(answer.error_code), message=answer.error_message, reply_to=reply_to
    )


def from_remove(answer: RemoveRaftVoterResponse, reply_to: object) -> raft.RemoveRaftVoterResponse:
    """Converts a peer's RemoveRaftVoter v0 response to the core's form. Raises ApiError for an unknown error code."""
    return raft.RemoveRaftVoterResponse(
        error=peer_error(answer.error_code), message=answer.error_message, reply_to=reply_to
    )


def from_update(answer: UpdateRaftVoterResponse, reply_to: object) -> raft.UpdateRaftVoterResponse:
    """Converts a peer's UpdateRaftVoter v0 response to the core's form. Raises ApiError for an unknown error code."""
    return raft.UpdateRaftVoterResponse(
        epoch=answer.current_leader.leader_epoch,
        leader_id=leader_of(answer.current_leader.leader_id),
        error=peer_error(answer.error_code),
        reply_to=reply_to,
    )


def _listeners(listener: Any, voter: Voter) -> list[Any]:
    return [listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints]
