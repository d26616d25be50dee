"""Partition change builder: makes at most one PartitionChangeRecord from a partition's registration, target and rules.

Every change of a partition is made here: fencing and unfencing, ISR changes, elections, reassignments, directories. So
the rules on ISR, ELR, leader and epochs are in one place, as in Kafka's PartitionChangeBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kraft import Uuid
from quorate.controller.partitions.elections import Candidates, Election, elect
from quorate.metadata.partitions import NO_LEADER, NO_LEADER_CHANGE, RECOVERED, RECOVERING, Partition
from quorate.metadata.versions import DIRECTORIES, NO_LEADER_EPOCH_BUMP_ON_ISR_SHRINK
from quorate.nouns import NodeId
from quorate.records import PartitionChangeRecord

__all__ = ["AlikePartitions", "PartitionTarget", "Rules", "changed_fields", "keeps_copies", "partition_change"]


class PartitionTarget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The requested change of a partition; None leaves a field as it is.

    `unclean_shutdown` are brokers that did not shut down cleanly: their logs may have lost records at the end, so they
    are not eligible to lead (KIP-966). `isr` must not contain them. `directories` has new directories by replica.
    """

    isr: tuple[NodeId, ...] | None = None
    replicas: tuple[NodeId, ...] | None = None
    adding: tuple[NodeId, ...] | None = None
    removing: tuple[NodeId, ...] | None = None
    unclean_shutdown: frozenset[NodeId] = frozenset()
    directories: Mapping[NodeId, Uuid] = {}
    recovered: bool = False
    """The leader reports that it has recovered from an unclean election. KIP-704."""
    election: Election = Election.ONLINE


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for a partition's change that are not in its registration.

    `level` is the metadata.version; `is_acceptable` says whether a replica can lead: broker active, directory online.
    `min_isr` is min.insync.replicas, at most the replica count; `default_directory` is the directory id for a broker's
    new replica, as far as the controller can know it (KIP-858).
    """

    level: int
    elr_enabled: bool
    min_isr: int
    is_acceptable: Callable[[NodeId], bool]
    default_directory: Callable[[NodeId], Uuid]


class _Next(msgspec.Struct, gc=False, kw_only=True):
    """The partition's next registration while it is being computed."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_elr: tuple[NodeId, ...]
    leader: NodeId
    recovery_state: int


def partition_change(
    partition: Partition, topic_id: Uuid, partition_id: int, wish: PartitionTarget, rules: Rules
) -> PartitionChangeRecord | None:
    """Returns the record for as much of the target as the rules allow; None if nothing changes.

    Rules: KIP-455 (a reassignment completes by itself), KIP-460 (elections), KIP-704 (recovery), KIP-858
    (directories), KIP-966 (ELR), KAFKA-15021 (leader epochs).
    """
    changes = changed_fields(partition, wish, rules)
    return PartitionChangeRecord(partition_id, topic_id, **changes) if changes else None


def changed_fields(partition: Partition, wish: PartitionTarget, rules: Rules) -> Mapping[str, Any]:
    """Returns the fields, by name, that the PartitionChangeRecord of this change has; empty if nothing changes.

    They are equal for partitions that differ only in their epochs.
    """
    coming = _wished(partition, wish)
    _complete_reassignment(partition, coming, wish, rules)
    _choose_eligible(partition, coming, wish, rules)
    _choose_leader(partition, coming, wish, rules)
    assert coming.leader == NO_LEADER or coming.leader in coming.isr, (partition, coming)  # I-47
    assert coming.isr or rules.elr_enabled or not partition.isr, f"nobody is remembered: {partition}, {coming}"
    if coming.elr:
        _check_eligible(coming, wish, rules)
    return _differences(partition, coming, rules) | _moved(partition, coming, wish, rules)


class AlikePartitions:
    """A cache of `changed_fields`: of very many partitions that change, those that are alike are decided only once.

    Alike partitions have the same min.insync.replicas, the same election type, and the same fields except the epochs. A
    cluster has far fewer distinct replica lists than partitions.
    """

    __slots__ = ("_circumstances", "_known")

    def __init__(self) -> None:
        self._circumstances: object = None
        self._known: dict[object, Mapping[str, Any]] = {}

    def under(self, circumstances: object) -> dict[object, Mapping[str, Any]]:
        """Returns the cache, to read and to fill; emptied if `circumstances` differ from those of the last call.

        The circumstances are all that the results depend on beside the partition.
        """
        if self._circumstances != circumstances:
            self._circumstances = circumstances
            self._known = {}
        return self._known


def _wished(partition: Partition, wish: PartitionTarget) -> _Next:
    assert not wish.unclean_shutdown or wish.unclean_shutdown.isdisjoint(wish.isr or ()), wish  # I-57

    return _Next(
        replicas=_or(wish.replicas, partition.replicas),
        isr=_or(wish.isr, partition.isr),
        adding=_or(wish.adding, partition.adding_replicas),
        removing=_or(wish.removing, partition.removing_replicas),
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
        leader=partition.leader,
        recovery_state=RECOVERED if wish.recovered else partition.leader_recovery_state,
    )


def keeps_copies(
    partition: Partition, wish: PartitionTarget, rules: Rules, *, joining: tuple[NodeId, ...] = ()
) -> bool:
    """Returns whether enough complete copies stay after the change `wish`: `min.insync.replicas` of them, or all.

    A copy is complete if it has all committed records: it is in the ISR or the ELR, or joins the ISR with this change
    (`joining`). So as many may fail as KIP-966 promises, and who writes with acks=all can go on. Kafka does not look at
    it.
    """
    replicas, isr = _or(wish.replicas, partition.replicas), _or(wish.isr, partition.isr)
    complete = {*joining, *partition.isr, *(partition.elr if rules.elr_enabled else ())} - wish.unclean_shutdown
    eligible = complete.intersection(replicas).difference(isr) if rules.elr_enabled else ()
    return len(isr) + len(eligible) >= min(rules.min_isr, len(replicas), len(complete))


def _complete_reassignment(partition: Partition, coming: _Next, wish: PartitionTarget, rules: Rules) -> None:
    """Completes a reassignment when all adding replicas are in the ISR, and no copy too many goes. KIP-455.

    If more replicas are removed than added, all remaining replicas must be in the ISR: fewer copies, but complete ones.
    """
    if not coming.adding and not coming.removing:
        return
    replicas = _without(coming.replicas, coming.removing)
    isr = _without(coming.isr, coming.removing)
    needed = replicas if len(coming.removing) > len(coming.adding) else coming.adding
    after = PartitionTarget(replicas=replicas, isr=isr, unclean_shutdown=wish.unclean_shutdown)
    if replicas and isr and set(needed) <= set(isr) and keeps_copies(partition, after, rules, joining=coming.isr):
        coming.replicas, coming.isr, coming.adding, coming.removing = replicas, isr, (), ()


def _choose_eligible(partition: Partition, coming: _Next, wish: PartitionTarget, rules: Rules) -> None:
    """Computes the ELR: replicas outside the ISR that have all committed records. KIP-966.

    While the ISR is smaller than min.insync.replicas nothing is committed, so a replica that leaves it then misses
    nothing, unless it shut down uncleanly. Kafka keeps members that are no longer replicas; they could never lead, so
    we drop them. If the feature was turned off, a remaining ELR is used for this one election.
    """
    if coming.last_known_elr:
        coming.last_known_elr = tuple(replica for replica in coming.last_known_elr if replica in coming.replicas)
    if rules.elr_enabled and len(coming.isr) >= rules.min_isr:
        coming.elr = ()
        return
    if not rules.elr_enabled and not partition.elr:
        return
    eligible = {*partition.elr, *partition.isr} if rules.elr_enabled else {*partition.elr}
    coming.elr = tuple(sorted(eligible.intersection(coming.replicas).difference(coming.isr, wish.unclean_shutdown)))


def _choose_leader(partition: Partition, coming: _Next, wish: PartitionTarget, rules: Rules) -> None:
    # Of a partition with a leader, what is remembered is from before the ELR was turned off: others have led since.
    resort = rules.elr_enabled and partition.leader == NO_LEADER and len(coming.last_known_elr) == 1
    elected = elect(
        Candidates(
            replicas=coming.replicas,
            isr=coming.isr,
            elr=coming.elr,
            last_known_leader=coming.last_known_elr[0] if resort else None,
            leader=partition.leader,
            is_acceptable=rules.is_acceptable,
        ),
        wish.election,
    )
    coming.leader = elected.leader
    if elected.unclean:
        assert resort or wish.election is Election.UNCLEAN, (partition, wish, elected)  # I-54
        # The other logs may diverge from the new leader's: these replicas must rejoin the ISR.
        coming.isr, coming.elr, coming.recovery_state = (elected.leader,), (), RECOVERING
    elif elected.leader in coming.elr:
        # An ISR of one may be enough to commit (min.insync.replicas was lowered): then the others fall behind at once.
        # Kafka keeps them in the ELR until the next change.
        others = () if rules.min_isr <= 1 else _without(coming.elr, (elected.leader,))
        coming.isr, coming.elr = (elected.leader,), others
    elif not coming.isr and not rules.elr_enabled:
        # Without an ELR the last ISR member is remembered by keeping it in the ISR, though there is no leader.
        coming.isr = partition.isr
    if not rules.elr_enabled:
        coming.elr = ()
    _remember_leader(partition, coming, rules)


def _remember_leader(partition: Partition, coming: _Next, rules: Rules) -> None:
    """Remembers the leader that is lost until another is elected. KIP-966, balanced recovery.

    While the ELR is off, what is remembered stays, even if another is elected, as in Kafka. When that leader is lost in
    turn, Kafka keeps the older one, and may later elect it without the records that the other acknowledged; we do not.
    """
    if coming.leader == NO_LEADER and partition.leader != NO_LEADER:
        remembers = rules.elr_enabled and partition.leader in coming.replicas
        coming.last_known_elr = (partition.leader,) if remembers else ()
    elif rules.elr_enabled and coming.leader != NO_LEADER and _begins_epoch(partition, coming, rules):
        coming.last_known_elr = ()


def _check_eligible(coming: _Next, wish: PartitionTarget, rules: Rules) -> None:
    """Asserts who is in the ELR, which every change computes anew."""
    assert rules.elr_enabled, coming
    assert len(coming.isr) < rules.min_isr, (coming, rules.min_isr)  # I-49
    assert set(coming.elr).issubset(coming.replicas), coming  # I-46
    assert set(coming.elr).isdisjoint(coming.isr), coming  # I-48
    assert wish.unclean_shutdown.isdisjoint(coming.elr), (coming, wish)  # I-57


def _differences(partition: Partition, coming: _Next, rules: Rules) -> dict[str, Any]:
    """Returns the record's changed fields except replicas and directories."""
    changes: dict[str, Any] = {}
    if coming.isr != partition.isr:
        changes["isr"] = coming.isr
    if coming.adding != partition.adding_replicas:
        changes["adding_replicas"] = coming.adding
    if coming.removing != partition.removing_replicas:
        changes["removing_replicas"] = coming.removing
    if coming.elr != partition.elr:
        changes["eligible_leader_replicas"] = coming.elr
    if coming.last_known_elr != partition.last_known_elr:
        changes["last_known_elr"] = coming.last_known_elr
    if coming.recovery_state != partition.leader_recovery_state:
        assert coming.recovery_state == RECOVERED or len(coming.isr) == 1, (partition, coming)  # I-55
        changes["leader_recovery_state"] = coming.recovery_state
    if _begins_epoch(partition, coming, rules):
        assert coming.leader != NO_LEADER_CHANGE, coming
        stays = coming.leader in (partition.leader, NO_LEADER)
        assert stays or rules.is_acceptable(coming.leader), (partition, coming)  # I-53
        changes["leader"] = coming.leader
    else:
        kept = coming.replicas
        assert kept is partition.replicas or set(partition.replicas).issubset(kept), (partition, coming)  # I-51
    return changes


def _begins_epoch(partition: Partition, coming: _Next, rules: Rules) -> bool:
    """Returns whether the change's record names a leader, a new one or the same: each begins a leader epoch."""
    return coming.leader != partition.leader or _raises_epoch(partition, coming, rules)


def _raises_epoch(partition: Partition, coming: _Next, rules: Rules) -> bool:
    """Returns whether the leader epoch rises although the leader stays.

    It does if a replica is removed, so that its late fetches are fenced; and below 3.6 if the ISR shrinks
    (KAFKA-15021).
    """
    if coming.replicas != partition.replicas and not set(partition.replicas) <= set(coming.replicas):
        return True
    return rules.level < NO_LEADER_EPOCH_BUMP_ON_ISR_SHRINK and not set(partition.isr) <= set(coming.isr)


def _moved(partition: Partition, coming: _Next, wish: PartitionTarget, rules: Rules) -> dict[str, Any]:
    """Returns the changed replicas, and the directory of each: known, requested or default. KIP-455, KIP-858."""
    if coming.replicas == partition.replicas and not wish.directories:
        return {}
    assert not wish.directories or wish.directories.keys() <= set(partition.replicas), (partition, wish)

    changes: dict[str, Any] = {} if coming.replicas == partition.replicas else {"replicas": coming.replicas}
    if rules.level < DIRECTORIES:
        return changes
    known = dict(zip(partition.replicas, partition.directories, strict=True)) | dict(wish.directories)
    directories = tuple(
        known[replica] if replica in known else rules.default_directory(replica) for replica in coming.replicas
    )
    return changes if directories == partition.directories else {**changes, "directories": directories}


def _or(wished: tuple[NodeId, ...] | None, present: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return present if wished is None else wished


def _without(brokers: tuple[NodeId, ...], gone: Iterable[NodeId]) -> tuple[NodeId, ...]:
    return tuple(broker for broker in brokers if broker not in gone)
