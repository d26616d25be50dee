"""A rule of the doctor, a finding, the facts, and words that several rules have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from quorate.controller.partitions.broker_changes import is_online
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId
from quorate.records import VotersRecord

__all__ = ["HISTORY_CODES", "Facts", "Finding", "Rule", "Severity", "findings", "listed", "named"]

T = TypeVar("T")

HISTORY_CODES: Final = (
    "CONTROLLER_SILENT",
    "DEPOSED_RECORDS",
    "FLAPPING",
    "REASSIGNMENT_SLOW",
    "STALE_REGISTRATION",
    "UNCLEAN_ELECTION",
)
"""Findings of the pipeline's doctor that take the history: one state does not have them."""
BROKERS_MAX: Final = 10
"""Most brokers that a text names."""
MIN_ISR: Final = "min.insync.replicas"
MIN_ISR_DEFAULT: Final = 1
"""Kafka's, assumed where no record sets it."""
UNCLEAN: Final = "unclean.leader.election.enable"


class Severity(StrEnum):
    """How bad it is, the worst first."""

    ERROR = "error"
    """Something does not work."""
    WARN = "warn"
    """It will not work after the next failure or upgrade."""
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found: the kind of finding, what it is about, a sentence and what to do."""

    severity: Severity
    code: str
    subject: str
    sentence: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[T]):
    """A kind of finding about one thing: when it holds, and what it then says."""

    severity: Severity
    code: str
    holds: Callable[[T], bool]
    sentence: Callable[[T], str]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One state, and what the quorum's own records say. `now_ms` is the time of the last record; None if unknown."""

    state: ClusterState
    voters: VotersRecord | None
    kraft_version: int | None
    """None if the quorum's records are not known: then nothing is said of voters, nor of what may be theirs."""
    now_ms: int | None

    elected: Collection[NodeId] = ()
    """The voters of the last election that the log has: those of a quorum without a voter set."""

    def elects_uncleanly(self, topic: str) -> bool:
        """Whether unclean.leader.election.enable is true for a topic, by its config, or else that of all brokers."""
        configs = self.state.configs
        value = configs.get(TOPIC, topic, UNCLEAN) or configs.get(BROKER, "", UNCLEAN) or ""
        return value.lower() == "true"

    def min_isr(self, topic: str, leader: NodeId | None = None) -> int | None:
        """Returns min.insync.replicas: the topic's, else the leader's own (KIP-226), else that of all brokers.

        None if no record sets it to a number.
        """
        configs = self.state.configs
        said = [configs.get(TOPIC, topic, MIN_ISR)]
        said += [] if leader is None else [configs.get(BROKER, str(leader), MIN_ISR)]
        for value in (*said, configs.get(BROKER, "", MIN_ISR)):
            if value is not None and value.strip().isdecimal():
                return int(value)
        return None

    def is_there(self, partition: Partition, broker_id: NodeId) -> bool:
        """Whether a replica may lead as far as its broker and its directory are concerned. KIP-631, KIP-858."""
        broker = self.state.brokers.get(broker_id)
        return broker is not None and broker.is_active and is_online(partition.directory_of(broker_id), broker)


def findings(about: T, subject: str, rules: Sequence[Rule[T]]) -> Iterator[Finding]:
    """Yields a finding for each rule that holds, in the rules' order."""
    for rule in rules:
        if rule.holds(about):
            yield Finding(
                severity=rule.severity,
                code=rule.code,
                subject=subject,
                sentence=rule.sentence(about),
                advice=rule.advice,
            )


def listed(items: Iterable[object]) -> str:
    """Joins items with commas; `none` if there are none."""
    return ",".join(map(str, items)) or "none"


def named(ids: Sequence[NodeId]) -> str:
    """Names brokers: `broker 4`, `brokers 4,5`, or the first of them and how many more there are.

    >>> named([4]), named([4, 5]), named(range(12))
    ('broker 4', 'brokers 4,5', 'brokers 0,1,2,3,4,5,6,7,8,9 and 2 more')
    """
    more = f" and {len(ids) - BROKERS_MAX} more" if len(ids) > BROKERS_MAX else ""
    return f"broker{'s' * (len(ids) != 1)} {listed(ids[:BROKERS_MAX])}{more}"
