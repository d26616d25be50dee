"""How a node enters each role: what it keeps of the last one, and which timers it draws."""

from __future__ import annotations

from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
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
from quorate.raft.turn import Turn


def first_role(turn: Turn, state: ElectionState) -> Role:
    """The role after a start, by what the disk holds. KIP-595."""
    last_epoch = turn.log.last.epoch
    if last_epoch > state.epoch:
        return unattached(turn, epoch=last_epoch, voted=None, reason="the log has a higher epoch")
    if state.leader_id == turn.node.id:
        # Of what we had promised as leader we know nothing any more.
        turn.reason = "led this epoch before"
        election_ms = turn.election_deadline_ms()
        return Resigned(epoch=state.epoch, leader_id=turn.node.id, voted=state.voted, election_ms=election_ms)
    if state.leader_id is not None and state.leader_id not in turn.voters.ids | turn.bootstrap:
        # It cannot be asked: nobody has told us where it listens. It, or those who do know, will.
        return unattached(turn, epoch=state.epoch, voted=state.voted, reason="knew the leader, but not where it is")
    if state.leader_id is not None:
        leader_id = state.leader_id
        return follower(turn, epoch=state.epoch, leader_id=leader_id, voted=state.voted, reason="knew the leader")
    if state.voted == turn.node and turn.may_stand:
        return candidate(turn, epoch=state.epoch, retries=1, reason="had voted for itself")
    return unattached(turn, epoch=state.epoch, voted=state.voted, reason="knew no leader")


def vote_in(role: Role, epoch: Epoch) -> ReplicaKey | None:
    """The vote cast in `epoch`, which outlives every change of role in that epoch. KIP-996."""
    return role.voted if role.epoch == epoch else None


def unattached(turn: Turn, *, epoch: Epoch, voted: ReplicaKey | None, reason: str) -> Unattached:
    """Knows no leader of `epoch`."""
    turn.reason = reason
    return Unattached(epoch=epoch, voted=voted, election_ms=turn.election_deadline_ms())


def follower(turn: Turn, *, epoch: Epoch, leader_id: NodeId, voted: ReplicaKey | None, reason: str) -> Follower:
    """Has heard of the leader of `epoch`, and gives it one fetch timeout to answer."""
    assert leader_id != turn.node.id, (epoch, leader_id)
    turn.reason = reason
    return Follower(
        epoch=epoch, leader_id=leader_id, voted=voted, fetch_ms=turn.now_ms + turn.settings.fetch_timeout_ms
    )


def prospective(turn: Turn, role: Role, *, retries: int = 1, reason: str) -> Prospective:
    """Asks for pre-votes in the same epoch; its own it has."""
    turn.reason = reason
    return Prospective(
        epoch=role.epoch,
        leader_id=role.leader_id,
        voted=role.voted,
        election_ms=turn.election_deadline_ms(),
        granted=turn.own_vote,
        retries=retries,
        lost_rounds=role.lost_rounds if isinstance(role, Follower) and role.is_lost else None,
    )


def candidate(turn: Turn, *, epoch: Epoch, retries: int, reason: str) -> Candidate:
    """Asks for votes in `epoch`, having voted for itself."""
    turn.reason = reason
    return Candidate(
        epoch=epoch,
        voted=turn.node,
        election_ms=turn.election_deadline_ms(),
        granted=turn.own_vote,
        retries=retries,
    )


def leader(turn: Turn, role: Candidate, *, reason: str) -> Leader:
    """Leads the epoch in which it was a candidate, and writes the LeaderChange record that begins it."""
    epoch_start_offset = turn.log.leo
    first = LeaderChange(
        base_offset=epoch_start_offset,
        epoch=role.epoch,
        leader_id=turn.node.id,
        voters=turn.voters.keys,
        granting=tuple(key for key in turn.voters.keys if key.id in role.granted),
        change=_first_voters(turn, role.epoch, base_offset=epoch_start_offset + 1),
    )
    # The epoch is in the cache before anybody can ask where the last one ends.
    turn.append(first)
    turn.reason = reason
    is_told = turn.log.kraft_version == 0 and turn.me.endpoints and turn.is_voter
    return Leader(
        epoch=role.epoch,
        leader_id=turn.node.id,
        voted=role.voted,
        epoch_start_offset=epoch_start_offset,
        replicas={key: Progress() for key in turn.other_voters},
        check_quorum_ms=turn.now_ms + turn.settings.check_quorum_ms,
        told_voters=turn.voters.updated(turn.me) if is_told else None,
    )


def _first_voters(turn: Turn, epoch: Epoch, *, base_offset: Offset) -> VotersChange | None:
    """What a leader first of all writes of the voters: they are not in the log yet, or it has moved. KIP-853."""
    log, voters = turn.log, turn.voters
    if log.kraft_version == 0:
        return None
    if turn.me.endpoints and turn.is_voter:
        voters = voters.updated(turn.me)
    # The checkpoint (0, 0) is each node's own, so nobody learns the voters from it; any other is replicated.
    is_in_log = log.start > 0 or log.voters.latest_offset is not None
    if is_in_log and voters == turn.voters:
        return None
    return VotersChange(base_offset=base_offset, epoch=epoch, voters=voters, kraft_version=log.kraft_version)


def resigned(turn: Turn, role: Leader, *, reason: str) -> Resigned:
    """Leads no more, and names as successors the voters that have come furthest."""
    turn.reason = reason
    return Resigned(
        epoch=role.epoch,
        leader_id=turn.node.id,
        voted=role.voted,
        election_ms=turn.election_deadline_ms(),
        preferred_successors=successors(turn, role),
    )


def successors(turn: Turn, role: Leader) -> tuple[ReplicaKey, ...]:
    """The other voters, the one that has flushed most first. KIP-595, "EndQuorumEpoch"."""

    def rank(key: ReplicaKey) -> tuple[int, ReplicaKey]:
        leo = role.replicas.get(key, Progress()).leo
        return (-leo if leo is not None else 1, key)

    return tuple(sorted(turn.other_voters, key=rank))
