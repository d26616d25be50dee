"""An operator's remedies for missing replicas: advice names brokers, and only what is possible now.

A broker can take a replica if it is unfenced, not in controlled shutdown, and has a log directory that is not cordoned
(KIP-858, KIP-1066). A replica can be added to a partition, or moved, only while it has a leader to copy from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from quorate.doctor.rules import Facts, named
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId

__all__ = ["Missing", "Room", "Takers"]

NOBODY: Final = "no broker with all committed records is known: an unclean election loses what its new leader lacks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Whether every one of some partitions can get another replica: now, or only after an operator's step.

    The steps are to start the brokers that are away (`has_spare`), and to uncordon a log directory too (`has_full`).
    """

    is_led: bool
    """Each has a leader to copy from."""
    has_room: bool
    """And a broker can take the replica."""
    has_spare: bool
    """One could if all brokers were there."""
    has_full: bool
    """One could if a directory were uncordoned, too."""


class Takers:
    """Which brokers of a cluster can take another replica, and what is to be done first if none can.

    A broker can if it is neither fenced nor in controlled shutdown, and not all its log directories are cordoned. Each
    list is sorted.
    """

    def __init__(self, state: ClusterState) -> None:
        self.away = [broker.id for broker in state.brokers if not broker.is_active]
        """Those that are fenced or in controlled shutdown."""
        self.full = [broker.id for broker in state.brokers if _is_full(broker)]
        """Those, there or not, of which all log directories are cordoned."""
        self._now = [broker.id for broker in state.brokers if broker.is_active and not _is_full(broker)]
        self._spare = [broker.id for broker in state.brokers if not _is_full(broker)]
        self._every = [broker.id for broker in state.brokers]

    def can_take(self, partition: Partition) -> bool:
        """Returns whether a broker that has no replica of this partition can take one now."""
        return _has_other(self._now, partition)

    def room(self, partitions: Iterable[Partition]) -> Room:
        """Returns whether each of these partitions can get another replica, now or later."""
        is_led = has_room = has_spare = has_full = True
        for each in partitions:
            is_led &= each.has_leader
            has_room &= each.has_leader and _has_other(self._now, each)
            has_spare &= _has_other(self._spare, each)
            has_full &= _has_other(self._every, each)
        return Room(is_led=is_led, has_room=has_room, has_spare=has_spare, has_full=has_full)

    def possible(self, room: Room, act: str) -> str:
        """Returns the advice `act`, which needs brokers for other replicas; with what to do first if `room` has none.

        Brokers are to be started if there is no leader to copy from, or if one of them can take the replica. If none of
        all brokers can, a directory is to be uncordoned, or a broker added.
        """
        if room.has_room:
            return act
        steps = []
        if self.away and (not room.is_led or room.has_spare):
            steps.append(f"start {named(self.away)}")
        if not room.has_spare:
            steps.append(f"uncordon a log directory of {named(self.full)}" if room.has_full else "add a broker")
        return f"first {' and '.join(steps) or 'restore its leader'}, then {act}"


@dataclass(frozen=True)
class Missing:
    """Which replicas of a partition are not there, by their brokers, and what an operator should do about it."""

    facts: Facts
    partition: Partition

    @cached_property
    def gone(self) -> set[NodeId]:
        """Replicas on brokers that are fenced, shutting down or not registered."""
        return {each for each in self._away if not self.facts.state.brokers.is_active(each)}

    @cached_property
    def failed(self) -> set[NodeId]:
        """Replicas on brokers that are there, in log directories that are offline. KIP-858."""
        return self._away - self.gone

    @property
    def wanted(self) -> list[NodeId]:
        """The replicas that should be in the ISR: all but those being added (Partition.isUnderReplicated)."""
        return [each for each in self.partition.replicas if each not in self.partition.adding_replicas]

    @property
    def away(self) -> list[NodeId]:
        """The wanted replicas that are gone or failed."""
        return sorted(self._away.intersection(self.wanted))

    @property
    def slow(self) -> list[NodeId]:
        """The wanted replicas that are there and not in sync."""
        return sorted({*self.wanted} - {*self.partition.isr} - self._away)

    @property
    def for_leader(self) -> str:
        """Says what to do so that a partition without a leader gets one, mostly which broker to start.

        Members of the ISR and ELR may lead: one of those whose brokers are gone is to be started; if none is gone, the
        active controller's log says why they cannot lead. Without any member, the last known leader is to be started if
        it is gone: it is elected uncleanly, and may lack records (KIP-966). Else no broker is named.
        """
        clean = list(dict.fromkeys((*self.partition.isr, *self.partition.elr)))
        last = sorted(self.gone.intersection(self.partition.last_known_elr))
        if self._may_lead:
            one_of = "one of the " if len(self._may_lead) > 1 else ""
            return f"start {one_of}{named(self._may_lead)}, which may lead (ISR or ELR)"
        if clean:
            return f"see in the active controller's log why {named(clean)} cannot lead"
        if last:
            return f"start {named(last)}, the last known leader: elected uncleanly, it may lack records"
        return NOBODY

    @property
    def for_replicas(self) -> str:
        """Says what to do so that all replicas are in sync; first that there is a leader."""
        if not self.partition.has_leader:
            return self.for_leader + self._then
        return "; ".join(self._in_sync())

    @property
    def _then(self) -> str:
        """Says which brokers to start after `for_leader`; empty if no more."""
        others = sorted(self.gone.intersection(self.wanted).difference(self._may_lead))
        if others:
            return f"; then start {named(others)}"
        return "; then start the others" if len(self._may_lead) > 1 else ""

    def _in_sync(self) -> Iterator[str]:
        # Without a wanted replica to miss, the ISR waits for one that is being added.
        missing = {*self.wanted} - {*self.partition.isr} or {*self.partition.replicas} - {*self.partition.isr}
        gone, failed = sorted(missing & self.gone), sorted(missing & self.failed)
        slow = sorted(missing - self._away)
        if gone:
            yield f"start {named(gone)}"
        if failed:
            yield f"mend the log directories of {named(failed)}"
        if slow:
            yield f"see why {named(slow)} cannot catch up: disk, network, the load of the leader"

    @cached_property
    def _may_lead(self) -> list[NodeId]:
        return sorted(self.gone.intersection((*self.partition.isr, *self.partition.elr)))

    @cached_property
    def _away(self) -> set[NodeId]:
        partition = self.partition
        return {each for each in partition.replicas if not self.facts.is_there(partition, each)}


def _is_full(broker: Broker) -> bool:
    return bool(broker.log_dirs) and not {*broker.log_dirs}.difference(broker.cordoned_log_dirs or ())


def _has_other(brokers: Collection[NodeId], partition: Partition) -> bool:
    """Whether one of these brokers has no replica of the partition."""
    return any(each not in partition.replicas for each in brokers)
