"""Findings about partitions, and about topics by their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from quorate.doctor.rules import MIN_ISR_DEFAULT, Facts, Finding, Rule, Severity, findings, listed, named
from quorate.metadata.partitions import RECOVERING, Partition
from quorate.metadata.topics import Topic
from quorate.nouns import NodeId

__all__ = ["partition_findings"]

MISSING: Final = (
    "start the brokers that are away, or see why they cannot catch up: disk, network, the load of the leader"
)


@dataclass(frozen=True)
class _One:
    """A partition, with what the rules ask of it."""

    facts: Facts
    topic: str
    partition: Partition

    @property
    def is_short(self) -> bool:
        """Whether a replica is missing in the ISR, without those being added (Partition.isUnderReplicated)."""
        wanted = [each for each in self.partition.replicas if each not in self.partition.adding_replicas]
        return len(self.partition.isr) < len(wanted)

    @property
    def is_small(self) -> bool:
        """Whether it takes no writes with acks=all."""
        isr, replicas = len(self.partition.isr), len(self.partition.replicas)
        return not self.partition.has_leader or isr < min(replicas, self._said or MIN_ISR_DEFAULT)

    @property
    def stuck(self) -> list[NodeId]:
        """The replicas to be added that are not there."""
        return [each for each in self.partition.adding_replicas if not self.facts.is_there(self.partition, each)]

    @property
    def here(self) -> str:
        """The replicas and the ISR."""
        return f"replicas {listed(self.partition.replicas)}; ISR {listed(self.partition.isr)}"

    @property
    def least_isr(self) -> str:
        """min.insync.replicas, and whether it is assumed."""
        assumed = f"{MIN_ISR_DEFAULT} (assumed: no record says it)"
        return f"min.insync.replicas {assumed if self._said is None else self._said}"

    @property
    def _said(self) -> int | None:
        return self.facts.min_isr(self.topic, self.partition.leader)


def _no_leader(one: _One) -> str:
    last = one.partition.last_known_elr[:1]
    was = f", the last was {named(last)}" if last else ""
    return f"has no leader{was}; {one.here}; ELR {listed(one.partition.elr)}"


def _under_min_isr(one: _One) -> str:
    without = "" if one.partition.has_leader else "no leader, so no writes at all; "
    return f"takes no writes with acks=all: {without}{one.here}; {one.least_isr}"


def _elr(one: _One) -> str:
    may_lead = "is" if len(one.partition.elr) == 1 else "are"
    return f"{named(one.partition.elr)} {may_lead} eligible to lead without being in the ISR (KIP-966)"


def _recovering(one: _One) -> str:
    leader = one.partition.leader if one.partition.has_leader else "none"
    return f"has not recovered from an unclean election (KIP-704); leader {leader}"


def _stuck(one: _One) -> str:
    what = f"adding {listed(one.partition.adding_replicas)}, removing {listed(one.partition.removing_replicas)}"
    return f"cannot be reassigned, as brokers {listed(one.stuck)} are not there: {what}"


PARTITION_RULES: Sequence[Rule[_One]] = (
    Rule(
        severity=Severity.ERROR,
        code="NO_LEADER",
        holds=lambda one: not one.partition.has_leader,
        sentence=_no_leader,
        advice="start a broker of the ISR or the ELR: another may lack records, and needs an unclean election",
    ),
    Rule(
        severity=Severity.ERROR,
        code="UNDER_MIN_ISR",
        holds=lambda one: one.is_small,
        sentence=_under_min_isr,
        advice=MISSING,
    ),
    Rule(
        severity=Severity.WARN,
        code="UNDER_REPLICATED",
        holds=lambda one: one.is_short,
        sentence=lambda one: f"has a replica that is not in the ISR: {one.here}",
        advice=MISSING,
    ),
    Rule(
        severity=Severity.INFO,
        code="ELR_NOT_EMPTY",
        holds=lambda one: bool(one.partition.elr),
        sentence=_elr,
        advice="do not wipe the logs of the ELR's members: each has every committed record that was not lost before",
    ),
    Rule(
        severity=Severity.WARN,
        code="RECOVERING",
        holds=lambda one: one.partition.leader_recovery_state == RECOVERING,
        sentence=_recovering,
        advice="records may be lost; it recovers when its leader changes the ISR: see why none joins it",
    ),
    Rule(
        severity=Severity.ERROR,
        code="REASSIGNMENT_STUCK",
        holds=lambda one: bool(one.stuck),
        sentence=_stuck,
        advice="start those brokers, or cancel: kafka-reassign-partitions --cancel",
    ),
)


@dataclass(frozen=True)
class _Topic:
    """A topic, with what the rules ask of it. `rack_count` is how many racks there are."""

    facts: Facts
    topic: Topic
    rack_count: int

    @cached_property
    def single(self) -> int:
        """How many partitions have one replica."""
        return sum(len(each.replicas) == 1 for each in self.topic.partitions.values())

    @cached_property
    def replica_count(self) -> int:
        """The fewest replicas of a partition."""
        return min(len(each.replicas) for each in self.topic.partitions.values())

    @property
    def min_isr(self) -> int:
        """min.insync.replicas."""
        said = self.facts.min_isr(self.topic.name)
        return MIN_ISR_DEFAULT if said is None else said

    @cached_property
    def crowded(self) -> list[int]:
        """Of partitions on fewer racks than can be: on how many each is. One of an unknown rack is not among them."""
        found = []
        for each in self.topic.partitions.values():
            racks = [self._rack(replica) for replica in each.replicas]
            count = len(set(racks))
            if None not in racks and self.rack_count > 1 and count < min(len(racks), self.rack_count):
                found.append(count)
        return found

    def _rack(self, broker_id: NodeId) -> str | None:
        broker = self.facts.state.brokers.get(broker_id)
        return None if broker is None else broker.rack


def _one_replica(of: _Topic) -> str:
    if len(of.topic.partitions) == 1:
        return "its only partition has one replica"
    has = "has" if of.single == 1 else "have"
    return f"{of.single} of {len(of.topic.partitions)} partitions {has} one replica"


def _crowded(of: _Topic) -> str:
    counts = f"{len(of.crowded)} of {len(of.topic.partitions)} partitions are on fewer racks than there are"
    return f"{counts}, {of.crowded.count(1)} of them on a single one"


TOPIC_RULES: Sequence[Rule[_Topic]] = (
    Rule(
        severity=Severity.WARN,
        code="ONE_REPLICA",
        holds=lambda of: of.single > 0,
        sentence=_one_replica,
        advice="add replicas: without its broker a partition is offline, without its disk it is lost",
    ),
    Rule(
        severity=Severity.WARN,
        code="MIN_ISR_ABOVE_REPLICAS",
        holds=lambda of: of.min_isr > of.replica_count,
        sentence=lambda of: f"min.insync.replicas is {of.min_isr}, and there are {of.replica_count} replicas",
        advice="lower min.insync.replicas, or add replicas: as it is, every replica must be in sync",
    ),
    Rule(
        severity=Severity.WARN,
        code="MIN_ISR_EQUALS_REPLICAS",
        holds=lambda of: of.min_isr == of.replica_count > 1,
        sentence=lambda of: f"min.insync.replicas is {of.min_isr}, and so is the number of replicas",
        advice=(
            "lower min.insync.replicas, or add a replica: as it is, any one broker's restart stops writes with acks=all"
        ),
    ),
    Rule(
        severity=Severity.WARN,
        code="UNCLEAN_ELECTION_ENABLED",
        holds=lambda of: of.facts.elects_uncleanly(of.topic.name),
        sentence=lambda _: "unclean.leader.election.enable is true",
        advice="set it to false, unless being there matters more than what was written",
    ),
    Rule(
        severity=Severity.WARN,
        code="RACK_VIOLATION",
        holds=lambda of: bool(of.crowded),
        sentence=_crowded,
        advice="reassign the replicas: the loss of one rack takes more of them than it must",
    ),
)


def partition_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about partitions and topics."""
    rack_count = len({broker.rack for broker in facts.state.brokers if broker.rack is not None})
    for topic in facts.state.topics:
        for partition_id, partition in topic.partitions.items():
            if _is_sound(partition):
                continue
            subject = f"partition {topic.name}-{partition_id}"
            yield from findings(_One(facts, topic.name, partition), subject, PARTITION_RULES)
        if topic.partitions:
            yield from findings(_Topic(facts, topic, rack_count), f"topic {topic.name}", TOPIC_RULES)


def _is_sound(partition: Partition) -> bool:
    """Whether no rule of a partition can hold, as of nearly all in a large cluster: to ask each costs time."""
    is_whole = partition.has_leader and len(partition.isr) == len(partition.replicas)
    is_still = not (partition.elr or partition.adding_replicas)
    return is_whole and is_still and partition.leader_recovery_state != RECOVERING
