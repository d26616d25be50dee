"""Findings about brokers, registered or not, and about features and the nodes that keep them low."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from quorate.controller.partitions.broker_changes import is_online
from quorate.doctor.advice import Takers
from quorate.doctor.census import Census
from quorate.doctor.past import Condition, Moment
from quorate.doctor.rules import Facts, Finding, Rule, Severity, findings, listed, rounded
from quorate.metadata.brokers import Broker
from quorate.metadata.features import KRAFT_VERSION
from quorate.metadata.versions import METADATA_VERSION, RELEASES
from quorate.nouns import NodeId, Offset, uuid_text

__all__ = ["broker_findings", "feature_findings"]


@dataclass
class _Node:
    """A broker and its replicas; `broker` is None if it is not registered."""

    facts: Facts
    id: NodeId
    broker: Broker | None
    others_have_racks: bool = False
    replicas: int = 0
    offline: int = 0
    failed: set[str] = field(default_factory=set)
    preferred: int = 0
    """Partitions that it should lead, and could."""
    elsewhere: list[str] = field(default_factory=list)
    """The subjects of those of them that others lead."""
    are_led: bool = True
    """Whether each of its replicas is of a partition with a leader to copy from."""
    have_takers: bool = True
    """Whether another broker can take each of its replicas."""

    @property
    def subject(self) -> str:
        """Its name in findings."""
        return f"broker {self.id}"

    def since(self, condition: Condition) -> Moment | None:
        """Returns since when this condition of the broker has held; None if that is not known."""
        return self.facts.past.since(condition, self.subject)

    @property
    def is_fenced(self) -> bool:
        """Whether it is registered, and fenced."""
        return self.broker is not None and self.broker.fenced

    @property
    def is_in_trouble(self) -> bool:
        """Whether a rule may advise to move its replicas."""
        return self.broker is None or self.broker.fenced or self.offline > 0

    @property
    def days_fenced(self) -> float:
        """For how many days it has been fenced, as far as that is known."""
        return self.facts.days_since(self.since(Condition.FENCED)) if self.is_fenced else 0.0

    @property
    def imbalanced_since(self) -> Moment | None:
        """When the limit was passed, with the first partition that is too many of those that others lead now."""
        moved = [self.facts.past.since(Condition.LED_BY_ANOTHER, each) for each in self.elsewhere]
        known = sorted((each for each in moved if each is not None), key=_order)
        place = math.floor(self.preferred * self.facts.limits.imbalance)
        return known[place] if place < len(known) else None

    @property
    def cordoned(self) -> Sequence[str]:
        """Its directories that get no new replicas."""
        directories = () if self.broker is None else self.broker.cordoned_log_dirs or ()
        return [uuid_text(each) for each in directories]

    def start_or_move(self, start: str) -> str:
        """Advises to start it, or to move its replicas if each can be copied and another broker can take it."""
        if self.are_led and self.have_takers:
            return f"{start}, or move its replicas to others"
        return f"{start}: {self._why_not_moved}, so they cannot be moved now"

    @property
    def retire(self) -> str:
        """Advises on a broker that may never come back: its replicas must be elsewhere before it is unregistered."""
        if self.replicas and not (self.are_led and self.have_takers):
            return f"start it: {self._why_not_moved}, so it cannot be unregistered now"
        leave = "move its replicas and unregister it" if self.replicas else "unregister it"
        return f"if it is not to come back, {leave}: it still counts for features"

    @property
    def _why_not_moved(self) -> str:
        if self.are_led:
            return "no other broker can take all its replicas"
        return "some of its replicas are of partitions that have no leader to copy them from"


def _order(moment: Moment) -> tuple[Offset, int]:
    return moment.offset, -1 if moment.time_ms is None else moment.time_ms


BROKER_RULES: Sequence[Rule[_Node]] = (
    Rule(
        severity=Severity.WARN,
        code="STALE_REGISTRATION",
        holds=lambda node: node.days_fenced > node.facts.limits.stale_days,
        sentence=lambda node: f"has been fenced for {rounded(node.days_fenced)} days",
        advice=lambda node: node.retire,
        since=lambda node: node.since(Condition.FENCED),
    ),
    Rule(
        severity=Severity.WARN,
        code="FENCED_WITH_REPLICAS",
        holds=lambda node: node.is_fenced and node.replicas > 0,
        sentence=lambda node: f"is fenced and holds {node.replicas} replicas",
        advice=lambda node: node.start_or_move("start it"),
        since=lambda node: node.since(Condition.FENCED),
    ),
    Rule(
        severity=Severity.ERROR,
        code="UNREGISTERED_WITH_REPLICAS",
        holds=lambda node: node.broker is None,
        sentence=lambda node: f"is not registered and holds {node.replicas} replicas",
        advice=lambda node: node.start_or_move("start it again under its id"),
        since=lambda node: node.since(Condition.UNREGISTERED),
    ),
    Rule(
        severity=Severity.ERROR,
        code="OFFLINE_DIRECTORY",
        holds=lambda node: node.offline > 0,
        sentence=lambda node: (
            f"has {node.offline} replicas in directories that are offline: {listed(sorted(node.failed))}"
        ),
        advice=lambda node: node.start_or_move("mend or replace the disk and restart the broker"),
        since=lambda node: node.since(Condition.DIRECTORIES),
    ),
    Rule(
        severity=Severity.WARN,
        code="FLAPPING",
        holds=lambda node: node.facts.past.broker(node.id).fencings >= node.facts.limits.flaps,
        sentence=lambda node: f"was fenced {node.facts.past.broker(node.id).fencings} times within a day",
        advice="see its garbage collections, its network and broker.session.timeout.ms",
        since=lambda node: node.since(Condition.FLAPPING),
    ),
    Rule(
        severity=Severity.WARN,
        code="NO_RACK",
        holds=lambda node: node.broker is not None and node.broker.rack is None and node.others_have_racks,
        sentence=lambda _: "has no rack, though others have",
        advice="set broker.rack: replicas are not spread over racks that are not known",
        since=lambda node: node.since(Condition.NO_RACK),
    ),
    Rule(
        severity=Severity.INFO,
        code="CORDONED_DIRECTORIES",
        holds=lambda node: bool(node.cordoned),
        sentence=lambda node: f"gets no new replicas in {listed(node.cordoned)}",
        advice="when they are to be used again, delete cordoned.log.dirs, or leave their paths out of it (KIP-1066)",
        since=lambda node: node.since(Condition.CORDONED),
    ),
    Rule(
        severity=Severity.WARN,
        code="PREFERRED_LEADER_IMBALANCE",
        holds=lambda node: len(node.elsewhere) > node.preferred * node.facts.limits.imbalance,
        sentence=lambda node: (
            f"{len(node.elsewhere)} of {node.preferred} partitions that it should lead are led by others"
        ),
        advice="let auto.leader.rebalance.enable see to it, or run kafka-leader-election --election-type preferred",
        since=lambda node: node.imbalanced_since,
    ),
)


def broker_findings(facts: Facts, takers: Takers, census: Census) -> Iterator[Finding]:
    """Yields the findings about brokers that are registered, or have replicas."""
    nodes = _nodes(facts, census)
    in_trouble = {broker_id for broker_id, node in nodes.items() if node.is_in_trouble}
    for counted in census.topics if in_trouble else ():
        for _, partition in counted.topic.pairs():
            if in_trouble.isdisjoint(partition.replicas):
                continue
            for broker_id in in_trouble.intersection(partition.replicas):
                nodes[broker_id].are_led &= partition.has_leader
                nodes[broker_id].have_takers &= takers.can_take(partition)
    for broker_id in sorted(nodes):
        yield from findings(nodes[broker_id], nodes[broker_id].subject, BROKER_RULES)


def _nodes(facts: Facts, census: Census) -> dict[NodeId, _Node]:
    """Returns the brokers with the counts of their replicas."""
    brokers = facts.state.brokers
    have_racks = any(broker.rack is not None for broker in brokers)
    nodes = {broker.id: _Node(facts, broker.id, broker, have_racks) for broker in brokers}
    for (replica, directory), count in census.replicas.items():
        node = nodes.get(replica)
        if node is None:
            node = nodes[replica] = _Node(facts, replica, None)
        node.replicas += count
        if node.broker is not None and not is_online(directory, node.broker):
            node.offline += count
            node.failed.add(uuid_text(directory))
    for (replica, directory), count in census.preferred.items():
        broker = nodes[replica].broker
        if broker is not None and broker.is_active and is_online(directory, broker):
            nodes[replica].preferred += count
    for topic, partition_id, partition in facts.state.topics.imbalanced():
        # One without replicas counts as imbalanced, too.
        if partition.has_leader and partition.replicas and facts.is_there(partition, partition.preferred_leader):
            nodes[partition.preferred_leader].elsewhere.append(f"partition {topic.name}-{partition_id}")
    return nodes


@dataclass(frozen=True)
class _Level:
    """A feature's finalized level, and the highest that all nodes support."""

    since: Moment | None
    feature: str
    level: int
    common: int


@dataclass(frozen=True)
class _Range:
    """The levels of a feature that a node supports, and the highest that any does."""

    since: Moment | None
    feature: str
    level: int
    lowest: int
    highest: int
    newest: int

    @property
    def said(self) -> str:
        """The range, in words."""
        lowest, highest = (_named(self.feature, each) for each in (self.lowest, self.highest))
        return f"supports {self.feature} from {lowest} to {highest}"


LEVEL_RULES: Sequence[Rule[_Level]] = (
    Rule(
        severity=Severity.INFO,
        code="FEATURE_BEHIND",
        holds=lambda of: of.level < of.common and of.feature != KRAFT_VERSION,
        sentence=lambda of: f"is at {_named(of.feature, of.level)}; all nodes support {_named(of.feature, of.common)}",
        advice=(
            "when nobody wants to go back: quorate features upgrade, or kafka-features.sh --bootstrap-server HOST:PORT "
            "upgrade --release-version RELEASE"
        ),
        since=lambda of: of.since,
    ),
    Rule(
        severity=Severity.WARN,
        code="KRAFT_VERSION_BEHIND",
        holds=lambda of: of.level < of.common and of.feature == KRAFT_VERSION,
        sentence=lambda of: f"is at {of.level}; all nodes support {of.common}",
        advice=(
            "kafka-features.sh --bootstrap-controller HOST:PORT upgrade --feature kraft.version=1: "
            "without it no voter can be added or removed (KIP-853)"
        ),
        since=lambda of: of.since,
    ),
)
RANGE_RULES: Sequence[Rule[_Range]] = (
    Rule(
        severity=Severity.WARN,
        code="BLOCKS_FEATURE",
        holds=lambda of: of.highest < of.newest,
        sentence=lambda of: f"{of.said}, others up to {_named(of.feature, of.newest)}",
        advice="upgrade its software, or unregister it if it is gone: until then the feature cannot go higher",
        since=lambda of: of.since,
    ),
    Rule(
        severity=Severity.ERROR,
        code="FEATURE_NOT_SUPPORTED",
        holds=lambda of: of.level > 0 and not of.lowest <= of.level <= of.highest,
        sentence=lambda of: f"{of.said}, and it is at {_named(of.feature, of.level)}",
        advice="run it with software that supports the level: it cannot take part as it is",
        since=lambda of: of.since,
    ),
)


def feature_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about features that could be higher, and about the nodes that prevent it. KIP-584.

    Also about nodes that do not support the finalized level.
    """
    nodes: dict[str, dict[str, tuple[int, int]]] = {}
    for broker in facts.state.brokers:
        nodes[f"broker {broker.id}"] = {
            each.name: (each.min_supported_version, each.max_supported_version) for each in broker.features
        }
    for controller in facts.state.controllers:
        nodes[f"controller {controller.controller_id}"] = {
            each.name: (each.min_supported_version, each.max_supported_version) for each in controller.features
        }
    levels = {**facts.state.features.finalized(), KRAFT_VERSION: facts.kraft_version or 0}
    unknown = {KRAFT_VERSION} if facts.kraft_version is None else set()
    for feature in sorted({name for ranges in nodes.values() for name in ranges} - unknown):
        ranges = {node: found.get(feature, (0, 0)) for node, found in nodes.items()}
        level, highest = levels.get(feature, 0), [each for _, each in ranges.values()]
        since = facts.past.since(Condition.LEVEL, f"feature {feature}")
        yield from findings(_Level(since, feature, level, min(highest)), f"feature {feature}", LEVEL_RULES)
        for node, (low, high) in ranges.items():
            yield from findings(_Range(since, feature, level, low, high, max(highest)), node, RANGE_RULES)


def _named(feature: str, level: int) -> str:
    release = RELEASES.get(level) if feature == METADATA_VERSION else None
    return f"{level} ({release})" if release else str(level)
