"""One partition as the controller knows it, and what a record does to it."""

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
"""The `leader` of a change that does not carry one."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader was elected uncleanly and has not yet said that it has recovered. KIP-704."""
NO_RECOVERY_CHANGE: Final = -1


class Partition(msgspec.Struct, frozen=True, gc=False):
    """One partition: replaced at each change, never changed. Equal tuples are one object (the decoder sees to it).

    `directories` runs beside `replicas` (KIP-858). `elr` are those that may lead though not in the ISR, and
    `last_known_elr` the last resort (KIP-966). Not in here, for room: the topic and the partition's number.
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
        """Can it be written to at all?"""
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> NodeId:
        """The first replica; NO_LEADER if there are none."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_imbalanced(self) -> bool:
        """Is it led by another than its preferred leader, or by nobody?"""
        replicas = self.replicas
        return not replicas or self.leader != replicas[0]

    @property
    def is_reassigning(self) -> bool:
        """Is it on its way to other replicas? KIP-455."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def shape(self) -> tuple[object, ...]:
        """All that is to say of it but its epochs: many partitions are alike."""
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
        """The directory that holds `replica`. Raises ValueError if it is none of the replicas."""
        return self.directories[self.replicas.index(replica)]


@lru_cache(maxsize=1024)
def migrating(replica_count: int) -> tuple[Uuid, ...]:
    """Directories of replicas that were placed before directories had ids. KIP-858."""
    return (MIGRATING_DIRECTORY,) * replica_count


def default_directory(log_dirs: tuple[Uuid, ...]) -> Uuid:
    """Where a new replica lies, as far as the controller can tell: in the only directory of its broker, if so.

    >>> default_directory(()) == MIGRATING_DIRECTORY
    True
    """
    if not log_dirs:
        return MIGRATING_DIRECTORY
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY


def registered(record: PartitionRecord) -> Partition:
    """The partition that `record` lays down. Raises ReplayFault."""
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
    """What `change` makes of `partition`: null fields stay, every change counts. Raises ReplayFault.

    The leader epoch rises if and only if the record carries a leader, be it the same one, or none.
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
    """The record that lays `partition` down at this level, and its version.

    What the level has no field for is left out, as Kafka does in a checkpoint.
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
