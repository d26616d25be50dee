"""REPLICATE: the partitions of a broker, their leaders and followers, and what is committed; without I/O.

log, local_replica                       the log as the core sees it; with its high watermark, a replica
divergence                               where two logs part (KIP-101, KIP-279, KIP-320)
registration, partition                  what the metadata log says, and the role that follows from it
isr_state, progress, high_watermark      the ISR, the replicas' log ends, and what they have in common
leading, proposals, alterations          the leader's decisions, and AlterPartition (KIP-497)
following                                the follower: fetch, append, truncate
admission, waits                         produce and fetch requests: taken, held, answered
effects, settings, invariants            what a driver has to do; limits; what holds after every step

A driver tells a `Partition` its registration, and carries out the effects in order:

>>> from quorate.replication import Partition, PartitionRegistration, ReplicationSettings, new_epochs
>>> class EmptyLog:
...     start = leo = 0
...     epochs = new_epochs()
...     first_open_offset = None
>>> partition = Partition(broker_id=1, log=EmptyLog(), checkpoint=0, brokers={}, settings=ReplicationSettings())
>>> leader_is_2 = PartitionRegistration(
...     leader=2, leader_epoch=4, partition_epoch=9, replicas=(1, 2), isr=frozenset({1, 2})
... )
>>> partition.apply(leader_is_2, now_ms=0)
[StartFetching(leader_id=2, leader_epoch=4)]
>>> partition.role.next_request(now_ms=0)
FetchAt(offset=0, last_fetched_epoch=-1, leader_epoch=4, log_start=0)
"""

from quorate.replication.admission import (
    ACKS_ALL,
    FetchPosition,
    FollowerFetch,
    Grant,
    acks_outcome,
    admit_consumer,
    admit_follower,
    admit_produce,
    deleted_outcome,
    end_of_epoch,
    has_all,
    hear_follower,
    regrant,
)
from quorate.replication.alterations import Alterations, AlterRequest, Answered
from quorate.replication.effects import (
    Append,
    AssignEpoch,
    Batch,
    Effect,
    EndWaits,
    HighWatermarkRaised,
    LowWatermarkMoved,
    Propose,
    RaiseLogStart,
    RestartAt,
    StartFetching,
    StopFetching,
    Truncate,
)
from quorate.replication.following import AskRange, Diverged, FetchAt, Fetched, Following, Phase, Range, Refused
from quorate.replication.isr_state import (
    Committed,
    PendingExpand,
    PendingRecovery,
    PendingShrink,
    committed_of,
    maximal_isr,
)
from quorate.replication.leading import IsrCounts, Leading
from quorate.replication.log import NO_EPOCH, Isolation, Log, new_epochs
from quorate.replication.partition import Partition
from quorate.replication.progress import Progress
from quorate.replication.proposals import Altered, Proposal
from quorate.replication.registration import BrokerStanding, PartitionRegistration, is_stale
from quorate.replication.settings import ReplicationSettings
from quorate.replication.waits import FetchDone, FetchWait, ProduceDone, ProduceWait, Waits

__all__ = [
    "ACKS_ALL",
    "NO_EPOCH",
    "AlterRequest",
    "Alterations",
    "Altered",
    "Answered",
    "Append",
    "AskRange",
    "AssignEpoch",
    "Batch",
    "BrokerStanding",
    "Committed",
    "Diverged",
    "Effect",
    "EndWaits",
    "FetchAt",
    "FetchDone",
    "FetchPosition",
    "FetchWait",
    "Fetched",
    "FollowerFetch",
    "Following",
    "Grant",
    "HighWatermarkRaised",
    "Isolation",
    "IsrCounts",
    "Leading",
    "Log",
    "LowWatermarkMoved",
    "Partition",
    "PartitionRegistration",
    "PendingExpand",
    "PendingRecovery",
    "PendingShrink",
    "Phase",
    "ProduceDone",
    "ProduceWait",
    "Progress",
    "Proposal",
    "Propose",
    "RaiseLogStart",
    "Range",
    "Refused",
    "ReplicationSettings",
    "RestartAt",
    "StartFetching",
    "StopFetching",
    "Truncate",
    "Waits",
    "acks_outcome",
    "admit_consumer",
    "admit_follower",
    "admit_produce",
    "committed_of",
    "deleted_outcome",
    "end_of_epoch",
    "has_all",
    "hear_follower",
    "is_stale",
    "maximal_isr",
    "new_epochs",
    "regrant",
]
