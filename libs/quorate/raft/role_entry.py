"""Entering a role: what a node keeps of its previous role, which timers it sets, and what a new leader appends."""

from __future__ import annotations

from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import quorum
from quorate.raft.log import LeaderChange, VotersChange
from quorate.raft.roles import (
    Candidate,
    ElectionState,
    Follower,
    Leader,
    Progress,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from quorate.raft.step_context import StepContext
from quorate.raft.voters import is_same


def first_role(context: StepContext, state: ElectionState) -> Role:
    """Returns the role after a start, by the stored election state and the log. KIP-595.

    Resigned if this node led the stored epoch (I-07), Follower if another leader is known and its address, too,
    Candidate if the stored vote is its own, else Unattached. A log with a later epoch than the stored one raises the
    epoch (I-03).
    """
    last_epoch = context.log.last.epoch
    if last_epoch > state.epoch:
        return unattached(context, epoch=last_epoch, voted=None, reason="the log has a higher epoch")
    if state.leader_id == context.node.id:
        # A leader's state (unflushed records, its promises to clients) does not survive a restart, so it must not lead
        # this epoch again: Kafka resigns as well.
        context.reason = "led this epoch before"
        deadline_ms = context.draw_election_deadline_ms()
        return Resigned(
            epoch=state.epoch, leader_id=context.node.id, voted=state.voted, election_deadline_ms=deadline_ms
        )
    if state.leader_id is not None and state.leader_id not in context.voters.ids | context.bootstrap:
        # This node has no address of that leader. The leader sends BeginQuorumEpoch, or an election starts.
        return unattached(context, epoch=state.epoch, voted=state.voted, reason="knew the leader, but not where it is")
    if state.leader_id is not None:
        leader_id = state.leader_id
        return follower(context, epoch=state.epoch, leader_id=leader_id, voted=state.voted, reason="knew the leader")
    # At kraft.version 0 quorum-state has no directory: a vote for our id is our own (Kafka's `isVotedCandidate`).
    if state.voted is not None and is_same(state.voted, context.node) and context.may_stand_in(state.epoch):
        return candidate(context, epoch=state.epoch, retries=1, reason="had voted for itself")
    return unattached(context, epoch=state.epoch, voted=state.voted, reason="knew no leader")


def vote_in(role: Role, epoch: Epoch) -> ReplicaKey | None:
    """Returns the vote cast in `epoch`; None in another epoch. A vote outlives changes of role (I-04, KIP-996)."""
    return role.voted if role.epoch == epoch else None


def unattached(context: StepContext, *, epoch: Epoch, voted: ReplicaKey | None, reason: str) -> Unattached:
    """Returns an Unattached role for `epoch`, with a new random election timeout."""
    context.reason = reason
    return Unattached(epoch=epoch, voted=voted, election_deadline_ms=context.draw_election_deadline_ms())


def follower(
    context: StepContext, *, epoch: Epoch, leader_id: NodeId, voted: ReplicaKey | None, reason: str
) -> Follower:
    """Returns a Follower of `leader_id`, which has one fetch timeout to answer the first fetch."""
    assert leader_id != context.node.id, (epoch, leader_id)
    context.reason = reason
    return Follower(
        epoch=epoch,
        leader_id=leader_id,
        voted=voted,
        fetch_deadline_ms=context.now_ms + context.settings.fetch_timeout_ms,
    )


def prospective(context: StepContext, role: Role, *, retries: int = 1, reason: str) -> Prospective:
    """Returns a Prospective role: same epoch, same vote, its own pre-vote granted if it is a voter. KIP-996."""
    assert context.may_stand_in(role.epoch), (role, context.node)
    context.reason = reason
    return Prospective(
        epoch=role.epoch,
        leader_id=role.leader_id,
        voted=role.voted,
        election_deadline_ms=context.draw_election_deadline_ms(),
        granted=context.own_vote,
        retries=retries,
        lost_rounds=role.lost_rounds if isinstance(role, Follower) and role.is_lost else None,
    )


def candidate(context: StepContext, *, epoch: Epoch, retries: int, reason: str) -> Candidate:
    """Returns a Candidate of `epoch` that has voted for itself; its vote counts only if it is a voter."""
    assert context.may_stand_in(epoch), (epoch, context.node)
    context.reason = reason
    return Candidate(
        epoch=epoch,
        voted=context.node,
        election_deadline_ms=context.draw_election_deadline_ms(),
        granted=context.own_vote,
        retries=retries,
    )


def leader(context: StepContext, role: Candidate, *, reason: str) -> Leader:
    """Returns a Leader of the candidate's epoch, after appending the LeaderChange batch that starts it. KIP-595.

    The batch must be in the log, and its epoch in the epoch cache, before the first request is served: a leader answers
    followers with the end offsets of earlier epochs. The leader starts without a high watermark, because it does not
    know yet which of its records are committed (I-19).
    """
    assert quorum.is_won(granted=role.granted, voters=context.voters.ids), (role, context.voters.ids)  # I-06
    assert role.voted == context.node, (role, context.node)  # I-82
    assert context.log.last_epoch < role.epoch, (context.log.last, role.epoch)  # I-01: nobody has led this epoch before
    epoch_start_offset = context.log.leo
    first = LeaderChange(
        base_offset=epoch_start_offset,
        epoch=role.epoch,
        leader_id=context.node.id,
        voters=context.voters.keys,
        granting=tuple(key for key in context.voters.keys if key.id in role.granted),
        change=_first_voters(context, role.epoch, base_offset=epoch_start_offset + 1),
    )
    context.append(first)  # at most one LeaderChange for each epoch: a leader does not enter its epoch again (I-07)
    context.reason = reason
    context.handover.was_voter = True
    has_announced = context.log.kraft_version == 0 and context.me.endpoints and context.is_voter
    return Leader(
        epoch=role.epoch,
        leader_id=context.node.id,
        voted=role.voted,
        epoch_start_offset=epoch_start_offset,
        replicas={key: Progress() for key in context.other_voters},
        check_quorum_deadline_ms=context.now_ms + context.settings.check_quorum_ms,
        elected_at_ms=context.now_ms,
        announced_voters=context.voters.updated(context.me) if has_announced else None,
    )


def _first_voters(context: StepContext, epoch: Epoch, *, base_offset: Offset) -> VotersChange | None:
    """Returns the KRaftVoters record of a leader's first batch; None if the log has these voters already. KIP-853.

    It is written if the voters come only from the bootstrap checkpoint, which is not replicated, or if this node's own
    listeners or kraft.version range have changed.
    """
    log, voters = context.log, context.voters
    if log.kraft_version == 0:
        return None
    if context.me.endpoints and context.is_voter:
        voters = voters.updated(context.me)
    # The bootstrap checkpoint (0, 0) is each node's own, so other nodes do not learn the voters from it; any later
    # snapshot is replicated.
    is_in_log = log.start > 0 or log.voters.latest_offset is not None
    if is_in_log and voters == context.voters:
        return None
    return VotersChange(base_offset=base_offset, epoch=epoch, voters=voters, kraft_version=log.kraft_version)


def resigned(context: StepContext, role: Leader, *, reason: str) -> Resigned:
    """Returns a Resigned role that names the most caught-up voters as its successors, best first."""
    assert role.leader_id == context.node.id, (role, context.node)
    context.reason = reason
    return Resigned(
        epoch=role.epoch,
        leader_id=context.node.id,
        voted=role.voted,
        election_deadline_ms=context.draw_election_deadline_ms(),
        preferred_successors=successors(context, role),
    )


def successors(context: StepContext, role: Leader) -> tuple[ReplicaKey, ...]:
    """Returns the other voters, the one with the largest flushed offset first. KIP-595, "EndQuorumEpoch".

    Voters without their controller are left out unless all are: as leader, such a voter would only hand over again. Not
    in Kafka, where voter and controller are one process.
    """

    def rank(key: ReplicaKey) -> tuple[int, ReplicaKey]:
        leo = role.replicas.get(key, Progress()).leo
        return (-leo if leo is not None else 1, key)

    present = [key for key in context.other_voters if not role.replicas.get(key, Progress()).is_absent]
    best = tuple(sorted(present or context.other_voters, key=rank))
    assert bool(best) == bool(context.other_voters), (best, context.other_voters)
    return best
