"""Groups the findings about partitions by cause: which brokers are missing, since when, and which of them to start.

One lost broker makes hundreds of findings but is one cause. Partitions with the same harm and the same missing brokers
are one cause.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.doctor.partitions import Standing
from quorate.doctor.past import BrokerPast, Moment, Past
from quorate.doctor.rules import Facts, Severity, listed
from quorate.metadata.topics import Topic
from quorate.nouns import NodeId

__all__ = ["Cause", "causes"]

WHAT: Final = {
    "NO_LEADER": "without a leader",
    "UNDER_MIN_ISR": "with a leader and under min.insync.replicas",
    "UNDER_REPLICATED": "with a replica that is not in the ISR",
}
"""The text about the partitions of each code."""
TOPICS_MAX: Final = 5
"""Most topics that one sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Partitions with one harm and one cause, in words.

    `since` is when the last of the missing brokers went away; None if that is not known of each of them.
    """

    severity: Severity
    code: str
    partitions: int
    sentence: str
    advice: str
    since: Moment | None


class _Group(NamedTuple):
    code: str
    away: tuple[NodeId, ...]
    slow: tuple[NodeId, ...]
    advice: str


def causes(facts: Facts) -> list[Cause]:
    """Returns the causes of what is wrong with partitions, in no order; each stands for all partitions that it harms.

    `facts.past` says when and how the missing brokers went away.
    """
    hit: defaultdict[_Group, Counter[str]] = defaultdict(Counter)
    sizes: dict[str, int] = {}
    for topic in facts.state.topics:
        for group in _ill(facts, topic):
            hit[group][topic.name] += 1
            sizes[topic.name] = len(topic.partitions)
    return [_cause(facts.past, group, topics, sizes) for group, topics in hit.items()]


def _ill(facts: Facts, topic: Topic) -> Iterator[_Group]:
    """Yields of each partition with a problem the group that it is in: its worst code, its missing and slow brokers."""
    for partition_id, partition in topic.partitions.items():
        if partition.has_leader and len(partition.isr) == len(partition.replicas):
            continue
        one = Standing(facts, topic, partition_id, partition)
        if not partition.has_leader:
            code = "NO_LEADER"
        elif one.is_small:
            code = "UNDER_MIN_ISR"
        elif one.is_short:
            code = "UNDER_REPLICATED"
        else:
            continue
        missing = one.missing
        yield _Group(code, tuple(missing.away), tuple(missing.slow), missing.for_replicas)


def _cause(past: Past, group: _Group, topics: Mapping[str, int], sizes: Mapping[str, int]) -> Cause:
    went = sorted(((each, past.broker(each)) for each in group.away), key=lambda pair: _order(*pair))
    count = sum(topics.values())
    why = ", ".join(broker.words or f"broker {broker_id} is not there" for broker_id, broker in went)
    reasons = "; ".join(each for each in (why, _slow(group.slow)) if each)
    what = f"{count} partition{'s' * (count != 1)} {WHAT[group.code]} ({_named(topics, sizes)})"
    return Cause(
        severity=Severity.WARN if group.code == "UNDER_REPLICATED" else Severity.ERROR,
        code=group.code,
        partitions=count,
        sentence=f"{what}: {reasons}" if reasons else what,
        advice=group.advice,
        since=_since([broker for _, broker in went if broker.words]),
    )


def _order(broker_id: NodeId, broker: BrokerPast) -> tuple[bool, bool, int, int, NodeId]:
    """The order in which brokers went, after those of which nothing is known; at the end those without a time."""
    offset, time_ms = broker.gone or (0, 0)
    return bool(broker.words), broker.gone is None, offset, time_ms or 0, broker_id


def _since(went: list[BrokerPast]) -> Moment | None:
    moments = [each.gone for each in went]
    known = [each for each in moments if each is not None]
    return max(known, key=lambda each: each.offset) if known and len(known) == len(moments) else None


def _named(topics: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    """Names the topics, those with the most partitions first."""
    words = [
        (
            -count,
            f"all {count} of topic {name}" if count == sizes[name] else f"{count} of {sizes[name]} of topic {name}",
        )
        for name, count in topics.items()
    ]
    named = ", ".join(text for _, text in sorted(words)[:TOPICS_MAX])
    more = len(words) - TOPICS_MAX
    return f"{named} and of {more} more topics" if more > 0 else named


def _slow(brokers: Sequence[NodeId]) -> str:
    if not brokers:
        return ""
    if len(brokers) == 1:
        return f"broker {listed(brokers)} is there and not in sync"
    return f"brokers {listed(brokers)} are there and not in sync"
