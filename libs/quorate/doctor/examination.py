"""All findings about one state."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.doctor.advice import Takers
from quorate.doctor.brokers import broker_findings, feature_findings
from quorate.doctor.census import count_partitions
from quorate.doctor.leftovers import leftover_findings, voter_findings
from quorate.doctor.partitions import partition_findings
from quorate.doctor.rules import Facts, Finding, Severity

__all__ = ["examine"]

_ORDER = list(Severity)


def examine(facts: Facts) -> list[Finding]:
    """Returns all findings about one state, the worst severity first, then by code and subject."""
    return sorted(_all(facts), key=lambda each: (_ORDER.index(each.severity), each.code, each.subject))


def _all(facts: Facts) -> Iterator[Finding]:
    takers, census = Takers(facts.state), count_partitions(facts.state)
    yield from partition_findings(facts, takers, census)
    yield from broker_findings(facts, takers, census)
    yield from feature_findings(facts)
    yield from voter_findings(facts)
    yield from leftover_findings(facts)
