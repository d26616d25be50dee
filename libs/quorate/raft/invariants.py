"""Invariants of one node after every step, numbered as in `tests/INVARIANTS.md`. Tests and simulators check them."""

from __future__ import annotations

from operator import lt

from quorate.raft import quorum
from quorate.raft.core import Raft
from quorate.raft.log import LogView
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached


def check(raft: Raft) -> None:
    """Raises AssertionError with the offending values if an invariant of the log or the role is broken."""
    check_log(raft.log)
    check_role(raft)
    check_counts(raft)


def check_counts(raft: Raft) -> None:
    """Raises AssertionError if what a role counts is wrong: replicas, held fetches, voters that fetched.

    To be checked after every step, since a step without effects can change it.
    """
    role, log = raft.role, raft.log
    assert log.start <= log.flushed <= log.leo, (log.start, log.flushed, log.leo)
    assert log.start <= log.high_watermark <= log.leo, (log.start, log.high_watermark, log.leo)  # I-20
    match role:
        case Leader():
            _check_replicas(raft, role)
            _check_membership(raft, role)
            _check_parked(role)
            assert role.probe is not None or not role.unconfirmed, role.unconfirmed  # no read waits for no round
        case Follower():
            _check_parked(role)
            download = role.download
            assert download is None or log.flushed == log.leo, (log.flushed, log.leo)
            assert download is None or download.snapshot_id.offset >= log.high_watermark, (download, log)  # I-29
            assert download is None or download.position <= (download.size or 0), download  # I-28
            for parked in role.parked.values():
                assert parked.request.from_any, parked.request  # a follower serves no other fetches
        case Prospective() | Candidate():
            is_voter = log.voters.latest.has(raft.node)
            # Only voters ask for votes, and those whose removal is not committed yet.
            assert is_voter or not log.is_voter_change_committed, (role, raft.node)
            assert not is_voter or raft.node.id in role.granted, role.granted
            assert not role.granted & role.rejected, (role.granted, role.rejected)
            assert role.granted | role.rejected <= log.voters.latest.ids, (role, log.voters.latest.ids)  # I-06
        case Resigned():
            assert role.acknowledged <= log.voters.latest.ids, (role, log.voters.latest.ids)
        case Unattached():
            pass


def check_log(log: LogView) -> None:
    """Raises AssertionError if the log's view is wrong; to be checked when log, log start or snapshots have changed."""
    epochs, starts = zip(*log.epochs.entries, strict=True)
    assert log.start == starts[0], (log.start, starts)
    assert _rises(epochs), epochs  # I-09
    assert _rises(starts[1:]), starts  # I-15
    assert starts[-1] < log.leo or len(starts) == 1, (starts, log.leo)
    # I-27: a log that does not start at 0 continues a snapshot.
    assert log.start == 0 or log.epochs.floor in log.snapshots, (log.epochs.floor, log.snapshots)
    last_voters = log.voters.latest_offset
    assert last_voters is None or log.start <= last_voters < log.leo, (last_voters, log.leo)  # I-32
    assert last_voters is None or log.voters.latest.voters, last_voters  # I-36
    assert last_voters is None or log.kraft_version >= 1, (last_voters, log.kraft_version)  # KIP-853
    assert all(log.start <= snapshot.offset <= log.leo for snapshot in log.snapshots), (log.snapshots, log.leo)


def _rises(values: tuple[int, ...]) -> bool:
    """Returns whether each value is greater than the one before."""
    return all(map(lt, values, values[1:]))


def check_role(raft: Raft) -> None:
    """Raises AssertionError if role, epoch, vote and log do not fit. To be checked after each step that has effects."""
    role, node, log = raft.role, raft.node, raft.log
    assert role.epoch >= raft.persisted.epoch, (role.epoch, raft.persisted)  # I-03
    assert role.epoch >= log.last_epoch, (role.epoch, log.last)  # I-03
    if role.epoch == raft.persisted.epoch:
        voted, leader_id = raft.persisted.voted, raft.persisted.leader_id
        assert voted is None or (role.voted is not None and role.voted.id == voted.id), (role, voted)  # I-04
        assert None in (leader_id, role.leader_id) or leader_id == role.leader_id, (role, leader_id)  # I-02
    if raft.is_recovering:  # it may lack records that it acknowledged
        assert not isinstance(role, Prospective | Candidate | Leader), (role, log.last_flushed)
    match role:
        case Leader():
            assert role.leader_id == node.id, role.leader_id
            _check_leader(raft, role)
        case Resigned():
            assert role.leader_id == node.id, role.leader_id
        case Follower():
            assert role.leader_id != node.id, role.leader_id
        case Candidate():
            assert role.voted == node, (role.voted, node)
        case Unattached() | Prospective():
            pass


def _check_leader(raft: Raft, role: Leader) -> None:
    """Checks what a leader counts for itself: its epoch, its records, and the high watermark (I-19)."""
    log = raft.log
    assert role.voted == raft.node, (role.voted, raft.node)
    assert log.last_epoch == role.epoch, (log.last, role.epoch)  # its LeaderChange record at least
    assert log.end_offset_for(role.epoch).offset == log.leo, role.epoch
    assert role.epoch_start_offset < log.leo, (role.epoch_start_offset, log.leo)
    if role.high_watermark is not None:
        assert role.high_watermark == log.high_watermark, (role.high_watermark, log.high_watermark)
        assert role.high_watermark > role.epoch_start_offset, (role.high_watermark, role.epoch_start_offset)  # I-19


def _check_replicas(raft: Raft, role: Leader) -> None:
    """Checks the log ends of replicas and the held fetches, and that check quorum is restarted at a majority."""
    log = raft.log
    assert raft.node not in role.replicas, role.replicas  # it would count twice
    for key, progress in role.replicas.items():
        assert progress.leo is None or progress.leo <= log.leo, (key, progress, log.leo)
    for key, parked in role.parked.items():
        assert key in role.replicas or not key.has_id, key
        offset = parked.request.fetch_offset
        assert offset <= log.leo, (parked.request, log.leo)
        # A voter's fetch is held only if there are no records for it.
        assert offset == log.leo or not log.voters.latest.has(key), (parked.request, log.leo)
    voters = log.voters.latest.ids
    if len(voters) > 1:
        fetched = {voter.id for voter in role.fetched} | {raft.node.id}
        # I-24: at a majority, check quorum is restarted and the set emptied.
        assert not quorum.is_won(granted=fetched & voters, voters=voters), fetched


def _check_parked(role: Leader | Follower) -> None:
    """Checks that the fetches that are held have a timer, which is not late for any (I-70)."""
    earliest_ms = min((parked.deadline_ms for parked in role.parked.values()), default=None)
    if earliest_ms is not None:
        assert role.parked_deadline_ms is not None, role.parked
        assert role.parked_deadline_ms <= earliest_ms, (role.parked_deadline_ms, role.parked)


def _check_membership(raft: Raft, role: Leader) -> None:
    """Checks the voter change that is under way (I-31, I-33)."""
    log, pending = raft.log, role.pending
    if not log.voters.latest.has(raft.node):
        committed = role.high_watermark is not None and log.is_voter_change_committed
        assert not committed, (raft.node, log.voters.latest.keys, log.high_watermark)  # I-33
    if pending is None:
        return
    assert log.kraft_version >= 1, (log.kraft_version, pending)
    assert role.high_watermark is not None, pending  # I-31
    end, voters_offset = pending.end_offset, log.voters.latest_offset
    if end is None:
        assert log.is_voter_change_committed, (voters_offset, log.high_watermark, pending)  # I-31
    else:
        assert voters_offset is not None, pending
        assert log.high_watermark <= voters_offset < end <= log.leo, (log.high_watermark, voters_offset, end, log.leo)
