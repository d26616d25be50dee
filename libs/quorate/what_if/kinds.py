"""Partitions of one kind have one fate: the controller's rules are asked for one of them, and the answer holds for the
others.

The outcome for a partition when a broker goes depends on where in its replica list the leader, the ISR and those that
are away are, and on its topic's settings, and not on the brokers' ids. A million partitions are of a few kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from kraft import Uuid
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.partitions.broker_changes import Rulebook, is_online, leaving
from quorate.metadata.partitions import NO_LEADER, Partition, merged
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic, TopicPartition
from quorate.nouns import NodeId
from quorate.what_if.min_isrs import MinIsrs

__all__ = ["Kinds", "going", "moved"]

T = TypeVar("T")
Kind: TypeAlias = tuple[object, ...]


class _Marks(dict[tuple[NodeId, Uuid], int]):
    """The kind of a replica as far as the rules go, as a number, by its broker and its directory."""

    def __init__(self, state: ClusterState, order: Sequence[NodeId], min_isrs: MinIsrs) -> None:
        super().__init__()
        self._state = state
        self._min_isrs = min_isrs
        self._order = {broker_id: place for place, broker_id in enumerate(order)}
        self._numbers: dict[object, int] = {}

    def __missing__(self, key: tuple[NodeId, Uuid]) -> int:
        broker_id, directory = key
        broker = self._state.brokers.get(broker_id)
        told = broker and (
            broker.fenced,
            broker.is_active and is_online(directory, broker),
            self._order.get(broker_id),
            self._min_isrs.own(broker_id),
        )
        self[key] = number = self._numbers.setdefault(told, len(self._numbers))
        return number


class Kinds(Generic[T]):
    """Finds what becomes of each partition of a state: `ask` is called for the first of each kind, and says it.

    Partitions are of one kind if they differ in nothing that the rules look at, as where only the broker ids are
    others. `order` has the brokers that go one after the other. The state may not change meanwhile.
    """

    def __init__(
        self,
        state: ClusterState,
        settings: ControllerSettings,
        order: Sequence[NodeId],
        ask: Callable[[TopicPartition], T],
        min_isrs: MinIsrs,
    ) -> None:
        self._book = Rulebook(state, settings)
        self._min_isrs = min_isrs
        self._marks = _Marks(state, order, min_isrs)
        self._ask = ask
        self._known: dict[tuple[object, ...], tuple[dict[Kind, T], dict[Kind, T]]] = {}
        """By what the rules have of a topic: by kind, and by shape; there are more shapes, but each is there often."""

    def of_topic(self, topic: Topic) -> Callable[[int, Partition], T]:
        """Returns a function that returns what becomes of a partition of this topic, by its id and its state."""
        name, min_isrs = topic.name, self._min_isrs
        rules = min_isrs.of_topic(name), min_isrs.is_of_topic(name), self._book.election(name)
        by_kind, by_shape = self._known.setdefault(rules, ({}, {}))
        mark_of = self._marks.__getitem__

        def found(partition_id: int, partition: Partition) -> T:
            shape: Kind = partition.shape
            became = by_shape.get(shape)
            if became is not None:
                return became
            kind = shape
            if not _is_odd(partition):
                replicas, isr, leader = partition.replicas, partition.isr, partition.leader
                kind = (
                    tuple(map(mark_of, zip(replicas, partition.directories, strict=True))),
                    None if isr == replicas else tuple(map(replicas.index, isr)),
                    NO_LEADER if leader == NO_LEADER else replicas.index(leader),
                    partition.leader_recovery_state,
                )
            became = by_kind.get(kind)
            if became is None:
                became = by_kind[kind] = self._ask(TopicPartition(topic, partition_id, partition))
            by_shape[shape] = became
            return became

        return found


def going(
    state: ClusterState, found: TopicPartition, order: Sequence[NodeId], settings: ControllerSettings
) -> Partition:
    """Returns what the controller makes of a partition when these brokers are fenced, one after the other.

    The state stays as it is. A broker that is fenced or not registered changes nothing.
    """
    topic, partition_id, partition = found
    away: list[NodeId] = []
    for broker_id in order:
        broker = state.brokers.get(broker_id)
        if broker is None or broker.fenced:
            continue  # it is away already
        if broker_id in partition.isr:
            among = [TopicPartition(topic, partition_id, partition)]
            for change in leaving(state, broker_id, settings, among, away=away):
                partition = merged(partition, change)
        away.append(broker_id)
    return partition


def moved(partition: Partition, of: Partition, became: Partition) -> Partition:
    """Returns what a partition becomes in the change that makes `became` of `of`, which is of its kind (see `Kinds`).

    Leader, ISR and ELR are the brokers at the same places of its own replica list. Its leader epoch and its partition
    epoch rise by as much as those of `of`.
    """
    leader_epoch = partition.leader_epoch + became.leader_epoch - of.leader_epoch
    partition_epoch = partition.partition_epoch + became.partition_epoch - of.partition_epoch
    if _is_odd(of):
        return replace(became, leader_epoch=leader_epoch, partition_epoch=partition_epoch)
    there = dict(zip(of.replicas, partition.replicas, strict=True))
    return replace(
        partition,
        isr=_there(became.isr, there),
        elr=tuple(sorted(_there(became.elr, there))),
        last_known_elr=_there(became.last_known_elr, there),
        leader=there.get(became.leader, NO_LEADER),
        leader_recovery_state=became.leader_recovery_state,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )


def _there(brokers: Collection[NodeId], there: dict[NodeId, NodeId]) -> tuple[NodeId, ...]:
    return tuple([there[each] for each in brokers])


def _is_odd(partition: Partition) -> bool:
    """Whether only partitions with the same brokers are of one kind with this one; few are so."""
    replicas, isr, leader = partition.replicas, partition.isr, partition.leader
    if partition.elr or partition.last_known_elr or partition.adding_replicas or partition.removing_replicas:
        return True
    count = len({*replicas})
    return (
        count != len(replicas)
        or count != len(partition.directories)
        or (leader not in replicas and leader != NO_LEADER)
        or (isr != replicas and not {*replicas}.issuperset(isr))
    )
