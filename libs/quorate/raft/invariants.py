"""What is true of one node after every step. Tests and the simulator check it; the I-numbers are the catalogue's."""

from __future__ import annotations

from quorate.raft import quorum
from quorate.raft.core import Raft
from quorate.raft.log import LogView
from quorate.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached


def check(raft: Raft) -> None:
    """Raises AssertionError with the values that do not fit."""
    _check_log(raft.log)
    _check_role(raft)
    if isinstance(raft.role, Leader):
        _check_leader(raft, raft.role)


def _check_log(log: LogView) -> None:
    assert log.start <= log.flushed <= log.leo, (log.start, log.flushed, log.leo)
    assert log.start <= log.high_watermark <= log.leo, (log.start, log.high_watermark, log.leo)  # I-20
    epochs, starts = zip(*log.epochs.entries, strict=True)
    assert list(epochs) == sorted(set(epochs)), epochs  # I-09
    assert list(starts[1:]) == sorted(set(starts[1:])), starts  # I-15
    assert starts[-1] < log.leo or len(starts) == 1, (starts, log.leo)
    # I-27: a log that does not begin at the beginning continues a snapshot.
    assert log.start == 0 or log.epochs.floor in log.snapshots, (log.epochs.floor, log.snapshots)
    last_voters = log.voters.latest_offset
    assert last_voters is None or log.start <= last_voters < log.leo, (last_voters, log.leo)  # I-32


def _check_role(raft: Raft) -> None:
    role, node = raft.role, raft.node
    assert role.epoch >= raft.persisted.epoch, (role.epoch, raft.persisted)  # I-03
    assert role.epoch >= raft.log.last.epoch, (role.epoch, raft.log.last)  # I-03
    match role:
        case Unattached():
            pass
        case Prospective() | Candidate():
            assert raft.log.voters.latest.has(node), (role, node)  # only voters ask for votes
            assert node.id in role.granted, role.granted
            assert not role.granted & role.rejected, (role.granted, role.rejected)
            assert not isinstance(role, Candidate) or role.voted == node, (role.voted, node)
        case Follower():
            assert role.leader_id != node.id, role.leader_id
            download = role.download
            assert download is None or raft.log.flushed == raft.log.leo, (raft.log.flushed, raft.log.leo)
        case Leader() | Resigned():
            assert role.leader_id == node.id, role.leader_id


def _check_leader(raft: Raft, role: Leader) -> None:
    log = raft.log
    assert role.voted == raft.node, (role.voted, raft.node)
    assert log.last.epoch == role.epoch, (log.last, role.epoch)  # its LeaderChange record at least
    assert log.end_offset_for(role.epoch).offset == log.leo, role.epoch
    assert role.epoch_start_offset < log.leo, (role.epoch_start_offset, log.leo)
    if role.high_watermark is not None:
        assert role.high_watermark == log.high_watermark, (role.high_watermark, log.high_watermark)
        assert role.high_watermark > role.epoch_start_offset, (role.high_watermark, role.epoch_start_offset)  # I-19
    for key, progress in role.replicas.items():
        assert progress.leo is None or progress.leo <= log.leo, (key, progress, log.leo)
    for key, parked in role.parked.items():
        assert key in role.replicas, key
        assert parked.request.fetch_offset == log.leo, (parked.request, log.leo)  # it would have been answered
    voters = log.voters.latest.ids
    if len(voters) > 1:
        heard = {voter.id for voter in role.fetched} | {raft.node.id}
        assert not quorum.is_won(granted=heard & voters, voters=voters), heard  # the clock would have been set back
