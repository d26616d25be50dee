"""Epoch fencing: one check for all messages, of cluster, form, epoch and leader, before any handler (KIP-595).

Raft 5.1: a node that learns of a later epoch enters it, and refuses what is of an older epoch. In detail:

* An older epoch: a request gets FENCED_LEADER_EPOCH with the present epoch and leader; a response is dropped.
* A later epoch in Vote, BeginQuorumEpoch, EndQuorumEpoch or a response: this node enters it before the handler runs.
  It is then Follower if the message names the leader, else Unattached.
* A later epoch in Fetch, FetchSnapshot and other requests to a leader: UNKNOWN_LEADER_EPOCH. This node learns that
  epoch from one of the messages above.
* The same epoch with another leader: INVALID_REQUEST, or the response is dropped. An epoch has one leader (I-01, I-02).

Epochs are int32, and a quorum that has used them up has no leader any more. No bound alone prevents that: the largest
epoch that is accepted is always one that no accepted epoch can follow. So two rules keep the room:

* 2^31 - 1 is an epoch for nobody (`leaves_no_room`): its successor is no int32.
* A request takes an epoch at most `EPOCHS_AHEAD_MAX` forward (`is_far_ahead`), since anybody can send a request: one
  with 2^31 - 2 would leave no room either. A real candidate or leader that is further ahead is heard all the same, one
  round later: this node's own pre-vote or Fetch goes to the voters that it knows, and their answers are believed at any
  distance. Kafka has no such rule.
"""

from __future__ import annotations

from typing import Final

from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END, Epoch, NodeId
from quorate.raft import role_entry
from quorate.raft.flaws import flaw
from quorate.raft.messages import (
    EPOCH_UNKNOWN,
    BeginQuorumEpochRequest,
    EpochlessRequest,
    EpochlessResponse,
    FetchRequest,
    FetchSnapshotRequest,
    LeaderRequest,
    NewsOfLeader,
    Request,
    Response,
    VoteRequest,
)
from quorate.raft.roles import Role, known_leader
from quorate.raft.step_context import Refused, StepContext
from quorate.raft.voters import is_same

EPOCHS_AHEAD_MAX: Final = 10_000
"""How many epochs a request may be ahead of this node. A quorum that elects once a minute needs a week for that."""


def refusal(context: StepContext, role: Role, request: Request) -> Refused | None:
    """Returns the error with which `request` is answered before any handler sees it; None if there is none.

    In order: another cluster (I-80), a number that breaks a rule, an epoch that no election could follow, this node's
    own id (I-82), and for requests that carry an epoch, one that is too far ahead, stale or conflicting. Such a request
    changes nothing.
    """
    if request.cluster_id not in (None, context.cluster_id):
        message = f"the request is for cluster {request.cluster_id!r}; this node is of cluster {context.cluster_id!r}"
        return Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if (broken := flaw(request)) is not None:
        return Refused(ErrorCode.INVALID_REQUEST, broken)
    if leaves_no_room(request):
        return Refused(ErrorCode.INVALID_REQUEST, "its epoch cannot be followed by another one")
    if claims_id(request, context.node.id):
        # Another process runs with this node's id. Kafka throws an IllegalStateException for its Vote and its Fetch.
        return Refused(
            ErrorCode.INVALID_REQUEST, f"node id {context.node.id} is this node's own; another process must not have it"
        )
    if isinstance(request, EpochlessRequest):
        return None
    if is_far_ahead(role, request):
        message = f"epoch {request.epoch} is more than {EPOCHS_AHEAD_MAX} after this node's, {role.epoch}"
        return Refused(ErrorCode.UNKNOWN_LEADER_EPOCH, message)
    error = _epoch_error(context, role, request)
    return None if error is ErrorCode.NONE else Refused(error)


def leaves_no_room(request: Request) -> bool:
    """Returns whether `request` carries the largest epoch or a larger one: no election could follow it."""
    return not isinstance(request, EpochlessRequest) and request.epoch >= EPOCHS_END


def is_far_ahead(role: Role, request: VoteRequest | NewsOfLeader | LeaderRequest) -> bool:
    """Returns whether the epoch of `request` is more than `EPOCHS_AHEAD_MAX` after this node's: it is not entered then.

    The error for it is UNKNOWN_LEADER_EPOCH, which Kafka's nodes take as a stale answer; INVALID_REQUEST ends them.
    """
    return request.epoch - role.epoch > EPOCHS_AHEAD_MAX


def claims_id(request: Request, node_id: NodeId) -> bool:
    """Returns whether `request` is a Vote, Fetch or FetchSnapshot whose sender says that it is the node `node_id`."""
    return isinstance(request, VoteRequest | FetchRequest | FetchSnapshotRequest) and request.replica.id == node_id


def not_leader(role: Role) -> Refused:
    """Returns the refusal for a request that only a leader serves: NOT_LEADER_OR_FOLLOWER and who leads."""
    leader_id = known_leader(role)
    leads = "no leader is known" if leader_id is None else f"node {leader_id} leads"
    message = f"this node is {type(role).__name__} of epoch {role.epoch}; {leads}"
    return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)


def _epoch_error(context: StepContext, role: Role, request: VoteRequest | NewsOfLeader | LeaderRequest) -> ErrorCode:
    """Returns the error code for a request's epoch and leader; NONE if they fit this node's epoch.

    FENCED_LEADER_EPOCH: an older epoch. UNKNOWN_LEADER_EPOCH: a Fetch or the like of a later epoch. INVALID_REQUEST:
    another leader of the same epoch (I-01). A later epoch in Vote, BeginQuorumEpoch and EndQuorumEpoch is no error:
    this node enters it.
    """
    if request.epoch < role.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if isinstance(request, LeaderRequest) and request.epoch > role.epoch:
        # A follower may be ahead of this node, but an epoch is entered only by a message of its candidate or leader.
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if isinstance(request, NewsOfLeader):
        return _claim(context, role, epoch=request.epoch, leader_id=request.leader_id)
    return ErrorCode.NONE


def _claim(context: StepContext, role: Role, *, epoch: Epoch, leader_id: NodeId) -> ErrorCode:
    """Returns INVALID_REQUEST if `leader_id` cannot lead `epoch`, else NONE.

    It cannot if this node knows another leader of that epoch, or if it names this node: it knows itself whether it
    leads.
    """
    is_other = epoch == role.epoch and role.leader_id not in (None, leader_id)
    return ErrorCode.INVALID_REQUEST if is_other or leader_id == context.node.id else ErrorCode.NONE


def has_epoch(response: Response) -> bool:
    """Returns whether the epoch and leader of `response` are to be believed at all.

    They are not if the response has no epoch, as after an error of the whole request (UNSUPPORTED_VERSION), or if it
    comes from a node of another cluster (I-80).
    """
    if isinstance(response, EpochlessResponse) or response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return False
    return response.epoch != EPOCH_UNKNOWN or response.error is ErrorCode.NONE


def is_believable(context: StepContext, role: Role, response: Response) -> bool:
    """Returns whether `response` has this node's epoch or a later one, and names no conflicting leader.

    A response of an older epoch is stale and dropped. A negative leader id is dropped, too: the quorum-state file could
    not keep it, where -1 means no leader.
    """
    assert not isinstance(response, EpochlessResponse), response
    if not role.epoch <= response.epoch < EPOCHS_END:
        return False
    if response.leader_id is not None and response.leader_id < 0:  # quorum-state writes -1 for no leader
        return False
    if response.leader_id is None or (response.epoch == role.epoch and response.leader_id == role.leader_id):
        return True
    return _claim(context, role, epoch=response.epoch, leader_id=response.leader_id) is ErrorCode.NONE


def role_in_epoch(
    context: StepContext, role: Role, *, epoch: Epoch, leader_id: NodeId | None, source: str
) -> Role | None:
    """Returns the role that `epoch` and `leader_id` lead to; None if this node knows both already. Raft 5.1.

    A leader that was unknown: Follower. A higher epoch without a leader: Unattached. The vote cast in an epoch is kept
    while the epoch stays (I-04). `source` names the message, for the log.
    """
    assert epoch >= role.epoch, (epoch, role.epoch)
    if leader_id is not None and (epoch > role.epoch or role.leader_id is None):
        voted = role_entry.vote_in(role, epoch)
        return role_entry.follower(
            context, epoch=epoch, leader_id=leader_id, voted=voted, reason=f"{source}: {leader_id} leads"
        )
    if epoch > role.epoch:
        return role_entry.unattached(context, epoch=epoch, voted=None, reason=f"{source}: a higher epoch")
    return None


def misaddressed(context: StepContext, request: Request) -> Refused | None:
    """Returns INVALID_VOTER_KEY for a Vote or BeginQuorumEpoch that names another replica than this one, else None.

    An example is this node's id on a disk that was wiped since. As in Kafka, it is checked after the request's epoch
    has been entered. KIP-853.
    """
    if not isinstance(request, VoteRequest | BeginQuorumEpochRequest) or request.voter is None:
        return None
    if is_same(request.voter, context.node):
        return None
    return Refused(ErrorCode.INVALID_VOTER_KEY, f"the request is for voter {request.voter}; this is {context.node}")
