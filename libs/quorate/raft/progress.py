"""The leader's record of each replica's log, check quorum, and the high watermark (KIP-595, KIP-836).

A fetch has two meanings for the leader. That it arrived counts for check quorum: its sender still follows this leader.
Its offset, if it fits the leader's log, says how far its sender has flushed, and moves the high watermark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import quorum
from quorate.raft.log import LogView
from quorate.raft.roles import Leader, Progress, Role, known_leader
from quorate.raft.step_context import StepContext
from quorate.raft.voters import is_same


def tracked_key(context: StepContext, replica: ReplicaKey) -> ReplicaKey:
    """Returns the key under which the leader tracks `replica`: the voter's key if it votes, else its own.

    At kraft.version 0 the voter set has no directory ids, but requests carry one, so the two keys can differ.
    """
    return context.voters.key_of(replica) or replica


def record_fetch(context: StepContext, role: Leader, key: ReplicaKey) -> None:
    """Records that `key` sent a Fetch or FetchSnapshot, valid or not, and restarts check quorum at a majority.

    Observers are tracked for DescribeQuorum, but only voters count for check quorum. The leader counts itself only
    while it is a voter. Once a majority has fetched since the last restart, the set of voters that have fetched is
    emptied and the deadline moves to 1.5 fetch timeouts from now: so a leader keeps its office only if each such period
    sees a majority (I-24; KIP-595, KAFKA-15489).
    """
    if key.has_id and key not in role.replicas:
        _list(context, role, key)
    progress = role.replicas.get(key)
    if progress is not None:
        progress.last_contact_at_ms = context.now_ms
    if not context.voters.has(key):  # observers do not count for check quorum
        return
    assert key in role.replicas, (key, role.replicas)  # a voter is always tracked
    role.fetched.add(key)
    present = {voter.id for voter in role.fetched if context.voters.has(voter)} | context.own_vote
    if quorum.is_won(granted=present, voters=context.voters.ids):
        role.fetched.clear()
        role.check_quorum_deadline_ms = context.now_ms + context.settings.check_quorum_ms
        assert role.check_quorum_deadline_ms > context.now_ms, role.check_quorum_deadline_ms  # I-24


def _list(context: StepContext, role: Leader, key: ReplicaKey) -> None:
    """Starts to track `key`, after removing the observers that have been silent for `observer_session_timeout_ms`.

    A voter is always tracked. An observer is not tracked if `observers_max` replicas are: its fetches are answered at
    once, and DescribeQuorum does not list it.
    """
    oldest_contact_at_ms = context.now_ms - context.settings.observer_session_timeout_ms
    for known, progress in list(role.replicas.items()):
        if not context.voters.has(known) and (progress.last_contact_at_ms or 0) <= oldest_contact_at_ms:
            del role.replicas[known]
    assert key not in role.replicas, key
    if context.voters.has(key) or len(role.replicas) < context.settings.observers_max:
        role.replicas[key] = Progress()


def compare_with_acknowledged(context: StepContext, role: Leader, key: ReplicaKey, fetch_offset: Offset) -> None:
    """Adds a text to the effects, for the log, if a voter fetches from below what it has acknowledged to this leader.

    It had flushed that, and a majority may have been counted with it (I-18). Its disk was put back, cleared or damaged;
    Raft cannot repair that, as it takes a flushed record for kept. A Fetch that was overtaken on its way looks the
    same. Acknowledgements to an earlier leader are not known.
    """
    progress = role.replicas.get(key)
    if progress is None or progress.leo is None or fetch_offset >= progress.leo or not context.voters.has(key):
        return
    context.effects.forgetful.append(
        f"voter {key} fetches from offset {fetch_offset}; it has acknowledged everything below offset {progress.leo}"
        f" in epoch {role.epoch}, and is counted for it"
    )


def take_fetch_offset(context: StepContext, role: Leader, key: ReplicaKey, fetch_offset: Offset) -> None:
    """Records a valid fetch: `key` has flushed all records below `fetch_offset`, and they equal the leader's.

    Only a fetch that passed the divergence check (`reading.misfit`) may come here: the high watermark is computed from
    these offsets (I-18). Also updates the time of the last fetch and of the last catch-up, as DescribeQuorum reports
    them. Does not move the high watermark, and ignores a replica that is not tracked.
    """
    assert 0 <= fetch_offset <= context.log.leo, (fetch_offset, context.log.leo)
    progress = role.replicas.get(key)
    if progress is None:
        return
    assert progress.leader_leo <= context.log.leo, (progress, context.log.leo)  # I-11
    assert progress.last_fetch_at_ms is None or progress.last_fetch_at_ms <= context.now_ms, progress
    # KIP-836, and Kafka's rule for an ISR: a replica at the leader's end is caught up now. One that has reached the end
    # that the leader had at the replica's previous fetch was caught up at the time of that fetch.
    if fetch_offset >= context.log.leo:
        progress.last_caught_up_at_ms = context.now_ms
    elif progress.last_fetch_at_ms is not None and fetch_offset >= progress.leader_leo:
        progress.last_caught_up_at_ms = max(progress.last_fetch_at_ms, progress.last_caught_up_at_ms or 0)
    progress.leo = fetch_offset
    progress.leader_leo = context.log.leo
    progress.last_fetch_at_ms = context.now_ms
    assert progress.leo <= progress.leader_leo, (key, progress)  # I-11
    assert (progress.last_caught_up_at_ms or 0) <= progress.last_fetch_at_ms, (key, progress)  # KIP-836


def note_readers(context: StepContext, role: Leader, readers: Mapping[ReplicaKey, Offset]) -> bool:
    """Records the fetch offsets of observers whom a gateway has answered, as their fetches here would have.

    Only what is committed counts, and it is the same in each log: so nobody is taken to have what it may not have.
    Returns False if one was left out: a voter, a reader without an id, or an offset above the high watermark. Only a
    voter's own fetches, which are checked here, say how much it has; its gateway may not know yet that it is being
    added.
    """
    committed, are_all_taken = role.high_watermark or 0, True
    for replica, offset in readers.items():
        key = tracked_key(context, replica)
        if context.voters.has(key) or not key.has_id or not 0 <= offset <= committed:
            are_all_taken = False
            continue
        record_fetch(context, role, key)
        take_fetch_offset(context, role, key, offset)
    return are_all_taken


def own_end(log: LogView) -> Offset:
    """Returns the offset (exclusive) up to which the leader acknowledges its own log: its flushed end.

    A leader's disk is a disk like any other: what it has written but not flushed does not count towards a majority.
    """
    return log.flushed


def may_commit(role: Leader, end: Offset) -> bool:
    """Returns whether a high watermark of `end` would cover a record of the leader's own epoch (I-19)."""
    # Raft §5.4.2, figure 8: a record of an older epoch can be on a majority and still be replaced by a later leader, so
    # it is committed only together with a record of this epoch. There is one: LeaderChange, at `epoch_start_offset`.
    return end > role.epoch_start_offset


def voter_end(context: StepContext, role: Leader, voter: ReplicaKey) -> Offset | None:
    """Returns the offset (exclusive) up to which `voter` is known to have flushed; None if it has not fetched yet."""
    # The leader takes part only under its own key: not once it has removed itself (I-33), and not in the place of a
    # voter that has its id on another disk (I-34). KIP-853.
    if is_same(voter, context.node):
        return own_end(context.log)
    progress = role.replicas.get(voter)
    return None if progress is None else progress.leo


def advance(context: StepContext, role: Leader) -> None:
    """Moves the high watermark to the largest offset that a majority of the voters has flushed (I-18).

    It never falls (I-17): if a new voter set has flushed less, it stays. It may pass the leader's own flushed end,
    since the other voters can be a majority without the leader's disk.
    """
    # The voter set in force counts, even if it is not committed (KIP-853): that is what commits it.
    end = quorum.agreed_end([voter_end(context, role, voter) for voter in context.voters.keys])
    if end is None or not may_commit(role, end):
        return
    assert end <= context.log.leo, (end, context.log.leo)  # I-20
    if role.high_watermark is None or end > role.high_watermark:
        role.high_watermark = end
        context.commit(end)
        assert role.high_watermark == context.log.high_watermark, (role.high_watermark, context.log.high_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One replica in the answer to DescribeQuorum v2; None where the leader does not know the value.

    The times are moments of the core's clock in ms; the driver converts them to the time of day.
    """

    key: ReplicaKey
    leo: Offset | None
    last_fetch_at_ms: int | None
    last_caught_up_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The content of a DescribeQuorum answer. Only a leader lists replicas; other nodes leave both lists empty."""

    leader_id: NodeId | None
    epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


def describe(context: StepContext, role: Role) -> QuorumDescription:
    """Returns the leader's view of the quorum: voters, and observers that fetched lately (KIP-595, KIP-836).

    On another node: the leader and epoch that it knows, and its own high watermark.
    """
    if not isinstance(role, Leader):
        return QuorumDescription(
            leader_id=known_leader(role), epoch=role.epoch, high_watermark=context.log.high_watermark
        )

    def state(key: ReplicaKey) -> ReplicaState:
        if is_same(key, context.node):
            return ReplicaState(
                key=key, leo=context.log.leo, last_fetch_at_ms=context.now_ms, last_caught_up_at_ms=context.now_ms
            )
        progress = role.replicas.get(key, Progress())
        return ReplicaState(
            key=key,
            leo=progress.leo,
            last_fetch_at_ms=progress.last_fetch_at_ms,
            last_caught_up_at_ms=progress.last_caught_up_at_ms,
        )

    assert role.leader_id == context.node.id, (role, context.node)
    oldest_contact_at_ms = context.now_ms - context.settings.observer_session_timeout_ms
    observers = [
        key
        for key, progress in role.replicas.items()
        if not context.voters.has(key) and (progress.last_contact_at_ms or 0) > oldest_contact_at_ms
    ]
    if not context.is_voter:
        observers.append(context.node)
    return QuorumDescription(
        leader_id=role.leader_id,
        epoch=role.epoch,
        high_watermark=role.high_watermark,
        voters=tuple(state(key) for key in context.voters.keys),
        observers=tuple(state(key) for key in sorted(observers)),
    )
