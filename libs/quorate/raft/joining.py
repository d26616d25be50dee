"""A node's own entry in the voter set: UpdateRaftVoter as a voter, auto-join as an observer (KIP-853, KIP-1186)."""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import ZERO_UUID
from quorate.raft.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoterChange,
)
from quorate.raft.requests import RequestClass
from quorate.raft.roles import Follower, Role, known_leader
from quorate.raft.step_context import StepContext


def send_voter_request(context: StepContext, role: Follower) -> None:
    """Sends UpdateRaftVoter as a voter, or RemoveRaftVoter or AddRaftVoter to join (auto-join), if one is needed.

    At most once a fetch timeout. Success is visible in the log, so a lost answer or a refusal needs no handling: the
    request is repeated until the voter set of the log is right.
    """
    if context.is_voter and role.is_caught_up and context.log.is_voter_change_committed:
        context.handover.was_voter = True
    request = _update(context, role) if context.is_voter else _join(context, role)
    if (
        request is None
        or not context.wait_until(role.next_voter_request_at_ms)
        or not context.wait_to_ask(role.leader_id, RequestClass.VOTERS)
    ):
        return
    role.next_voter_request_at_ms = context.now_ms + context.settings.fetch_timeout_ms
    context.ask(role.leader_id, request)


def _update(context: StepContext, role: Follower) -> UpdateRaftVoterRequest | None:
    """Returns the UpdateRaftVoter that a voter has to send; None if the leader knows its listeners and versions."""
    # Before this node has seen a commit of this leader, the leader may still refuse for want of one (I-31).
    if not role.is_caught_up or not context.me.endpoints:
        return None
    is_known = role.has_announced if context.log.kraft_version == 0 else context.me in context.voters.voters
    return None if is_known else UpdateRaftVoterRequest(epoch=role.epoch, voter=context.me)


def _join(context: StepContext, role: Follower) -> VoterChange | None:
    """Returns the next request to become a voter (auto-join); None if that is off or not possible now. KIP-1186.

    A node that was removed while its process runs stays out: it is about to go, and Kafka's would be back before its
    operator can stop it. Once started again, it joins again.

    A voter with this node's id on another disk is removed first: a wiped disk is another replica, and ids are unique
    (I-34).
    """
    is_wanted = context.settings.auto_join_enable and context.log.kraft_version >= 1 and context.me.endpoints
    if not is_wanted or not role.is_caught_up or context.node.directory_id == ZERO_UUID or context.handover.was_voter:
        return None
    stale = context.voters.by_id(context.node.id)
    if stale is not None:
        assert stale.key != context.node, stale  # this node would be a voter
        return RemoveRaftVoterRequest(voter=stale.key)
    # The commit can need this node's own fetches, so it must not wait for it: `ack_when_committed` is False.
    timeout_ms = context.settings.request_timeout_ms
    return AddRaftVoterRequest(voter=context.me, timeout_ms=timeout_ms, ack_when_committed=False)


def take_updated(context: StepContext, role: Follower, response: UpdateRaftVoterResponse) -> None:
    """Records that the leader has accepted UpdateRaftVoter, or does not support it; else it is sent again."""
    role.has_announced = response.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)


def take_removed(context: StepContext, role: Follower, response: RemoveRaftVoterResponse) -> None:
    """Lets AddRaftVoter be sent at once after the voter with this node's id on another disk was removed."""
    if response.error is ErrorCode.NONE:
        role.next_voter_request_at_ms = context.now_ms


def answer_api_versions(context: StepContext, role: Role, request: ApiVersionsRequest) -> None:
    """Answers ApiVersions with this node's range of kraft.version, in any role. KIP-853."""
    response = ApiVersionsResponse(
        kraft_versions=context.me.kraft_versions, epoch=role.epoch, leader_id=known_leader(role)
    )
    context.answer(request, response)
