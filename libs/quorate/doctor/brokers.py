"""Findings about brokers, registered or not, and about features and the nodes that keep them low."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from quorate.controller.partitions.broker_changes import is_online
from quorate.doctor.rules import Facts, Finding, Rule, Severity, findings, listed
from quorate.metadata.brokers import Broker
from quorate.metadata.features import KRAFT_VERSION
from quorate.metadata.versions import METADATA_VERSION, RELEASES
from quorate.nouns import NodeId, uuid_text

__all__ = ["broker_findings", "feature_findings"]

IMBALANCE = 0.1
"""Kafka's `leader.imbalance.per.broker.percentage`, as a share."""


@dataclass
class _Node:
    """A broker and its replicas; `broker` is None if it is not registered."""

    broker: Broker | None
    others_have_racks: bool = False
    replicas: int = 0
    offline: int = 0
    failed: set[str] = field(default_factory=set)
    preferred: int = 0
    """Partitions that it should lead, and could."""
    elsewhere: int = 0
    """Those of them that others lead."""

    @property
    def cordoned(self) -> Sequence[str]:
        """Its directories that get no new replicas."""
        directories = () if self.broker is None else self.broker.cordoned_log_dirs or ()
        return [uuid_text(each) for each in directories]


BROKER_RULES: Sequence[Rule[_Node]] = (
    Rule(
        severity=Severity.WARN,
        code="FENCED_WITH_REPLICAS",
        holds=lambda node: node.broker is not None and node.broker.fenced and node.replicas > 0,
        sentence=lambda node: f"is fenced and holds {node.replicas} replicas",
        advice="start it, or move its replicas to others: quorate reassign plan --drain",
    ),
    Rule(
        severity=Severity.ERROR,
        code="UNREGISTERED_WITH_REPLICAS",
        holds=lambda node: node.broker is None,
        sentence=lambda node: f"is not registered and holds {node.replicas} replicas",
        advice="start it again under its id, or move its replicas to others",
    ),
    Rule(
        severity=Severity.ERROR,
        code="OFFLINE_DIRECTORY",
        holds=lambda node: node.offline > 0,
        sentence=lambda node: (
            f"has {node.offline} replicas in directories that are offline: {listed(sorted(node.failed))}"
        ),
        advice="mend or replace the disk and restart the broker, or move its replicas to others",
    ),
    Rule(
        severity=Severity.WARN,
        code="NO_RACK",
        holds=lambda node: node.broker is not None and node.broker.rack is None and node.others_have_racks,
        sentence=lambda _: "has no rack, though others have",
        advice="set broker.rack: replicas are not spread over racks that are not known",
    ),
    Rule(
        severity=Severity.INFO,
        code="CORDONED_DIRECTORIES",
        holds=lambda node: bool(node.cordoned),
        sentence=lambda node: f"gets no new replicas in {listed(node.cordoned)}",
        advice="when they are to be used again, delete cordoned.log.dirs, or leave their paths out of it (KIP-1066)",
    ),
    Rule(
        severity=Severity.WARN,
        code="PREFERRED_LEADER_IMBALANCE",
        holds=lambda node: node.elsewhere > node.preferred * IMBALANCE,
        sentence=lambda node: f"{node.elsewhere} of {node.preferred} partitions that it should lead are led by others",
        advice="let auto.leader.rebalance.enable see to it, or run kafka-leader-election --election-type preferred",
    ),
)


def broker_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about brokers that are registered, or have replicas."""
    brokers = facts.state.brokers
    have_racks = any(broker.rack is not None for broker in brokers)
    nodes: defaultdict[NodeId, _Node] = defaultdict(lambda: _Node(None))
    nodes |= {broker.id: _Node(broker, have_racks) for broker in brokers}
    for _, _, partition in facts.state.topics.all():
        for replica in partition.replicas:
            node, directory = nodes[replica], partition.directory_of(replica)
            node.replicas += 1
            if node.broker is not None and not is_online(directory, node.broker):
                node.offline += 1
                node.failed.add(uuid_text(directory))
        if partition.replicas and facts.is_there(partition, partition.preferred_leader):
            node = nodes[partition.preferred_leader]
            node.preferred += 1
            node.elsewhere += partition.has_leader and partition.is_imbalanced
    for broker_id in sorted(nodes):
        yield from findings(nodes[broker_id], f"broker {broker_id}", BROKER_RULES)


@dataclass(frozen=True)
class _Level:
    """A feature's finalized level, and the highest that all nodes support."""

    feature: str
    level: int
    common: int


@dataclass(frozen=True)
class _Range:
    """The levels of a feature that a node supports, and the highest that any does."""

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
        advice="when nobody wants to go back: kafka-features upgrade",
    ),
    Rule(
        severity=Severity.WARN,
        code="KRAFT_VERSION_BEHIND",
        holds=lambda of: of.level < of.common and of.feature == KRAFT_VERSION,
        sentence=lambda of: f"is at {of.level}; all nodes support {of.common}",
        advice=(
            "kafka-features upgrade --feature kraft.version=1: without it no voter can be added or removed (KIP-853)"
        ),
    ),
)
RANGE_RULES: Sequence[Rule[_Range]] = (
    Rule(
        severity=Severity.WARN,
        code="BLOCKS_FEATURE",
        holds=lambda of: of.highest < of.newest,
        sentence=lambda of: f"{of.said}, others up to {_named(of.feature, of.newest)}",
        advice="upgrade its software, or unregister it if it is gone: until then the feature cannot go higher",
    ),
    Rule(
        severity=Severity.ERROR,
        code="FEATURE_NOT_SUPPORTED",
        holds=lambda of: of.level > 0 and not of.lowest <= of.level <= of.highest,
        sentence=lambda of: f"{of.said}, and it is at {_named(of.feature, of.level)}",
        advice="run it with software that supports the level: it cannot take part as it is",
    ),
)


def feature_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about features that could be higher, and the nodes that prevent it. KIP-584."""
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
        yield from findings(_Level(feature, level, min(highest)), f"feature {feature}", LEVEL_RULES)
        for node, (low, high) in ranges.items():
            yield from findings(_Range(feature, level, low, high, max(highest)), node, RANGE_RULES)


def _named(feature: str, level: int) -> str:
    release = RELEASES.get(level) if feature == METADATA_VERSION else None
    return f"{level} ({release})" if release else str(level)
