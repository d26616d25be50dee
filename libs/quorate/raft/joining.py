"""What a node does about its own vote: tells the leader of itself, or asks to be added (KIP-853, KIP-1186)."""

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
from quorate.raft.requests import Lane
from quorate.raft.roles import Follower, Role, known_leader
from quorate.raft.turn import Turn


def tell_leader(turn: Turn, role: Follower) -> None:
    """Sends what there is to be told or asked, at most once a fetch timeout.

    Whether it has helped is seen in the log, so an answer that is lost or a refusal needs no care: while there is
    still a reason, it is sent again.
    """
    request = _update(turn, role) if turn.is_voter else _join(turn, role)
    if request is None or not turn.is_due(role.voters_ms) or not turn.may_ask(role.leader_id, Lane.VOTERS):
        return
    role.voters_ms = turn.now_ms + turn.settings.fetch_timeout_ms
    turn.ask(role.leader_id, request)


def _update(turn: Turn, role: Follower) -> UpdateRaftVoterRequest | None:
    """What the leader should know of us as a voter; None if it does. A node without listeners has nothing to tell."""
    # A leader of which we have not learned a commit yet would send us away.
    if not role.is_caught_up or not turn.me.endpoints:
        return None
    is_known = role.has_told if turn.log.kraft_version == 0 else turn.me in turn.voters.voters
    return None if is_known else UpdateRaftVoterRequest(epoch=role.epoch, voter=turn.me)


def _join(turn: Turn, role: Follower) -> VoterChange | None:
    """The next step to a vote of our own: first, one that had our id on another disk must go. KIP-1186."""
    is_wanted = turn.settings.auto_join_enable and turn.log.kraft_version >= 1 and turn.me.endpoints
    if not is_wanted or not role.is_caught_up or turn.node.directory_id == ZERO_UUID:
        return None
    stale = turn.voters.by_id(turn.node.id)
    if stale is not None:
        return RemoveRaftVoterRequest(voter=stale.key)
    # The commit may need our own vote, so we cannot wait for it before we fetch on.
    timeout_ms = turn.settings.request_timeout_ms
    return AddRaftVoterRequest(voter=turn.me, timeout_ms=timeout_ms, ack_when_committed=False)


def take_updated(turn: Turn, role: Follower, response: UpdateRaftVoterResponse) -> None:
    """The leader knows us now; one that has no such request need not be told again."""
    role.has_told = response.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)


def take_removed(turn: Turn, role: Follower, response: RemoveRaftVoterResponse) -> None:
    """The replica that had our id votes no more: we may ask for its place at once."""
    if response.error is ErrorCode.NONE:
        role.voters_ms = turn.now_ms


def answer_api_versions(turn: Turn, role: Role, request: ApiVersionsRequest) -> None:
    """With what we can work, whatever we are."""
    response = ApiVersionsResponse(
        kraft_versions=turn.me.kraft_versions, epoch=role.epoch, leader_id=known_leader(role)
    )
    turn.answer(request, response)
