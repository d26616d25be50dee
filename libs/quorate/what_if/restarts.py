"""Which brokers can be restarted one after the other, in which order, and what stands against the others.

A restart is safe if no partition loses its leader while the broker is away, or gets one that was not in sync, or goes
under its min.insync.replicas. The controller's own commands say what its going does, and what its coming back does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from kraft import Message
from kraft.api.alter_partition import AlterPartitionRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Moment
from quorate.controller.partitions.broker_changes import Rulebook, is_online
from quorate.liveness import ControlState
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import RECOVERED, RECOVERING, Partition, merged
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.nouns import NodeId, Offset
from quorate.records import PartitionChangeRecord
from quorate.what_if.away import registered_broker

__all__ = ["Harm", "Harmed", "Restart", "plan_restarts"]


class Harm(StrEnum):
    """What the restart of a broker does to a partition, the worst first."""

    OFFLINE = "offline"
    """It has no leader meanwhile."""
    UNCLEAN = "unclean"
    """A replica that was not in sync leads it: what that one lacks is lost."""
    UNDER_MIN_ISR = "under min ISR"
    """It refuses producers with acks=all meanwhile: fewer are in the ISR than min.insync.replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmed:
    """A partition that stands against a restart, as it is before."""

    topic: str
    partition_id: int
    harm: Harm
    partition: Partition
    min_isr: int
    """The effective min.insync.replicas, at most the number of replicas."""

    @property
    def outside(self) -> list[NodeId]:
        """The replicas that are not in sync: once they are, the restart may be safe."""
        return [each for each in self.partition.replicas if each not in self.partition.isr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One broker's restart; it is safe if it harms nothing."""

    broker_id: NodeId
    harmed: Sequence[Harmed]


def plan_restarts(
    state: ClusterState, brokers: Sequence[NodeId], *, settings: ControllerSettings, next_offset: Offset
) -> list[Restart]:
    """Returns the safe restarts in an order in which they are safe, then the others.

    A broker is restarted once those before it are back, each in every ISR it can join. Coming back only adds to ISRs.
    So a restart that is safe stays safe, and one that is in no place of this order is in no place of any. `state` takes
    the records of those that come back; the first gets the offset `next_offset`.
    Raises ApiError(BROKER_ID_NOT_REGISTERED) and changes nothing.
    """
    for broker_id in brokers:
        registered_broker(state, broker_id)
    left, order, unsafe = list(dict.fromkeys(brokers)), list[Restart](), dict[NodeId, Restart]()
    while left:
        for broker_id in left:
            if broker_id not in unsafe:
                unsafe[broker_id] = Restart(broker_id=broker_id, harmed=tuple(_harmed(state, broker_id, settings)))
            if not unsafe[broker_id].harmed:
                break
        else:
            return [*order, *(unsafe[broker_id] for broker_id in left)]
        left.remove(broker_id)
        order.append(unsafe.pop(broker_id))
        offset = _come_back(state, broker_id, settings, next_offset)
        if offset != next_offset:
            unsafe.clear()  # ISRs have grown
        next_offset = offset
    return order


def _harmed(state: ClusterState, broker_id: NodeId, settings: ControllerSettings) -> Iterator[Harmed]:
    """Yields what the going of the broker harms, by the records that its fencing would write."""
    broker, book = registered_broker(state, broker_id), Rulebook(state, settings)
    fencing = change_broker_state(
        broker_id=broker.id, broker_epoch=broker.epoch, target=ControlState.FENCED, settings=settings
    )
    for record in fencing(state, Moment(next_offset=0, now_ms=0)).records:
        if not isinstance(record, PartitionChangeRecord):
            continue
        topic = state.topics.by_id(record.topic_id)
        assert topic is not None, record
        before = topic.partitions[record.partition_id]
        min_isr = min(book.min_isr(topic.name), len(before.replicas))
        harm = _harm(before, merged(before, record), min_isr)
        if harm is not None:
            yield Harmed(
                topic=topic.name, partition_id=record.partition_id, harm=harm, partition=before, min_isr=min_isr
            )


def _harm(before: Partition, after: Partition, min_isr: int) -> Harm | None:
    if before.has_leader and not after.has_leader:
        return Harm.OFFLINE
    if before.leader_recovery_state != RECOVERING and after.leader_recovery_state == RECOVERING:
        return Harm.UNCLEAN
    return Harm.UNDER_MIN_ISR if len(after.isr) < min_isr <= len(before.isr) else None


def _come_back(state: ClusterState, broker_id: NodeId, settings: ControllerSettings, offset: Offset) -> Offset:
    """Has a broker register if it is not active, and join every ISR it can; returns the offset after its records."""

    def apply(records: Sequence[Message]) -> None:
        nonlocal offset
        state.apply_all(records, offset)
        offset += len(records)

    broker = registered_broker(state, broker_id)
    if not broker.is_active:
        record = state.brokers.record(broker_id, state.features.record_level)
        assert record is not None, broker
        apply([replace(record, broker_epoch=offset, fenced=True, in_controlled_shutdown=False)])
        broker = registered_broker(state, broker_id)
        unfencing = change_broker_state(
            broker_id=broker.id, broker_epoch=broker.epoch, target=ControlState.UNFENCED, settings=settings
        )
        apply(unfencing(state, Moment(next_offset=offset, now_ms=0)).records)
        broker = registered_broker(state, broker_id)
    by_leader: dict[NodeId, list[TopicPartition]] = {}
    for found in state.topics.with_replica(broker_id):
        if state.brokers.is_active(found.partition.leader) and _may_join(found.partition, broker):
            by_leader.setdefault(found.partition.leader, []).append(found)
    for leader, partitions in by_leader.items():
        request = _widening(registered_broker(state, leader), broker_id, partitions)
        apply(alter_partition(request, settings=settings)(state, Moment(next_offset=offset, now_ms=0)).records)
    state.settle()
    return offset


def _may_join(partition: Partition, broker: Broker) -> bool:
    return broker.id not in partition.isr and is_online(partition.directory_of(broker.id), broker)


def _widening(leader: Broker, broker_id: NodeId, partitions: Sequence[TopicPartition]) -> AlterPartitionRequest:
    """Returns what a leader requests once a follower has caught up."""
    asked, of_topic = AlterPartitionRequest.TopicData.PartitionData, AlterPartitionRequest.TopicData
    return AlterPartitionRequest(
        broker_id=leader.id,
        broker_epoch=leader.epoch,
        topics=tuple(
            of_topic(
                topic_id=topic.id,
                partitions=(
                    asked(
                        partition_index=partition_id,
                        leader_epoch=partition.leader_epoch,
                        partition_epoch=partition.partition_epoch,
                        new_isr=(*partition.isr, broker_id),
                        leader_recovery_state=RECOVERED,
                    ),
                ),
            )
            for topic, partition_id, partition in partitions
        ),
    )
