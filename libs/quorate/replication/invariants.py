"""The invariants of one replica after every step, once its effects are carried out. Tests and the simulator check
it."""

from __future__ import annotations

from quorate.replication.following import Following
from quorate.replication.isr_state import Committed, PendingExpand, PendingShrink, maximal_isr
from quorate.replication.leading import Leading
from quorate.replication.log import last_stable_offset
from quorate.replication.partition import Partition


def check(partition: Partition) -> None:
    """Raises AssertionError with the offending values if a rule is broken."""
    log, high_watermark = partition.local.log, partition.local.high_watermark
    assert log.start <= high_watermark <= log.leo, (log.start, high_watermark, log.leo)  # R6, R7
    assert last_stable_offset(log, high_watermark) <= high_watermark  # R49
    _check_epochs(partition)
    match partition.role:
        case Leading():
            _check_leader(partition, partition.role)
        case Following():
            assert partition.role.leader_id != partition.local.broker_id, partition.role
            assert partition.role.leader_epoch == partition.leader_epoch, (partition.role, partition.leader_epoch)
        case None:
            pass


def _check_epochs(partition: Partition) -> None:
    log = partition.local.log
    entries = log.epochs.entries
    assert entries[0][1] <= log.start, (entries, log.start)
    assert all(entry[1] <= log.leo for entry in entries), (entries, log.leo)  # R8
    assert log.epochs.last_epoch <= partition.leader_epoch, (entries, partition.leader_epoch)


def _check_leader(partition: Partition, role: Leading) -> None:
    log, me = partition.local.log, partition.local.broker_id
    assert role.registration.leader == me, role.registration
    assert role.leader_epoch == partition.leader_epoch, (role.leader_epoch, partition.leader_epoch)
    assert log.epochs.last_epoch == role.leader_epoch, (log.epochs.entries, role.leader_epoch)  # R13
    assert role.epoch_start_offset <= log.leo, (role.epoch_start_offset, log.leo)
    assert set(role.replicas) == set(role.registration.replicas) - {me}, (role.replicas, role.registration)
    for replica, progress in role.replicas.items():
        assert progress.leo is None or progress.leo <= log.leo, (replica, progress, log.leo)  # R18
    _check_isr(role, me)


def _check_isr(role: Leading, me: int) -> None:
    state = role.state
    assert me in maximal_isr(state), state
    match state:
        case PendingExpand(committed=committed, joining=joining):
            assert joining not in committed.isr, state  # R27
            assert not committed.is_recovering, state  # R66
        case PendingShrink(committed=committed, leaving=leaving):
            assert leaving <= committed.isr, state  # R29
            assert me not in leaving, state
    if isinstance(state, Committed):
        return
    assert role.proposal is not None, state  # R33
    assert role.proposal.leader_epoch == role.leader_epoch, (role.proposal, role.leader_epoch)
    assert role.proposal.partition_epoch == state.committed.partition_epoch, (role.proposal, state)  # R35
