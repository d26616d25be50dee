"""A rule of the doctor, a finding, the facts, and words that several rules have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final, Generic, TypeVar

from quorate.controller.partitions.broker_changes import is_online
from quorate.doctor.past import Moment, Past
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId
from quorate.records import VotersRecord

__all__ = [
    "DAY_MS",
    "HISTORY_CODES",
    "Facts",
    "Finding",
    "Limits",
    "Rule",
    "Severity",
    "days",
    "findings",
    "listed",
    "named",
    "rounded",
]

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
DAY_MS: Final = 86_400_000
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
    """A finding: its kind, its subject, a sentence and the advice.

    `since` is when it began; None if the past is not known, or no record has it.
    """

    severity: Severity
    code: str
    subject: str
    sentence: str
    advice: str
    since: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[T]):
    """A kind of finding about one thing: when it holds, what it then says and advises, and since when it has held."""

    severity: Severity
    code: str
    holds: Callable[[T], bool]
    sentence: Callable[[T], str]
    advice: str | Callable[[T], str]
    since: Callable[[T], Moment | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The thresholds of the findings."""

    stale_days: float = 7.0
    """Days that a broker may be fenced; one that is fenced for longer will not return by itself."""
    reassignment_hours: float = 24.0
    """Hours that a reassignment may take; one that takes longer may never end."""
    imbalance: float = 0.1
    """Share of a broker's preferred partitions that others lead: Kafka's `leader.imbalance.per.broker.percentage`."""
    flaps: int = 3
    """Fencings within a day from which on a broker is reported as flapping."""
    min_isr: int = MIN_ISR_DEFAULT
    """The assumed `min.insync.replicas` if no record sets it; the brokers' own files are not in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One state, and what the quorum's own records say.

    `now_ms` is the time of the last record, in ms since 1970; None if unknown.
    """

    state: ClusterState
    voters: VotersRecord | None
    kraft_version: int | None
    """None if the quorum's records are not known: then nothing is said of voters, nor of what may be theirs."""
    now_ms: int | None

    elected: Collection[NodeId] = ()
    """The voters of the last election that the log has: those of a quorum without a voter set."""
    limits: Limits = field(default_factory=Limits)
    past: Past = field(default_factory=Past)

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

    def days_since(self, moment: Moment | None) -> float:
        """Returns for how many days something has lasted; 0 if its begin or the present time is not known."""
        if moment is None or moment.time_ms is None or self.now_ms is None:
            return 0.0
        return days(moment.time_ms, self.now_ms)


def findings(about: T, subject: str, rules: Sequence[Rule[T]]) -> Iterator[Finding]:
    """Yields a finding for each rule that holds, in the rules' order."""
    for rule in rules:
        if rule.holds(about):
            yield Finding(
                severity=rule.severity,
                code=rule.code,
                subject=subject,
                sentence=rule.sentence(about),
                advice=rule.advice if isinstance(rule.advice, str) else rule.advice(about),
                since=rule.since(about),
            )


def days(begin_ms: int, end_ms: int) -> float:
    """Returns the days from one time to another, both in ms since 1970; negative if the second one is earlier."""
    return (end_ms - begin_ms) / DAY_MS


def rounded(number: float) -> str:
    """Formats a number with one digit; halves go up, as in SQL.

    >>> rounded(0.25), rounded(31.0)
    ('0.3', '31.0')
    """
    return str(Decimal(repr(number)).quantize(Decimal("0.1"), ROUND_HALF_UP))


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
