"""Findings about partitions, and about topics by their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from quorate.doctor.advice import Missing, Takers
from quorate.doctor.census import Census, TopicCount
from quorate.doctor.past import Condition, Moment, PartitionPast, shown
from quorate.doctor.rules import Facts, Finding, Rule, Severity, findings, listed, named, rounded
from quorate.metadata.partitions import RECOVERING, Partition
from quorate.metadata.topics import Topic
from quorate.nouns import NodeId

__all__ = ["Standing", "partition_findings"]

CANCEL: Final = "cancel: kafka-reassign-partitions --cancel; if that is refused, name other replicas"


@dataclass(frozen=True)
class Standing:
    """A partition in its state, with the answers to what the rules ask of it, and words for their sentences."""

    facts: Facts
    topic: Topic
    partition_id: int
    partition: Partition

    @property
    def subject(self) -> str:
        """Its name in findings."""
        return f"partition {self.topic.name}-{self.partition_id}"

    def since(self, condition: Condition) -> Moment | None:
        """Returns since when this condition of the partition has held; None if that is not known."""
        return self.facts.past.since(condition, self.subject)

    @cached_property
    def past(self) -> PartitionPast:
        """The facts of its history."""
        return self.facts.past.partition(self.topic.id, self.partition_id)

    @cached_property
    def missing(self) -> Missing:
        """Its replicas that are not there."""
        return Missing(self.facts, self.partition)

    @property
    def is_short(self) -> bool:
        """Whether a replica is missing in the ISR, without those being added (Partition.isUnderReplicated)."""
        return len(self.partition.isr) < len(self.missing.wanted)

    @property
    def is_small(self) -> bool:
        """Whether it is under min ISR, or has no leader: a produce request with acks=all is refused.

        This is the rule of `kafka-topics --under-min-isr-partitions`. A min.insync.replicas above the number of
        replicas counts as that number.
        """
        isr, replicas = len(self.partition.isr), len(self.partition.replicas)
        return not self.partition.has_leader or isr < min(replicas, self._min_isr)

    @property
    def stuck(self) -> list[NodeId]:
        """The replicas that the reassignment waits for and that are not there, nor in the ISR. KIP-455.

        These are those to be added, or all that stay if more are removed. A log may have others, too, that are no
        replicas at all.
        """
        of = self.partition
        needed: Sequence[NodeId] = of.adding_replicas
        if len(of.removing_replicas) > len(needed):
            needed = [each for each in of.replicas if each not in of.removing_replicas]
        away = (self.missing.gone | self.missing.failed) - {*of.isr}
        return [each for each in needed if each in away]

    @property
    def days_moving(self) -> float:
        """For how many days it has been reassigned, as far as that is known."""
        return self.facts.days_since(self.since(Condition.MOVING)) if self.partition.is_reassigning else 0.0

    @property
    def here(self) -> str:
        """Words for its replicas and its ISR, and for the ISR before that if it is known."""
        past = self.past
        was = "" if past.isr_was is None else f", until {shown(past.isr_changed_ms)} it was {listed(past.isr_was)}"
        return f"replicas {listed(self.partition.replicas)}; ISR {listed(self.partition.isr)}{was}"

    @property
    def move(self) -> str:
        """Words for its reassignment: which replicas it adds and removes."""
        return f"adding {listed(self.partition.adding_replicas)}, removing {listed(self.partition.removing_replicas)}"

    @property
    def least_isr(self) -> str:
        """Words for its min.insync.replicas, and whether that is assumed."""
        assumed = " (assumed: no record says it)" if self._said is None else ""
        return f"min.insync.replicas {self._min_isr}{assumed}"

    @property
    def _min_isr(self) -> int:
        return self.facts.limits.min_isr if self._said is None else self._said

    @cached_property
    def _said(self) -> int | None:
        return self.facts.min_isr(self.topic.name, self.partition.leader)


def _no_leader(one: Standing) -> str:
    last = one.partition.last_known_elr[:1] if one.past.last_leader is None else (one.past.last_leader,)
    was = f", the last was {named(last)}" if last else ""
    return f"has no leader{was}; {one.here}; ELR {listed(one.partition.elr)}"


def _under_min_isr(one: Standing) -> str:
    without = "" if one.partition.has_leader else "no leader, so no writes at all; "
    return f"takes no writes with acks=all: {without}{one.here}; {one.least_isr}"


def _elr(one: Standing) -> str:
    may_lead = "is" if len(one.partition.elr) == 1 else "are"
    return f"{named(one.partition.elr)} {may_lead} eligible to lead without being in the ISR (KIP-966)"


def _recovering(one: Standing) -> str:
    leader = one.partition.leader if one.partition.has_leader else "none"
    return f"has not recovered from an unclean election (KIP-704); leader {leader}"


def _recovers(one: Standing) -> str:
    if not one.partition.has_leader:
        return "records may be lost; it recovers when it has a leader that changes the ISR"
    return "records may be lost; it recovers when its leader changes the ISR: see why none joins it"


def _was_unclean(one: Standing) -> str:
    was = one.past.unclean
    assert was is not None, "the rule holds"
    how = f"the last of {was.count} unclean elections" if was.count > 1 else "an unclean election"
    led = f"was led by broker {was.leader} from {shown(was.at.time_ms)} on"
    return f"{led}, elected in {how}, and has recovered since: records may be lost"


PARTITION_RULES: Sequence[Rule[Standing]] = (
    Rule(
        severity=Severity.ERROR,
        code="NO_LEADER",
        holds=lambda one: not one.partition.has_leader,
        sentence=_no_leader,
        advice=lambda one: one.missing.for_leader,
        since=lambda one: one.since(Condition.NO_LEADER),
    ),
    Rule(
        severity=Severity.ERROR,
        code="UNDER_MIN_ISR",
        holds=lambda one: one.is_small,
        sentence=_under_min_isr,
        advice=lambda one: one.missing.for_replicas,
        since=lambda one: one.since(Condition.UNDER_MIN_ISR),
    ),
    Rule(
        severity=Severity.WARN,
        code="UNDER_REPLICATED",
        holds=lambda one: one.is_short,
        sentence=lambda one: f"has a replica that is not in the ISR: {one.here}",
        advice=lambda one: one.missing.for_replicas,
        since=lambda one: one.since(Condition.UNDER_REPLICATED),
    ),
    Rule(
        severity=Severity.INFO,
        code="ELR_NOT_EMPTY",
        holds=lambda one: bool(one.partition.elr),
        sentence=_elr,
        advice="do not wipe the logs of the ELR's members: each has every committed record that was not lost before",
        since=lambda one: one.since(Condition.ELR),
    ),
    Rule(
        severity=Severity.WARN,
        code="RECOVERING",
        holds=lambda one: one.partition.leader_recovery_state == RECOVERING,
        sentence=_recovering,
        advice=_recovers,
        since=lambda one: one.since(Condition.RECOVERING),
    ),
    Rule(
        severity=Severity.WARN,
        code="UNCLEAN_ELECTION",
        holds=lambda one: one.past.unclean is not None and one.partition.leader_recovery_state != RECOVERING,
        sentence=_was_unclean,
        advice=(
            "what that leader lacked is in no replica now: compare what producers wrote before that time with what"
            " consumers read, and let them write again what is missing"
        ),
        since=lambda one: None if one.past.unclean is None else one.past.unclean.at,
    ),
    Rule(
        severity=Severity.WARN,
        code="REASSIGNMENT_SLOW",
        holds=lambda one: one.days_moving * 24 > one.facts.limits.reassignment_hours,
        sentence=lambda one: f"has been reassigned for {rounded(one.days_moving * 24)} hours: {one.move}",
        advice=f"see whether the new replicas catch up (a throttle?), or {CANCEL}",
        since=lambda one: one.since(Condition.MOVING),
    ),
    Rule(
        severity=Severity.ERROR,
        code="REASSIGNMENT_STUCK",
        holds=lambda one: bool(one.stuck),
        sentence=lambda one: f"cannot be reassigned, as brokers {listed(one.stuck)} are not there: {one.move}",
        advice=f"start those brokers, or {CANCEL}",
        since=lambda one: one.since(Condition.MOVING),
    ),
)


@dataclass(frozen=True)
class _Topic:
    """A topic, with what the rules ask of it."""

    facts: Facts
    counted: TopicCount
    takers: Takers

    @property
    def topic(self) -> Topic:
        """The topic itself."""
        return self.counted.topic

    def since(self, condition: Condition) -> Moment | None:
        """Returns since when this condition has held of the topic, or of one of its partitions; None if not known."""
        return self.facts.past.since(condition, f"topic {self.topic.name}")

    @cached_property
    def min_isr(self) -> int:
        """min.insync.replicas."""
        said = self.facts.min_isr(self.topic.name)
        return self.facts.limits.min_isr if said is None else said

    def possible(self, act: str) -> str:
        """Advises an act that needs a broker for another replica of each partition."""
        return self.takers.possible(self.takers.room(each for _, each in self.topic.pairs()), act)

    def lower_or(self, act: str) -> str:
        """Advises to lower min.insync.replicas, or this act."""
        is_led = all(each.has_leader for _, each in self.topic.pairs())
        # KIP-966: a changed min.insync.replicas empties the ELR, from which partitions without a leader would get one.
        when = "" if is_led else ", once every partition has a leader (it empties the ELR)"
        return f"lower min.insync.replicas{when}, or {self.possible(act)}"

    @property
    def add_replicas(self) -> str:
        """Advises on the partitions with one replica."""
        single = (each for _, each in self.topic.pairs() if len(each.replicas) == 1)
        why = "without its broker a partition is offline, without its disk it is lost"
        return self.takers.possible(self.takers.room(single), f"add replicas: {why}")


def _one_replica(of: _Topic) -> str:
    if len(of.topic.partitions) == 1:
        return "its only partition has one replica"
    has = "has" if of.counted.single == 1 else "have"
    return f"{of.counted.single} of {len(of.topic.partitions)} partitions {has} one replica"


def _crowded(of: _Topic) -> str:
    crowded = of.counted.crowded
    counts = f"{len(crowded)} of {len(of.topic.partitions)} partitions are on fewer racks than there are"
    return f"{counts}, {crowded.count(1)} of them on a single one"


TOPIC_RULES: Sequence[Rule[_Topic]] = (
    Rule(
        severity=Severity.WARN,
        code="ONE_REPLICA",
        holds=lambda of: of.counted.single > 0,
        sentence=_one_replica,
        advice=lambda of: of.add_replicas,
        since=lambda of: of.since(Condition.ONE_REPLICA),
    ),
    Rule(
        severity=Severity.WARN,
        code="MIN_ISR_ABOVE_REPLICAS",
        holds=lambda of: of.min_isr > of.counted.fewest,
        sentence=lambda of: f"min.insync.replicas is {of.min_isr}, and there are {of.counted.fewest} replicas",
        advice=lambda of: of.lower_or("add replicas: as it is, every replica must be in sync"),
        since=lambda of: of.since(Condition.MIN_ISR_ABOVE),
    ),
    Rule(
        severity=Severity.WARN,
        code="MIN_ISR_EQUALS_REPLICAS",
        holds=lambda of: of.min_isr == of.counted.fewest > 1,
        sentence=lambda of: f"min.insync.replicas is {of.min_isr}, and so is the number of replicas",
        advice=lambda of: of.lower_or("add a replica: as it is, any one broker's restart stops writes with acks=all"),
        since=lambda of: of.since(Condition.MIN_ISR_EQUALS),
    ),
    Rule(
        severity=Severity.WARN,
        code="UNCLEAN_ELECTION_ENABLED",
        holds=lambda of: of.facts.elects_uncleanly(of.topic.name),
        sentence=lambda _: "unclean.leader.election.enable is true",
        advice="set it to false, unless being there matters more than what was written",
        since=lambda of: of.since(Condition.ELECTS_UNCLEANLY),
    ),
    Rule(
        severity=Severity.WARN,
        code="RACK_VIOLATION",
        holds=lambda of: bool(of.counted.crowded),
        sentence=_crowded,
        advice=lambda of: of.possible("reassign the replicas: the loss of one rack takes more of them than it must"),
        since=lambda of: of.since(Condition.CROWDED),
    ),
)


def partition_findings(facts: Facts, takers: Takers, census: Census) -> Iterator[Finding]:
    """Yields the findings about partitions and topics."""
    were_unclean = {key for key, past in facts.past.partitions.items() if past.unclean is not None}
    for counted in census.topics:
        topic = counted.topic
        asked = counted.unsound
        if were_unclean:
            unsound = {partition_id for partition_id, _ in asked}
            asked = [
                (partition_id, each)
                for partition_id, each in topic.pairs()
                if partition_id in unsound or (topic.id, partition_id) in were_unclean
            ]
        for partition_id, partition in asked:
            one = Standing(facts, topic, partition_id, partition)
            yield from findings(one, one.subject, PARTITION_RULES)
        yield from findings(_Topic(facts, counted, takers), f"topic {topic.name}", TOPIC_RULES)
