"""How far each replica is, and the high watermark that follows."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import quorum
from quorate.raft.log import LogView
from quorate.raft.roles import Leader, Progress
from quorate.raft.turn import Turn
from quorate.raft.voters import is_same


def tracked_key(turn: Turn, replica: ReplicaKey) -> ReplicaKey:
    """The key under which `replica` is counted: the voter's, if it is one."""
    return turn.voters.key_of(replica) or replica


def hear(turn: Turn, role: Leader, key: ReplicaKey) -> None:
    """`key` has fetched, records or snapshot: a majority of such voters keeps us leading. KIP-595, KAFKA-15489."""
    if key.id >= 0 and key not in role.replicas:
        _list(turn, role, key)
    progress = role.replicas.get(key)
    if progress is not None:
        progress.last_contact_ms = turn.now_ms
    if not turn.voters.has(key):  # observers keep nobody in office
        return
    role.fetched.add(key)
    present = {voter.id for voter in role.fetched if turn.voters.has(voter)} | turn.own_vote
    if quorum.is_won(granted=present, voters=turn.voters.ids):
        role.fetched.clear()
        role.check_quorum_ms = turn.now_ms + turn.settings.check_quorum_ms


def _list(turn: Turn, role: Leader, key: ReplicaKey) -> None:
    """Begins to track `key`, if there is room once the observers long gone are forgotten."""
    oldest_ms = turn.now_ms - turn.settings.observer_session_timeout_ms
    for known, progress in list(role.replicas.items()):
        if not turn.voters.has(known) and (progress.last_contact_ms or 0) <= oldest_ms:
            del role.replicas[known]
    if turn.voters.has(key) or len(role.replicas) < turn.settings.observers_max:
        role.replicas[key] = Progress()


def take_fetch_offset(turn: Turn, role: Leader, key: ReplicaKey, fetch_offset: Offset) -> None:
    """`key` has everything below `fetch_offset` on its disk, and it is what we have."""
    assert fetch_offset <= turn.log.leo, (fetch_offset, turn.log.leo)
    progress = role.replicas.get(key)
    if progress is None:
        return
    # Caught up now, or at the time of its last fetch as far as we then had come. KIP-836.
    if fetch_offset >= turn.log.leo:
        progress.last_caught_up_ms = turn.now_ms
    elif progress.last_fetch_ms is not None and fetch_offset >= progress.leader_leo:
        progress.last_caught_up_ms = max(progress.last_fetch_ms, progress.last_caught_up_ms or 0)
    progress.leo = fetch_offset
    progress.leader_leo = turn.log.leo
    progress.last_fetch_ms = turn.now_ms


def own_end(log: LogView) -> Offset:
    """How far the leader counts itself: like everybody, by what is on its disk."""
    return log.flushed


def may_commit(role: Leader, end: Offset) -> bool:
    """Does `end` take in a record of the leader's own epoch?"""
    # The leader may not commit by counting an older epoch's records (KIP-595; Raft §5.4.2).
    return end > role.epoch_start_offset


def voter_end(turn: Turn, role: Leader, voter: ReplicaKey) -> Offset | None:
    """How far `voter` is known to have flushed."""
    # By its key: a leader that removes itself counts no more, nor for one that has its id on another disk (KIP-853).
    if is_same(voter, turn.node):
        return own_end(turn.log)
    progress = role.replicas.get(voter)
    return None if progress is None else progress.leo


def advance(turn: Turn, role: Leader) -> None:
    """Moves the high watermark to what a majority of the voters has flushed; it never falls.

    It may pass the leader's own flushed end, and stays where it is if a new voter set has come less far.
    """
    end = quorum.agreed_end([voter_end(turn, role, voter) for voter in turn.voters.keys])
    if end is None or not may_commit(role, end):
        return
    if role.high_watermark is None or end > role.high_watermark:
        role.high_watermark = end
        turn.commit(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One line of DescribeQuorum v2. Times in ms of the core's clock; None where nothing is known."""

    key: ReplicaKey
    leo: Offset | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """What DescribeQuorum says. Only a leader knows the replicas' states; others list none."""

    leader_id: NodeId | None
    epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


def describe(turn: Turn, role: Leader) -> Quorum:
    """The quorum as its leader sees it. KIP-595, KIP-836."""

    def state(key: ReplicaKey) -> ReplicaState:
        if is_same(key, turn.node):
            return ReplicaState(key=key, leo=turn.log.leo, last_fetch_ms=turn.now_ms, last_caught_up_ms=turn.now_ms)
        progress = role.replicas.get(key, Progress())
        return ReplicaState(
            key=key,
            leo=progress.leo,
            last_fetch_ms=progress.last_fetch_ms,
            last_caught_up_ms=progress.last_caught_up_ms,
        )

    oldest_ms = turn.now_ms - turn.settings.observer_session_timeout_ms
    observers = [
        key
        for key, progress in role.replicas.items()
        if not turn.voters.has(key) and (progress.last_contact_ms or 0) > oldest_ms
    ]
    if not turn.is_voter:
        observers.append(turn.node)
    return Quorum(
        leader_id=role.leader_id,
        epoch=role.epoch,
        high_watermark=role.high_watermark,
        voters=tuple(state(key) for key in turn.voters.keys),
        observers=tuple(state(key) for key in sorted(observers)),
    )
