"""Which produce and fetch requests a leader takes, and what each may have; refusals are ApiErrors with Kafka's codes.

A driver calls, under the partition's lock: for a produce `admit_produce`, its log's append, `Leading.advance`, then
`acks_outcome`; for a fetch `admit_follower` or `admit_consumer`, then reads what the grant allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch
from quorate.replication.divergence import divergence, epoch_end
from quorate.replication.effects import Effect
from quorate.replication.isr_state import committed_of, maximal_isr
from quorate.replication.leading import Leading
from quorate.replication.log import NO_EPOCH, Isolation, last_stable_offset
from quorate.replication.partition import Partition
from quorate.replication.registration import is_stale

ACKS_ALL: Final = -1
ACKS: Final = frozenset({0, 1, ACKS_ALL})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """One partition of a fetch. `leader_epoch` and `last_fetched_epoch` are None where the request has none."""

    offset: Offset
    leader_epoch: Epoch | None = None
    last_fetched_epoch: Epoch | None = None
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    known_high_watermark: Offset | None = None
    """The high watermark of the follower's last answer, if a later one ends its wait; None: it does not (R48)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """The follower that fetches, with the broker epoch that it had when it sent this (KIP-903), and its log start."""

    replica_id: NodeId
    broker_epoch: int
    log_start: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The answer to a fetch: batches from its offset up to `end` (exclusive), and what the answer says besides (R52).

    With `diverging` it gets no records: that is the leader's largest epoch up to the reader's last one, and its end.
    `end` may lie below the offset: there is nothing for this reader yet.
    """

    end: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    log_start: Offset
    diverging: OffsetAndEpoch | None = None


def leader_of(partition: Partition, leader_epoch: Epoch | None) -> Leading:
    """Returns the leader's role after the epoch checks of each request (R41, R51). KIP-320.

    Raises ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH for another leader epoch than the partition's (None is
    not checked), NOT_LEADER_OR_FOLLOWER.
    """
    if leader_epoch is not None and leader_epoch < partition.leader_epoch:
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {leader_epoch} is older than the partition's, {partition.leader_epoch}",
        )
    if leader_epoch is not None and leader_epoch > partition.leader_epoch:
        raise ApiError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"leader epoch {leader_epoch} is later than {partition.leader_epoch}, the last that was heard of",
        )
    if not isinstance(partition.role, Leading):
        raise ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {partition.local.broker_id} does not lead the partition"
        )
    return partition.role


def end_of_epoch(partition: Partition, epoch: Epoch, *, leader_epoch: Epoch | None) -> OffsetAndEpoch | None:
    """Returns the largest epoch up to `epoch` in the leader's log, and its end (exclusive): OffsetForLeaderEpoch.

    KIP-320. None for an epoch above all that the log has seen. Raises ApiError, as `leader_of`.
    """
    log = leader_of(partition, leader_epoch).local.log
    return epoch_end(log.epochs, epoch, leo=log.leo)


def admit_produce(partition: Partition, acks: int, *, leader_epoch: Epoch | None = None) -> Leading:
    """Returns the leader's role if records may be appended; nothing is written here (R41–R43).

    Raises ApiError: INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS if acks is -1 and the ISR below its minimum, and those
    of `leader_of`.
    """
    if acks not in ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it must be 0, 1 or -1 (all)")
    role = leader_of(partition, leader_epoch)
    if acks == ACKS_ALL and role.is_under_min_isr:
        members = sorted(committed_of(role.state).isr)
        raise ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the ISR {members} has fewer than {role.min_isr} members (min.insync.replicas {role.min_insync_replicas})",
        )
    return role


def acks_outcome(partition: Partition, required: Offset) -> ErrorCode | None:
    """Returns how a write with acks=all that ends at `required` (exclusive) has ended; None while it is not known.

    NONE, NOT_LEADER_OR_FOLLOWER, or NOT_ENOUGH_REPLICAS_AFTER_APPEND: the ISR has shrunk below its minimum since the
    append; the records are committed, and may not be durable (R45, R46).
    """
    role = partition.role
    if not isinstance(role, Leading):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if role.local.high_watermark < required:
        return None
    enough = len(maximal_isr(role.state)) >= role.min_isr
    return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def deleted_outcome(partition: Partition, required: Offset) -> ErrorCode | None:
    """Returns how a deletion of records below `required` has ended; None while a live replica still has some (KIP-107).

    NONE or NOT_LEADER_OR_FOLLOWER. Live is a replica that is not fenced.
    """
    role = partition.role
    if not isinstance(role, Leading):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE if role.low_watermark() >= required else None


def admit_follower(
    partition: Partition, position: FetchPosition, sender: FollowerFetch, *, now_ms: int
) -> tuple[Grant, list[Effect]]:
    """Notes a follower's fetch; returns what it may have, and the effects of its progress (R18, R20, R50–R53).

    A fetch that is refused or diverges says nothing about the follower's log, and is not noted. The answer has the high
    watermark that the fetch itself has raised; in Kafka the follower learns that one a fetch later. Raises ApiError:
    those of `leader_of`, also for a sender that is no replica or is registered anew since, and OFFSET_OUT_OF_RANGE.
    """
    diverging, effects = hear_follower(partition, position, sender, now_ms=now_ms)
    return _grant(leader_of(partition, position.leader_epoch), Isolation.LOG_END, diverging), effects


def hear_follower(
    partition: Partition, position: FetchPosition, sender: FollowerFetch, *, now_ms: int
) -> tuple[OffsetAndEpoch | None, list[Effect]]:
    """Notes a follower's fetch, as `admit_follower`; returns where its log diverges, and the effects of its progress.

    With None the log fits. `regrant` says what the answer may have by the time that it is made. Raises the same
    ApiErrors.
    """
    role = leader_of(partition, position.leader_epoch)
    _check_sender(role, position, sender)
    diverging = _place(role, position)
    if diverging is not None:
        return diverging, []
    effects = role.note_fetch(
        sender.replica_id,
        offset=position.offset,
        log_start=sender.log_start,
        broker_epoch=sender.broker_epoch,
        now_ms=now_ms,
    )
    return None, effects


def admit_consumer(partition: Partition, position: FetchPosition) -> Grant:
    """Returns what a consumer may have (R49, R51). Raises ApiError: OFFSET_OUT_OF_RANGE, and those of `leader_of`.

    Between its bound and the log's end there is nothing for it yet, and no error: a new leader's high watermark may
    trail what consumers have read from the one before, and OFFSET_OUT_OF_RANGE would reset them.
    """
    assert position.isolation is not Isolation.LOG_END, position
    role = leader_of(partition, position.leader_epoch)
    return _grant(role, position.isolation, _place(role, position))


def regrant(partition: Partition, position: FetchPosition) -> Grant:
    """Returns what a fetch that was admitted, and held, may have by now. A follower's progress is not noted again.

    Raises ApiError: OFFSET_OUT_OF_RANGE, and those of `leader_of`.
    """
    role = leader_of(partition, position.leader_epoch)
    return _grant(role, position.isolation, _place(role, position))


def has_all(partition: Partition, position: FetchPosition) -> bool:
    """Returns whether a reader has this leader's log to its end.

    Its last record may be of an earlier epoch, in which the log ends: the leader has written nothing since.
    """
    role = partition.role
    if not isinstance(role, Leading) or position.offset != role.local.log.leo:
        return False
    if position.leader_epoch not in (None, partition.leader_epoch):
        return False
    try:
        return _place(role, position) is None
    except ApiError:
        return False


def _check_sender(role: Leading, position: FetchPosition, sender: FollowerFetch) -> None:
    """Raises ApiError unless the sender is an assigned replica, in its latest registration (R50, R63). KIP-903."""
    if sender.replica_id not in role.replicas:
        assigned = list(role.registration.replicas)
        # With an epoch: the follower knows an assignment that this leader has not applied yet, and shall ask again.
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if position.leader_epoch is None else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise ApiError(code, f"broker {sender.replica_id} is not among the replicas {assigned}")
    if is_stale(role.brokers, sender.replica_id, sender.broker_epoch):
        known = role.brokers[sender.replica_id].epoch
        raise ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {sender.replica_id} fetches with broker epoch {sender.broker_epoch}, and has {known} by now",
        )


def _place(role: Leading, position: FetchPosition) -> OffsetAndEpoch | None:
    """Returns where the reader's log diverges; None if it fits. Raises ApiError if the offset is out of range."""
    log, asked = role.local.log, position.last_fetched_epoch
    if asked == log.epochs.last_epoch and log.start <= position.offset <= log.leo:
        return None  # the last epoch ends where the log does
    if position.offset < log.start:
        raise _out_of_range(role, position)
    if asked is not None and asked != NO_EPOCH:
        if asked > log.epochs.last_epoch:  # no reader of this leader can have it
            raise _out_of_range(role, position)
        found = divergence(log, last_fetched_epoch=asked, fetch_offset=position.offset)
        if found is not None:
            return found
    if position.offset > log.leo:
        raise _out_of_range(role, position)
    return None


def _out_of_range(role: Leading, position: FetchPosition) -> ApiError:
    log = role.local.log
    return ApiError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"offset {position.offset} (epoch {position.last_fetched_epoch}) is not in the log, which has {log.start} to"
        f" {log.leo} in epochs up to {log.epochs.last_epoch}",
    )


def _grant(role: Leading, isolation: Isolation, diverging: OffsetAndEpoch | None = None) -> Grant:
    local = role.local
    return Grant(
        end=local.bound(isolation),
        high_watermark=local.high_watermark,
        last_stable_offset=last_stable_offset(local.log, local.high_watermark),
        log_start=local.log.start,
        diverging=diverging,
    )


def size_available(partition: Partition, position: FetchPosition) -> int | None:
    """Returns how many bytes a held fetch could have by now; None if it must be answered at once (R48).

    At once: another leader or epoch, a log that was truncated or diverges, an offset in an older segment, a high
    watermark that the follower awaits.
    """
    try:
        role = leader_of(partition, position.leader_epoch)
        if _place(role, position) is not None:
            return None
    except ApiError:
        return None
    local, end = role.local, role.local.bound(position.isolation)
    if position.known_high_watermark is not None and local.high_watermark > position.known_high_watermark:
        return None
    if position.offset >= end:
        return 0
    if not local.log.is_in_last_segment(position.offset):
        return None
    return local.log.size_between(position.offset, end)
