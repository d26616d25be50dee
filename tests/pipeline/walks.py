"""What availability has to say, by hand: one record after another through `ClusterState`, and no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pytest

from kraft import Message
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import RECOVERED, RECOVERING, Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import uuid_text
from quorate.records import AbortTransactionRecord, BeginTransactionRecord, decode_record
from quorate.wire.batch import batches, data_values

if TYPE_CHECKING:
    from pyspark.sql import Row

SECONDS: Final = 0.001


class Logged(NamedTuple):
    """A record of a log, and its batch's time."""

    offset: int
    timestamp_ms: int
    record: Message | None
    """None for raft's own."""


class Place(NamedTuple):
    """A partition's day."""

    topic: str
    topic_id: str
    partition_id: int
    date: date


@dataclass(slots=True)
class Day:
    """What was so of a partition on a day, in ms and counts."""

    ms: int = 0
    offline_ms: int = 0
    under_min_isr_ms: int = 0
    leader_changes: int = 0
    unclean_elections: int = 0

    def seconds(self) -> tuple[float, float, float, int, int]:
        """As the table's columns."""
        times = self.ms / 1000, self.offline_ms / 1000, self.under_min_isr_ms / 1000
        return *times, self.leader_changes, self.unclean_elections


Key: TypeAlias = tuple[str, str, int]
"""A partition: its topic's name and id, and its number."""
Partitions: TypeAlias = dict[Key, Partition]


def logged(log: Path) -> Iterator[Logged]:
    """The records of a log file."""
    content = log.read_bytes()
    for position, header in batches(content):
        values = [] if header.is_control else data_values(content, position, header)
        for delta in range(header.count):
            record = decode_record(values[delta]) if values else None
            yield Logged(header.base_offset + delta, header.base_timestamp, record)


def without_aborted(records: Iterable[Logged]) -> list[Logged]:
    """The records but for those from a BeginTransactionRecord to its AbortTransactionRecord. KIP-868."""
    kept: list[Logged] = []
    begun = 0
    for each in records:
        if isinstance(each.record, BeginTransactionRecord):
            begun = len(kept)
        if isinstance(each.record, AbortTransactionRecord):
            del kept[begun:]
        else:
            kept.append(each)
    return kept


def walk(records: Iterable[Logged]) -> dict[Place, Day]:
    """Every partition's days, from the first record to the last."""
    state, days = ClusterState(), dict[Place, Day]()
    present: Partitions = {}
    now: int | None = None
    for offset, timestamp_ms, record in records:
        for key, partition in present.items():
            _pass(days, key, partition, min_isr(state, key[0], partition), now or 0, timestamp_ms)
        now = timestamp_ms
        if record is None:
            continue
        state.apply(record, offset)
        before, present = present, partitions_of(state)
        for key, partition in present.items():
            if key not in before:
                _day(days, key, now)
            elif before[key] != partition:
                day = _day(days, key, now)
                day.leader_changes += is_led_anew(before[key], partition)
                day.unclean_elections += is_led_uncleanly(before[key], partition)
    return days


def partitions_of(state: ClusterState) -> Partitions:
    """All partitions, by topic, id and number."""
    return {
        (topic.name, uuid_text(topic.id), number): partition
        for topic in state.topics
        for number, partition in topic.partitions.items()
    }


def min_isr(state: ClusterState, topic: str, partition: Partition) -> int:
    """How many the ISR must have: by the topic's config, else its leader's, else all brokers', else one of it.

    Never more than there are replicas.
    """
    set_on = (TOPIC, topic), (BROKER, str(partition.leader)), (BROKER, "")
    values = [state.configs.get(kind, name, "min.insync.replicas") for kind, name in set_on]
    wanted = next((int(value) for value in values if value), 1)
    return min(wanted, len(partition.replicas))


def is_under_min_isr(partition: Partition, least: int) -> bool:
    """Takes it no writes with acks=all? Without a leader it takes none (kafka-topics --under-min-isr-partitions)."""
    return not partition.has_leader or len(partition.isr) < least


class Standing(NamedTuple):
    """How things stand after a record: all partitions, and those offline, under min ISR, and under-replicated."""

    offset: int
    ms: int
    there: frozenset[Key]
    offline: frozenset[Key]
    under_min_isr: frozenset[Key]
    under_replicated: frozenset[Key]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many they are."""
        return len(self.offline), len(self.under_min_isr), len(self.under_replicated)


def standings(records: Iterable[Logged]) -> Iterator[Standing]:
    """How things stand after each record."""
    state = ClusterState()
    for offset, timestamp_ms, record in records:
        if record is not None:
            state.apply(record, offset)
        found = partitions_of(state)
        yield Standing(
            offset,
            timestamp_ms,
            frozenset(found),
            frozenset(key for key, partition in found.items() if not partition.has_leader),
            frozenset(
                key
                for key, partition in found.items()
                if is_under_min_isr(partition, min_isr(state, key[0], partition))
            ),
            frozenset(
                key
                for key, partition in found.items()
                if len(partition.isr) < len(set(partition.replicas) - set(partition.adding_replicas))
            ),
        )


def is_led_anew(before: Partition, after: Partition) -> bool:
    """Is somebody else the leader now?"""
    return after.has_leader and after.leader != before.leader


def is_led_uncleanly(before: Partition, after: Partition) -> bool:
    """Does the new leader lack what was committed, as far as the log can tell?"""
    if (before.leader_recovery_state, after.leader_recovery_state) == (RECOVERED, RECOVERING):
        return True
    # A reassignment ends in one record: the replica that has just caught up may lead.
    reassigned = sorted(before.replicas) != sorted(after.replicas)
    return is_led_anew(before, after) and after.leader not in (*before.isr, *before.elr) and not reassigned


def _pass(
    days: dict[Place, Day], key: tuple[str, str, int], partition: Partition, least: int, begin: int, end: int
) -> None:
    """Let time go by, midnight by midnight."""
    while begin < end:
        midnight = _utc(begin).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        until = min(end, int(midnight.timestamp() * 1000))
        day = _day(days, key, begin)
        day.ms += until - begin
        day.offline_ms += 0 if partition.has_leader else until - begin
        day.under_min_isr_ms += until - begin if is_under_min_isr(partition, least) else 0
        begin = until


def _day(days: dict[Place, Day], key: tuple[str, str, int], at_ms: int) -> Day:
    return days.setdefault(Place(*key, _utc(at_ms).date()), Day())


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def days_of(rows: list[Row]) -> dict[Place, tuple[float, float, float, int, int]]:
    """Availability by partition and day."""
    columns = ("seconds", "offline_seconds", "under_min_isr_seconds", "leader_changes", "unclean_elections")
    found = {
        Place(row["topic"], row["topic_id"], row["partition_id"], row["date"]): tuple(row[name] for name in columns)
        for row in rows
    }
    assert len(found) == len(rows), "a partition has two rows for one day"
    return found


def agree(expected: Mapping[Place, Day], found: Mapping[Place, tuple[float, float, float, int, int]]) -> None:
    """Every partition's days, and no others; to the millisecond."""
    assert {place: pytest.approx(day.seconds(), abs=SECONDS) for place, day in expected.items()} == found


def state_of(rows: Iterable[Row], offset: int) -> ClusterState:
    """The state that the rows of an image are at this offset; what the quorum keeps in control records is in none."""
    from services.pipeline.silver.image import PLACES, record_of

    places = {kind: place for place, kind in enumerate(PLACES)}
    kept = [row for row in rows if row["kind"] not in ("voters", "kraft_version")]
    kept.sort(key=lambda row: (places.get(row["kind"], len(places)), row["valid_from_offset"]))
    state = ClusterState()
    state.load((record_of(row["kind"], row["type"], row["value"], row["raw"]) for row in kept), offset)
    return state
