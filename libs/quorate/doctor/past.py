"""Facts that the history adds to one state: since when conditions have held, and the state before. Each may be unknown.

The pipeline computes it of all states of a log; a command or an observer that has one state leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from kraft import Uuid
from quorate.nouns import NodeId, Offset

__all__ = ["BrokerPast", "Condition", "Moment", "PartitionPast", "Past", "Unclean", "shown"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Moment(NamedTuple):
    """A record: its offset, and its time in ms since 1970, None if that is no year from 1 to 9999."""

    offset: Offset
    time_ms: int | None


class Condition(StrEnum):
    """A condition of a subject that has a beginning; a subject is named as in findings: `partition orders-0`."""

    NO_LEADER = "no_leader"
    UNDER_MIN_ISR = "under_min_isr"
    UNDER_REPLICATED = "under_replicated"
    ELR = "elr"
    RECOVERING = "recovering"
    MOVING = "moving"
    LED_BY_ANOTHER = "led_by_another"
    ONE_REPLICA = "one_replica"
    MIN_ISR_ABOVE = "min_isr_above"
    MIN_ISR_EQUALS = "min_isr_equals"
    ELECTS_UNCLEANLY = "elects_uncleanly"
    CROWDED = "crowded"
    FENCED = "fenced"
    UNREGISTERED = "unregistered"
    DIRECTORIES = "directories"
    """A broker has these log directories."""
    FLAPPING = "flapping"
    NO_RACK = "no_rack"
    CORDONED = "cordoned"
    LEVEL = "level"
    """A feature has this level."""
    EVEN_VOTERS = "even_voters"
    SINGLE_VOTER = "single_voter"
    THERE = "there"
    """The subject is as it is: voters, the configs of a resource, an ACL, a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclean:
    """The last unclean election of a partition, which leader it gave, and how many there have been."""

    leader: NodeId
    at: Moment
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPast:
    """The known past of a partition; None for what its history does not say."""

    last_leader: NodeId | None = None
    isr_changed_ms: int | None = None
    """When the ISR got other members."""
    isr_was: Sequence[NodeId] | None = None
    """The ISR until then; None if it never changed."""
    unclean: Unclean | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPast:
    """The past of a broker. `words` say how it went away, if it did: `broker 7 was fenced at …`."""

    fencings: int = 0
    """How often it was fenced in the last day, but for restarts that were announced."""
    gone: Moment | None = None
    words: str = ""


_PARTITION: Final = PartitionPast()
_BROKER: Final = BrokerPast()


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Known facts of the past, by subject; empty if nothing is."""

    moments: Mapping[tuple[str, str], Moment] = field(default_factory=dict)
    """Since when, by condition and subject."""
    partitions: Mapping[tuple[Uuid, int], PartitionPast] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerPast] = field(default_factory=dict)

    def since(self, condition: Condition, subject: str) -> Moment | None:
        """Returns since when this condition of the subject has held; None if that is not known."""
        return self.moments.get((condition.value, subject))

    def partition(self, topic_id: Uuid, partition_id: int) -> PartitionPast:
        """Returns the known past of a partition; one without facts if nothing is known."""
        return self.partitions.get((topic_id, partition_id), _PARTITION)

    def broker(self, broker_id: NodeId) -> BrokerPast:
        """Returns the known past of a broker; one without facts if nothing is known."""
        return self.brokers.get(broker_id, _BROKER)


def shown(time_ms: int | None) -> str:
    """Formats a time, in ms since 1970, in UTC and with milliseconds; `none` for None.

    >>> shown(1_795_000_000_123)
    '2026-11-18 11:06:40.123'
    """
    if time_ms is None:
        return "none"
    return (EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
