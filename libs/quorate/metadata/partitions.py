"""The state of one partition, and the effect of PartitionRecord and PartitionChangeRecord on it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from kraft import Uuid
from quorate.metadata.faults import ReplayFault
from quorate.metadata.versions import DIRECTORIES, ELIGIBLE_LEADER_REPLICAS, LATEST, version_at
from quorate.nouns import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, Epoch, NodeId
from quorate.records import PartitionChangeRecord, PartitionRecord

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
"""The `leader` value of a PartitionChangeRecord that leaves the leader as it is."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader recovery state after an unclean election, until the leader reports its recovery. KIP-704."""
NO_RECOVERY_CHANGE: Final = -1


class Partition(msgspec.Struct, frozen=True, gc=False):
    """The immutable state of one partition; a change makes a new object. Equal tuples are shared by the decoder.

    `directories[i]` is the log directory of `replicas[i]` (KIP-858). `elr` are the replicas outside the ISR that may
    be elected cleanly, `last_known_elr` those for an election of last resort (KIP-966). To save memory the topic id
    and the partition id are not stored here.
    """

    replicas: tuple[NodeId, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[NodeId, ...]
    removing_replicas: tuple[NodeId, ...]
    adding_replicas: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_elr: tuple[NodeId, ...]
    leader: NodeId
    leader_recovery_state: int
    leader_epoch: Epoch
    partition_epoch: int

    @property
    def has_leader(self) -> bool:
        """Whether the partition has a leader, and so can be written to."""
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> NodeId:
        """The first replica, which is the preferred leader; NO_LEADER if there are no replicas."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_imbalanced(self) -> bool:
        """Whether the leader is not the preferred leader; true without a leader, too."""
        replicas = self.replicas
        return not replicas or self.leader != replicas[0]

    @property
    def is_short(self) -> bool:
        """Whether the partition has a leader and fewer ISR members than replicas."""
        return len(self.isr) < len(self.replicas) and self.leader != NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        """Whether the partition has a leader, and a replica outside its ISR. Adding replicas do not count."""
        adding = self.adding_replicas
        return self.is_short and (not adding or len(self.isr) < sum(replica not in adding for replica in self.replicas))

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is adding or removing replicas. KIP-455."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def shape(self) -> tuple[object, ...]:
        """All fields but the two epochs: many partitions share one value, so that a report can group them."""
        return (
            self.replicas,
            self.directories,
            self.isr,
            self.removing_replicas,
            self.adding_replicas,
            self.elr,
            self.last_known_elr,
            self.leader,
            self.leader_recovery_state,
        )

    def directory_of(self, replica: NodeId) -> Uuid:
        """Returns the log directory of a replica. Raises ValueError for a broker that is not a replica."""
        return self.directories[self.replicas.index(replica)]


def led_uncleanly(before: Partition, after: Partition) -> bool:
    """Returns whether a new leader may lack committed records. KIP-704, KIP-966.

    Since 3.2 the RECOVERING state says it, but it does not change if the leader before was RECOVERING too. So a leader
    that was not in the ISR or ELR counts as well, except at the end of a reassignment, where one change makes the new
    replica a member of the ISR and the leader (KIP-455).
    """
    if (before.leader_recovery_state, after.leader_recovery_state) == (RECOVERED, RECOVERING):
        return True
    if not after.has_leader or after.leader in (before.leader, *before.isr, *before.elr):
        return False
    return {*after.replicas} == {*before.replicas}


@lru_cache(maxsize=1024)
def migrating(replica_count: int) -> tuple[Uuid, ...]:
    """Returns a MIGRATING directory for each replica: the value for replicas older than directory ids. KIP-858."""
    return (MIGRATING_DIRECTORY,) * replica_count


def default_directory(log_dirs: tuple[Uuid, ...]) -> Uuid:
    """Returns the directory for a new replica: that of the broker if it has exactly one, else UNASSIGNED.

    A broker that has registered no directories gets MIGRATING (KIP-858).
    """
    if not log_dirs:
        return MIGRATING_DIRECTORY
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY


def registered(record: PartitionRecord) -> Partition:
    """Returns the partition that a PartitionRecord describes. Raises ReplayFault for an inconsistent record."""
    replicas, directories = record.replicas, record.directories
    if directories and len(directories) != len(replicas):
        raise ReplayFault(_uneven(record.partition_id, len(replicas), len(directories)))
    if record.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise ReplayFault(f"leader recovery state {record.leader_recovery_state}; only 0 and 1 exist")
    return Partition(
        replicas,
        directories or migrating(len(replicas)),
        record.isr,
        record.removing_replicas,
        record.adding_replicas,
        record.eligible_leader_replicas or (),
        record.last_known_elr or (),
        record.leader,
        record.leader_recovery_state,
        record.leader_epoch,
        record.partition_epoch,
    )


def merged(partition: Partition, change: PartitionChangeRecord) -> Partition:
    """Returns `partition` after a PartitionChangeRecord: null fields keep their value.

    The partition epoch always rises. The leader epoch rises exactly if the record has a leader field: the same leader
    again and NO_LEADER count, too. Raises ReplayFault for an unknown leader recovery state, or if the record has other
    numbers of replicas and of directories.
    """
    replicas = partition.replicas if change.replicas is None else change.replicas
    if change.leader_recovery_state not in (NO_RECOVERY_CHANGE, RECOVERED, RECOVERING):
        raise ReplayFault(f"leader recovery state {change.leader_recovery_state}; only -1, 0 and 1 exist")
    carries_leader = change.leader != NO_LEADER_CHANGE
    elr, last_known = change.eligible_leader_replicas, change.last_known_elr
    return Partition(
        replicas,
        _directories(partition, change, len(replicas)),
        partition.isr if change.isr is None else change.isr,
        partition.removing_replicas if change.removing_replicas is None else change.removing_replicas,
        partition.adding_replicas if change.adding_replicas is None else change.adding_replicas,
        partition.elr if elr is None else elr,
        partition.last_known_elr if last_known is None else last_known,
        change.leader if carries_leader else partition.leader,
        partition.leader_recovery_state
        if change.leader_recovery_state == NO_RECOVERY_CHANGE
        else change.leader_recovery_state,
        partition.leader_epoch + carries_leader,
        partition.partition_epoch + 1,
    )


def as_record(
    partition: Partition, topic_id: Uuid, partition_id: int, metadata_version: int = LATEST
) -> tuple[PartitionRecord, int]:
    """Returns the PartitionRecord of `partition` at this metadata.version, and the record version to encode it in.

    As in Kafka's checkpoints, fields that the level does not have are left out.
    """
    with_elr = metadata_version >= ELIGIBLE_LEADER_REPLICAS
    return PartitionRecord(
        partition_id,
        topic_id,
        partition.replicas,
        partition.isr,
        partition.removing_replicas,
        partition.adding_replicas,
        partition.leader,
        partition.leader_recovery_state,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.directories if metadata_version >= DIRECTORIES else (),
        partition.elr or None if with_elr else None,
        partition.last_known_elr or None if with_elr else None,
    ), version_at(PartitionRecord, metadata_version)


def _directories(partition: Partition, change: PartitionChangeRecord, replica_count: int) -> tuple[Uuid, ...]:
    directories = partition.directories
    if change.directories is not None:
        directories = change.directories
        if directories and change.replicas is not None and len(directories) != replica_count:
            raise ReplayFault(_uneven(change.partition_id, replica_count, len(directories)))
    elif change.replicas is None:
        return directories
    if directories.count(MIGRATING_DIRECTORY) == len(directories):
        return migrating(replica_count)
    return directories


def _uneven(partition_id: int, replica_count: int, directory_count: int) -> str:
    return (
        f"partition {partition_id} has {replica_count} replicas and {directory_count} directories; one each is needed"
    )
