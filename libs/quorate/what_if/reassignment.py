"""Plans a reassignment: brokers are added or drained, or the replication factor changes. As few replicas move as can.

A plan is what AlterPartitionReassignments takes (KIP-455); the controller gets nothing of it here. A replica moves only
if its broker is drained, if the factor asks for one more, or if an added broker has less than its share; and of a
partition that changes, if its broker is not registered, or if the reassignment would wait for it without end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId
from quorate.placement import Replicas
from quorate.what_if.away import registered_broker

__all__ = ["Load", "Move", "Plan", "Wish", "plan_reassignment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The goals of a reassignment; each may be left out, but not all."""

    added: Collection[NodeId] = ()
    """Brokers that get their share of replicas and of preferred leaders."""
    drained: Collection[NodeId] = ()
    """Brokers that have no replica afterwards; they need not be registered if they have one now."""
    factor: int | None = None
    """How many replicas each partition has afterwards; None for as many as it has."""
    topics: Collection[str] = ()
    """The topics that it is about; none for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition's new replicas, in order of preference."""

    topic: str
    partition_id: int
    before: Replicas
    """Its replicas; of a reassignment under way those that it leads to."""
    after: Replicas

    @property
    def coming(self) -> list[NodeId]:
        """The brokers that get a copy."""
        return [each for each in self.after if each not in self.before]

    @property
    def going(self) -> list[NodeId]:
        """The brokers that delete theirs."""
        return [each for each in self.before if each not in self.after]


@dataclass(slots=True, kw_only=True)
class Load:
    """The load of one broker over all topics, before and after, and the replicas that come and go."""

    replicas_before: int = 0
    replicas_after: int = 0
    preferred_before: int = 0
    """Partitions whose preferred leader it is."""
    preferred_after: int = 0
    coming: int = 0
    going: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The partitions that change, in the order of topics and ids, and the load of each broker before and after.

    The load counts replicas: the metadata says nothing of their bytes.
    """

    moves: Sequence[Move]
    loads: Mapping[NodeId, Load]

    @property
    def copied(self) -> int:
        """How many replicas are copied to another broker."""
        return sum(len(each.coming) for each in self.moves)


def plan_reassignment(state: ClusterState, wish: Wish) -> Plan:
    """Returns the plan; the state stays as it is.

    Racks: a new replica goes where the partition has the fewest, then to the broker with the fewest replicas. It takes
    the place of the one that goes, so that preferred leaders stay spread. Raises ApiError: BROKER_ID_NOT_REGISTERED,
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICATION_FACTOR, INVALID_REQUEST for what contradicts itself.
    """
    _check(state, wish)
    board = _Board(state, wish)
    for name, partition_id, before in board.asked:
        board.set(name, partition_id, board.changed(name, partition_id, before))
    for broker_id in sorted(set(wish.added)):
        board.fill(broker_id)
    return board.plan()


def _check(state: ClusterState, wish: Wish) -> None:
    if not (wish.added or wish.drained or wish.factor is not None):
        raise ApiError(ErrorCode.INVALID_REQUEST, "nothing is asked for: brokers to add or drain, or a factor")
    if wish.factor is not None and wish.factor < 1:
        raise _bad_factor(f"a replication factor of {wish.factor} is not possible: it is at least 1")
    for broker_id in wish.drained:
        if not any(state.topics.with_replica(broker_id)):
            registered_broker(state, broker_id)
    for broker_id in wish.added:
        if broker_id in wish.drained:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {broker_id} cannot be added and drained at once")
        why = _why_not(registered_broker(state, broker_id))
        if why is not None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {broker_id} can get no replicas: it {why}")
    for name in wish.topics:
        if state.topics.by_name(name) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


def _why_not(broker: Broker) -> str | None:
    """Says why a broker is given no new replicas; None if it may have some. KIP-631, KIP-1066."""
    if broker.fenced:
        return "is fenced"
    if broker.in_controlled_shutdown:
        return "is in controlled shutdown"
    if broker.log_dirs and set(broker.log_dirs) <= set(broker.cordoned_log_dirs or ()):
        return "has only cordoned log directories"
    return None


def target_of(partition: Partition) -> Replicas:
    """Returns the replicas that a partition has once its reassignment is done; its present ones without one."""
    return tuple(each for each in partition.replicas if each not in partition.removing_replicas)


class _Board:
    """The replicas of each partition while a plan is made, and how many each broker has of all topics."""

    def __init__(self, state: ClusterState, wish: Wish) -> None:
        self._wish = wish
        self._drained = frozenset(wish.drained)
        self._racks = {broker.id: broker.rack for broker in state.brokers}
        """Of the registered brokers."""
        self._active = {broker.id for broker in state.brokers.active()}
        self._usable = [each.id for each in state.brokers if _why_not(each) is None and each.id not in self._drained]
        self._before: dict[tuple[str, int], Replicas] = {}
        self._now: dict[tuple[str, int], Replicas] = {}
        self._in_sync: dict[tuple[str, int], tuple[NodeId, ...]] = {}
        self._replicas: Counter[NodeId] = Counter()
        self._preferred: Counter[NodeId] = Counter()
        self.asked: list[tuple[str, int, Replicas]] = []
        for topic in sorted(state.topics, key=lambda each: each.name):
            for partition_id, partition in topic.partitions.items():
                target, key = target_of(partition), (topic.name, partition_id)
                self._before[key] = self._now[key] = target
                self._in_sync[key] = partition.isr
                self._count(target, 1)
                if not wish.topics or topic.name in wish.topics:
                    self.asked.append((*key, target))
        self._had, self._preferred_had = Counter(self._replicas), Counter(self._preferred)
        more = sum(wish.factor - len(target) for _, _, target in self.asked) if wish.factor is not None else 0
        usable_count = max(len(self._usable), 1)
        self._share = (sum(self._replicas.values()) + more) // usable_count
        self._preferred_share = sum(self._preferred.values()) // usable_count

    def set(self, name: str, partition_id: int, after: Replicas) -> None:
        """Gives a partition other replicas."""
        assert len(set(after)) == len(after), (name, partition_id, after)
        self._count(self._now[name, partition_id], -1)
        self._count(after, 1)
        self._now[name, partition_id] = after

    def changed(self, name: str, partition_id: int, before: Replicas) -> Replicas:
        """Returns a partition's replicas without drained brokers, and as many as are asked for."""
        factor = len(before) if self._wish.factor is None else self._wish.factor
        if factor == len(before) and self._drained.isdisjoint(before):
            return before
        return self._renewed(name, partition_id, before, factor)

    def fill(self, added: NodeId) -> None:
        """Moves replicas to a broker that is added until it has its share, each from a broker that has more.

        No partition is spread worse over racks after it, and the broker gets its share of preferred leaders among them.
        """
        by_owner: dict[NodeId, dict[bool, list[tuple[str, int]]]] = {}
        for name, partition_id, _ in reversed(self.asked):
            for position, each in enumerate(self._now[name, partition_id]):
                by_owner.setdefault(each, {True: [], False: []})[position == 0].append((name, partition_id))
        owners = sorted(by_owner, key=lambda each: (-self._replicas[each], each))
        while self._lacks(added) and owners:
            owner = max(owners, key=lambda each: (self._replicas[each], -each))
            if self._replicas[owner] <= self._replicas[added] + 1:
                return
            is_first = self._preferred[added] < self._preferred_share
            if not self._take(added, owner, by_owner[owner], first=is_first):
                owners.remove(owner)

    def plan(self) -> Plan:
        """Returns the partitions whose replicas are others now, and the load of each broker before and after."""
        moves = [
            Move(topic=name, partition_id=partition_id, before=before, after=self._now[name, partition_id])
            for (name, partition_id), before in self._before.items()
            if before != self._now[name, partition_id]
        ]
        loads = {
            each: Load(
                replicas_before=self._had[each],
                replicas_after=self._replicas[each],
                preferred_before=self._preferred_had[each],
                preferred_after=self._preferred[each],
            )
            for each in sorted({*self._racks, *self._had, *self._replicas})
        }
        for move in moves:
            for each in move.coming:
                loads[each].coming += 1
            for each in move.going:
                loads[each].going += 1
        return Plan(moves=moves, loads=loads)

    def _take(self, added: NodeId, owner: NodeId, places: Mapping[bool, list[tuple[str, int]]], *, first: bool) -> bool:
        """Moves one replica of `owner`, a preferred one if `first` and if it can. Returns whether there was one."""
        for is_first in (first, not first):
            while places[is_first]:
                key = places[is_first].pop()
                now = self._now[key]
                if owner not in now or added in now:
                    continue
                after = self._with_added(key, added, owner)
                if after is not None:
                    self.set(*key, after)
                    return True
        return False

    def _with_added(self, key: tuple[str, int], added: NodeId, owner: NodeId) -> Replicas | None:
        """Returns a partition's replicas with `added` in place of `owner`; None if another place for it is better.

        The controller takes no unregistered broker. So where there is one, `added` gets that one's place, if any.
        """
        now = self._now[key]
        gone_count = sum(each not in self._racks for each in now)
        if not gone_count:
            after = tuple(added if each == owner else each for each in now)
            # `added` may be one that had a replica out of sync, which a lower factor has taken away.
            is_sound = any(each in self._in_sync[key] or each not in self._before[key] for each in after)
            return after if is_sound and self._crowding(after) <= self._crowding(now) else None
        if gone_count > sum(each not in now for each in self._usable):
            return None
        after = self._renewed(*key, now, len(now))
        return after if added in after else None

    def _renewed(self, name: str, partition_id: int, before: Replicas, factor: int) -> Replicas:
        """Returns `factor` replicas, none of them on a broker that is drained or not registered."""
        in_sync = self._in_sync[name, partition_id]
        kept = [each for each in before if each in self._racks and each not in self._drained]
        while len(kept) > factor:
            kept.remove(self._least_needed(kept, in_sync))
        barred: list[NodeId] = []
        if factor < len(before):
            barred, kept = kept, self._worth_waiting_for(kept, in_sync, factor)
            barred = [each for each in barred if each not in kept]
        found: list[NodeId] = []
        for _ in range(factor - len(kept)):
            found.append(self._next(name, partition_id, [*kept, *found], factor, barred))
        after: list[NodeId] = []
        for each in before:
            if each in kept:
                after.append(each)
            elif found:
                after.append(found.pop(0))
        return (*after, *found)

    def _worth_waiting_for(self, kept: Sequence[NodeId], in_sync: Collection[NodeId], factor: int) -> list[NodeId]:
        """Returns those of `kept` that stay: in sync, or on active brokers; if none is in sync, fewer than `factor`.

        With a lower factor the reassignment ends only when all that stay are in sync (KIP-455), and until then nothing
        is deleted. So who is away gives way to a copy on a broker that is there, as far as there are such brokers; and
        if none is in sync, at least one copy is made.
        """
        there = [each for each in kept if each in in_sync or each in self._active]
        if there and not set(there).isdisjoint(in_sync):
            lacking = factor - len(there) - sum(each not in kept for each in self._usable)
            waited = [each for each in kept if each not in there][: max(0, lacking)]
            return [each for each in kept if each in there or each in waited]
        while len(there) >= factor:
            there.remove(self._least_needed(there, ()))
        return there

    def _next(
        self, name: str, partition_id: int, have: Collection[NodeId], factor: int, barred: Collection[NodeId]
    ) -> NodeId:
        """Returns the broker that gets one more replica, none of `barred`. Raises ApiError if there is none."""
        free = [each for each in self._usable if each not in have and each not in barred]
        if not free and barred:
            raise _bad_factor(
                f"partition {name}-{partition_id} is to have {factor} replicas; "
                f"of those that it could keep none is in sync, and no other broker can get a copy"
            )
        if not free:
            there = ", ".join(map(str, self._usable)) or "none"
            raise _bad_factor(
                f"partition {name}-{partition_id} is to have {factor} replicas; brokers that can get some: {there}"
            )
        of_rack = Counter(self._racks.get(each) for each in have)
        return min(
            free, key=lambda each: (of_rack[self._racks[each]], not self._lacks(each), self._replicas[each], each)
        )

    def _least_needed(self, kept: Sequence[NodeId], in_sync: Collection[NodeId]) -> NodeId:
        """Returns the one to delete: not in sync, its broker away, of the rack with most, of the fullest, the last."""
        of_rack = Counter(self._racks.get(each) for each in kept)
        ranked = [
            (
                each not in in_sync,
                each not in self._active,
                of_rack[self._racks.get(each)],
                place != 0,
                self._replicas[each],
                place,
                each,
            )
            for place, each in enumerate(kept)
        ]
        return max(ranked)[-1]

    def _lacks(self, broker_id: NodeId) -> bool:
        """Whether it is one that is added, and has less than its share: so nothing else has to be moved to it later."""
        return broker_id in self._wish.added and self._replicas[broker_id] < self._share

    def _crowding(self, replicas: Replicas) -> list[int]:
        """Returns how many replicas each rack has, the most first; the lesser of two, one move apart, is the better."""
        return sorted(Counter(self._racks.get(each) for each in replicas).values(), reverse=True)

    def _count(self, replicas: Replicas, one: int) -> None:
        for each in replicas:
            self._replicas[each] += one
        for each in replicas[:1]:
            self._preferred[each] += one


def _bad_factor(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
