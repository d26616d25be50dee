"""Which brokers can be restarted one after the other, in which order, and what stands against the others.

A restart is safe if no partition loses its leader while the broker is away, or gets one that was not in sync, or goes
under its min.insync.replicas. The controller's own commands say what its going does, and what its coming back does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from kraft import Message
from kraft.api.alter_partition import AlterPartitionRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Moment
from quorate.controller.partitions.broker_changes import is_online
from quorate.liveness import ControlState
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import RECOVERED, Partition, led_uncleanly
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.nouns import NodeId, Offset
from quorate.what_if.away import registered_broker
from quorate.what_if.kinds import Kinds, going
from quorate.what_if.min_isrs import MinIsrs

__all__ = ["Harm", "Harmed", "Restart", "plan_restarts"]


class Harm(StrEnum):
    """The effects of a broker's restart on a partition, the worst first."""

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
    """min.insync.replicas under who leads meanwhile (KIP-226), at most the number of replicas."""

    @property
    def outside(self) -> list[NodeId]:
        """The replicas that are not in sync: once they are, the restart may be safe."""
        return [each for each in self.partition.replicas if each not in self.partition.isr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One broker's restart; it is safe now if it harms nothing."""

    broker_id: NodeId
    harmed: Sequence[Harmed]
    """The partitions that it harms now; of a broker without a place in the order, those that it harms even after the
    others."""
    after: Sequence[NodeId] = ()
    """The brokers before it in the order that have to be back until it harms nothing; none if it is safe now."""

    @property
    def is_safe_now(self) -> bool:
        """Whether it harms nothing as the brokers are now."""
        return not self.harmed

    @property
    def has_place(self) -> bool:
        """Whether it is safe in its place of the order: now, or once those of `after` are back."""
        return self.is_safe_now or bool(self.after)


def plan_restarts(
    state: ClusterState, brokers: Sequence[NodeId], *, settings: ControllerSettings, next_offset: Offset
) -> list[Restart]:
    """Returns the restarts in an order in which they are safe, then those that have no place in it.

    Each says what it harms now, before anybody is back, and after whom it harms nothing. A broker is restarted once
    those before it are back, each in every ISR it can join. Coming back only adds to ISRs. So a restart that is safe
    stays safe, but for one case: an ISR that was under min.insync.replicas, and is brought up to it, is under it again
    while any of its members is away. A broker that joins no ISR therefore goes first. Those that join some go in the
    order in which they are given, and one that has no place then may have one in another order. `state` takes the
    records of those that come back; the first gets the offset `next_offset`. Raises ApiError(BROKER_ID_NOT_REGISTERED)
    and changes nothing.
    """
    for broker_id in brokers:
        registered_broker(state, broker_id)
    left, order = list(dict.fromkeys(brokers)), list[Restart]()
    found = now = _survey(state, left, settings)
    back, after = list[NodeId](), dict[NodeId, list[NodeId]]()
    while left:
        harmless = [broker_id for broker_id in left if broker_id not in found.harmed]
        safe = min(harmless, key=found.joining.__contains__, default=None)
        if safe is None:
            return [*order, *(Restart(broker_id=each, harmed=tuple(found.harmed[each])) for each in left)]
        left.remove(safe)
        order.append(Restart(broker_id=safe, harmed=tuple(now.harmed.get(safe, ())), after=after.get(safe, ())))
        offset = _come_back(state, safe, settings, next_offset, found.short)
        if offset != next_offset:
            found = _survey(state, left, settings)  # ISRs have grown
            back.append(safe)
            for each in now.harmed.keys() & set(left) - found.harmed.keys() - after.keys():
                helped = {replica for harmed in now.harmed[each] for replica in harmed.partition.replicas}
                after[each] = [broker_id for broker_id in back if broker_id in helped]
        next_offset = offset
    return order


class _Survey(NamedTuple):
    """The findings of one walk over all partitions."""

    harmed: Mapping[NodeId, Sequence[Harmed]]
    """By broker, what its going harms; a broker that harms nothing is not here."""
    short: Sequence[TopicPartition]
    """The partitions with a replica outside the ISR."""
    joining: Collection[NodeId]
    """The replicas outside an ISR."""


def _survey(state: ClusterState, brokers: Collection[NodeId], settings: ControllerSettings) -> _Survey:
    """Returns what the going of each of these brokers harms, as the controller decides it for one of each kind."""

    min_isrs = MinIsrs(state, settings)

    def ask(found: TopicPartition) -> tuple[tuple[Harm, int] | None, ...]:
        return tuple(_harm(min_isrs, found, going(state, found, [each], settings)) for each in found.partition.isr)

    kinds, asked = Kinds(state, settings, (), ask, min_isrs), frozenset(brokers)
    harmed: dict[NodeId, list[Harmed]] = {}
    short: list[TopicPartition] = []
    for topic in state.topics:
        harms_of = kinds.of_topic(topic)
        for partition_id, partition in topic.pairs():
            replicas, isr = partition.replicas, partition.isr
            if isr != replicas and not set(replicas).issubset(isr):
                short.append(TopicPartition(topic, partition_id, partition))
            harms = harms_of(partition_id, partition)
            for broker_id, harm in zip(isr, harms, strict=True) if any(harms) else ():
                if harm is not None and broker_id in asked:
                    found = Harmed(
                        topic=topic.name,
                        partition_id=partition_id,
                        harm=harm[0],
                        partition=partition,
                        min_isr=harm[1],
                    )
                    harmed.setdefault(broker_id, []).append(found)
    joining = {replica for *_, each in short for replica in each.replicas if replica not in each.isr}
    return _Survey(harmed, short, joining)


def _harm(min_isrs: MinIsrs, found: TopicPartition, after: Partition) -> tuple[Harm, int] | None:
    """Returns what is harmed, and min.insync.replicas under the leader after; None for no harm."""
    name, before = found.topic.name, found.partition
    least = min_isrs.least(name, after)
    if before.has_leader and not after.has_leader:
        return Harm.OFFLINE, least
    if led_uncleanly(before, after):
        return Harm.UNCLEAN, least
    is_under = len(after.isr) < least and len(before.isr) >= min_isrs.least(name, before)
    return (Harm.UNDER_MIN_ISR, least) if is_under else None


def _come_back(
    state: ClusterState,
    broker_id: NodeId,
    settings: ControllerSettings,
    offset: Offset,
    short: Iterable[TopicPartition],
) -> Offset:
    """Has a broker register if it is not active, and join every ISR it can; returns the offset after its records.

    `short` are the partitions with a replica outside the ISR, as they were.
    """

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
    for topic, partition_id, was in short:
        if broker_id in was.replicas:
            found = TopicPartition(topic, partition_id, topic.partitions[partition_id])
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
