"""New partitions: checks the replicas that the placer or the request assigns, and makes PartitionRecords.

The placer chooses replicas before the write, from the brokers of that moment. If a chosen broker is gone at the write,
StalePlacement is raised, and the driver asks the placer again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace

from kraft import Message, Uuid
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import RECOVERED, default_directory
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import DIRECTORIES
from quorate.placement import PlacementSpec, Replicas, UsableBroker
from quorate.records import PartitionRecord

__all__ = [
    "PARTITIONS_PER_REQUEST_MAX",
    "FirstRecords",
    "Placements",
    "StalePlacement",
    "UsableBrokers",
    "bad_assignment",
    "check_assigned",
    "check_registered",
    "partition_records",
    "placed",
    "usable_brokers",
]

PARTITIONS_PER_REQUEST_MAX = 10_000
"""ReplicationControlManager.MAX_PARTITIONS_PER_BATCH. A write has at most as many records, of which one is the new
topic's: so one topic can have 9,999, as in Kafka, whose BoundedList of records has no room for one more."""
assert PARTITIONS_PER_REQUEST_MAX <= RECORDS_PER_WRITE_MAX, (PARTITIONS_PER_REQUEST_MAX, RECORDS_PER_WRITE_MAX)

Placements: TypeAlias = Mapping[str, tuple[Replicas, ...] | ApiError]
"""By topic name: the replicas of each new partition, or the error with which the placer refused."""


class StalePlacement(ApiError):
    """Raised when brokers changed since the placer was asked: place the topic again. Retriable."""

    def __init__(self, topic_name: str, reason: str) -> None:
        super().__init__(
            ErrorCode.REPLICA_NOT_AVAILABLE,
            f"topic {topic_name!r} has to be placed again: {reason}",
            {"topic": topic_name},
        )


def usable_brokers(state: ClusterState) -> tuple[UsableBroker, ...]:
    """Returns the brokers that may get replicas, by id: none in controlled shutdown or with all directories cordoned.

    Fenced brokers are included; the placer prefers others. KIP-841, KIP-1066.
    """
    return tuple(
        UsableBroker(id=broker.id, rack=broker.rack, fenced=broker.fenced)
        for broker in state.brokers
        if _is_usable(broker)
    )


class UsableBrokers:
    """Called, returns `usable_brokers` of the state as it is now; the result is kept until a registration changes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._of: tuple[Broker, ...] = ()
        self._usable: tuple[UsableBroker, ...] = ()

    def __call__(self) -> tuple[UsableBroker, ...]:
        """Returns those of now."""
        present = self._state.brokers.registrations()
        if present != self._of:
            self._of, self._usable = present, usable_brokers(self._state)
        return self._usable


def placed(state: ClusterState, name: str, placements: Placements, spec: PlacementSpec) -> tuple[Replicas, ...]:
    """Returns the replicas of each new partition of topic `name` that the placer has chosen, if still valid.

    Raises StalePlacement if the topic was not placed, or a broker can no longer be used or lead; the placer's own
    ApiError; ApiError(UNKNOWN_SERVER_ERROR) if the placer has chosen for other counts than `spec` says.
    """
    chosen = placements.get(name)
    if chosen is None:
        raise StalePlacement(name, "it was not placed, for that could not be then")
    if isinstance(chosen, ApiError):
        raise chosen
    if len(chosen) != spec.partition_count or set(map(len, chosen)) != {spec.replication_factor}:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"topic {name!r}: the placer placed {[len(replicas) for replicas in chosen[:3]]}… replicas of "
            f"{len(chosen)} partitions; asked for were {spec.replication_factor} of {spec.partition_count}",
        )
    for broker_id in set(chain.from_iterable(chosen)):
        broker = state.brokers.get(broker_id)
        if broker is None or not _is_usable(broker):
            raise StalePlacement(name, f"broker {broker_id} can no longer be used")
    for first in {replicas[0] for replicas in chosen}:
        if not state.brokers.is_active(first):
            raise StalePlacement(name, f"broker {first} was to lead, and is fenced by now")
    return chosen


def check_assigned(state: ClusterState, name: str, partition_id: int, replicas: Replicas) -> None:
    """Checks the replicas that a request assigns to a new partition. Raises ApiError(INVALID_REPLICA_ASSIGNMENT).

    As `check_registered`, and one of them at least must be active, to lead.
    """
    check_registered(state, name, partition_id, replicas)
    if not any(state.brokers.is_active(broker_id) for broker_id in replicas):
        raise bad_assignment(
            name, f"partition {partition_id} is on {list(replicas)}, who are all fenced or shutting down; one must lead"
        )


def check_registered(state: ClusterState, name: str, partition_id: int, replicas: Replicas) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT) unless there are `replicas`, registered, distinct, not cordoned."""
    if not replicas:
        raise bad_assignment(name, f"partition {partition_id} has no replicas")
    for broker_id, count in Counter(replicas).items():
        broker = state.brokers.get(broker_id)
        if broker is None:
            raise bad_assignment(name, f"partition {partition_id} is on broker {broker_id}, which is not registered")
        if not _has_room(broker):
            raise bad_assignment(
                name, f"partition {partition_id} is on broker {broker_id}, whose log directories are all cordoned"
            )
        if count > 1:
            raise bad_assignment(name, f"partition {partition_id} is on broker {broker_id} more than once")


def bad_assignment(name: str, reason: str) -> ApiError:
    """Returns ApiError(INVALID_REPLICA_ASSIGNMENT) for replicas that a request assigns in topic `name`."""
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"topic {name!r}: {reason}")


def partition_records(
    firsts: FirstRecords, topic_id: Uuid, replicas: Sequence[Replicas], *, first_id: int = 0
) -> Iterator[Message]:
    """Yields PartitionRecords, numbered from `first_id`. The ISR is the active replicas; the first of them leads."""
    for partition_id, brokers in enumerate(replicas, first_id):
        yield replace(firsts[brokers], partition_id=partition_id, topic_id=topic_id)


class FirstRecords(dict[Replicas, PartitionRecord]):
    """New partitions' records by replica list, made at the first look-up; topic id and partition id are not set."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__()
        self._state = state

    def __missing__(self, replicas: Replicas) -> PartitionRecord:
        brokers = [broker for broker_id in replicas if (broker := self._state.brokers.get(broker_id)) is not None]
        assert len(brokers) == len(replicas), replicas
        isr = tuple([broker.id for broker in brokers if broker.is_active])
        assert isr, replicas
        directories: tuple[Uuid, ...] = ()
        if self._state.features.record_level >= DIRECTORIES:
            directories = tuple([default_directory(broker.log_dirs) for broker in brokers])
        self[replicas] = record = PartitionRecord(
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_recovery_state=RECOVERED,
            leader_epoch=0,
            partition_epoch=0,
            directories=directories,
        )
        return record


def _is_usable(broker: Broker) -> bool:
    """Returns whether the broker may get new replicas."""
    return not broker.in_controlled_shutdown and _has_room(broker)


def _has_room(broker: Broker) -> bool:
    """Returns whether the broker has a log directory that is not cordoned. KIP-1066."""
    return not broker.log_dirs or not set(broker.log_dirs) <= set(broker.cordoned_log_dirs or ())
