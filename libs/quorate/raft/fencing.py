"""Which epoch a message speaks of, and what that makes of us: decided once, for all messages."""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId
from quorate.raft import enter
from quorate.raft.messages import (
    EPOCH_UNKNOWN,
    BeginQuorumEpochRequest,
    EpochlessRequest,
    EpochlessResponse,
    LeaderRequest,
    NewsOfLeader,
    Request,
    Response,
    VoteRequest,
    flaw,
)
from quorate.raft.roles import Role, known_leader
from quorate.raft.turn import Fault, Turn
from quorate.raft.voters import is_same


def refusal(turn: Turn, role: Role, request: Request) -> Fault | None:
    """What keeps `request` from being heard at all; None if nothing does."""
    if request.cluster_id not in (None, turn.cluster_id):
        message = f"cluster {request.cluster_id!r} was meant; this is a node of cluster {turn.cluster_id!r}"
        return Fault(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if (broken := flaw(request)) is not None:
        return Fault(ErrorCode.INVALID_REQUEST, broken)
    if isinstance(request, EpochlessRequest):
        return None
    error = _epoch_error(turn, role, request)
    return None if error is ErrorCode.NONE else Fault(error)


def unheard(role: Role) -> Fault:
    """Why a request has no handler: it is for the leader."""
    leader_id = known_leader(role)
    leads = "no leader is known" if leader_id is None else f"node {leader_id} leads"
    message = f"this node is {type(role).__name__} of epoch {role.epoch}; {leads}"
    return Fault(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)


def _epoch_error(turn: Turn, role: Role, request: VoteRequest | NewsOfLeader | LeaderRequest) -> ErrorCode:
    """Only peers ask by epoch, and their answers have no room for words."""
    if request.epoch < role.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if isinstance(request, LeaderRequest) and request.epoch > role.epoch:
        # A fetch tells only what a follower believes; the epoch is learned from its leader.
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if isinstance(request, NewsOfLeader):
        return _claim(turn, role, epoch=request.epoch, leader_id=request.leader_id)
    return ErrorCode.NONE


def _claim(turn: Turn, role: Role, *, epoch: Epoch, leader_id: NodeId) -> ErrorCode:
    """May `leader_id` lead `epoch`, for all we know? There is one leader an epoch, and we know whether it is us."""
    is_other = epoch == role.epoch and role.leader_id not in (None, leader_id)
    return ErrorCode.INVALID_REQUEST if is_other or leader_id == turn.node.id else ErrorCode.NONE


def has_epoch(response: Response) -> bool:
    """Does `response` speak of an epoch? An error of the request as a whole does not, say UNSUPPORTED_VERSION."""
    is_whole_error = response.epoch == EPOCH_UNKNOWN and response.error is not ErrorCode.NONE
    return not isinstance(response, EpochlessResponse) and not is_whole_error


def is_believable(turn: Turn, role: Role, response: Response) -> bool:
    """Is `response` of our epoch or a later one, and in accord with the leader that we know?"""
    assert not isinstance(response, EpochlessResponse), response
    if response.epoch < role.epoch:
        return False
    if response.leader_id is None or (response.epoch == role.epoch and response.leader_id == role.leader_id):
        return True
    return _claim(turn, role, epoch=response.epoch, leader_id=response.leader_id) is ErrorCode.NONE


def heard(turn: Turn, role: Role, *, epoch: Epoch, leader_id: NodeId | None, source: str) -> Role | None:
    """The role that follows from `epoch` and `leader_id` alone; None if they are no news."""
    assert epoch >= role.epoch, (epoch, role.epoch)
    if leader_id is not None and (epoch > role.epoch or role.leader_id is None):
        voted = enter.vote_in(role, epoch)
        return enter.follower(
            turn, epoch=epoch, leader_id=leader_id, voted=voted, reason=f"{source}: {leader_id} leads"
        )
    if epoch > role.epoch:
        return enter.unattached(turn, epoch=epoch, voted=None, reason=f"{source}: a higher epoch")
    return None


def is_misaddressed(turn: Turn, request: Request) -> bool:
    """Was `request` meant for another replica, say one that had our id on another disk? KIP-853."""
    if not isinstance(request, VoteRequest | BeginQuorumEpochRequest) or request.voter is None:
        return False
    return not is_same(request.voter, turn.node)
