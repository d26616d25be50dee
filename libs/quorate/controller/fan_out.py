"""A change to very many partitions, a bite at a time, so that whoever else wants something has a turn in between.

A broker may be in a hundred thousand ISRs. Kafka decides what its fencing means for all of them in one event, and
appends that in several batches, the partitions first and the broker's own record last: each prefix is sound. Here
each bite is a decision of its own, on the state that it finds, and others decide in between. That is sound too:

* Until its own record lies in the log the broker is not fenced, for nobody. Who elects it in between, or takes it
  back into an ISR, does what the state allows, and what Kafka does when two brokers die one after the other.
* So the bites only clear the way. After them the whole command runs, in one turn: it takes the broker out of every
  ISR that it is in *then*, and fences it. Never is a fenced broker in an ISR, whatever was decided in between.
* A bite names its partitions and looks at each anew: it may be decided twice, and of a partition that has gone or has
  changed it asks no more than is left to ask.
* If leadership is lost in between, the broker is not fenced, and whoever finds it late has all of it done again.

Where a broker is let in, its own record has to come first, as a fenced one leads nothing. Then there is no such second
time: nobody would find leaders for the rest after a failover. That is so in Kafka, too, once it takes several batches;
and here only then is it cut up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kraft import Uuid
from quorate.controller.decision import RECORDS_PER_WRITE_MAX
from quorate.metadata.partitions import NO_LEADER, Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Found, Topics
from quorate.nouns import NodeId

__all__ = ["Key", "Turn", "bites", "in_isr", "leaderless", "present"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How much is done before others have theirs."""

    changed_max: int = 500
    """Partitions of one bite: about 8 ms of deciding, applying and encoding."""
    looked_at_max: int = 16_000
    """Partitions that are looked through for one bite: a few ms, also where nothing is found."""
    uncut_max: int = RECORDS_PER_WRITE_MAX
    """Partitions of a change that is better not cut up: what one batch holds."""


Key: TypeAlias = tuple[Uuid, int]
"""A partition: the topic's id, and its number."""
Find: TypeAlias = Callable[[Sequence[Partition | None]], list[int]]
"""The places of those that are wanted. Of all at once: it is asked of every partition that there is."""


def in_isr(broker_id: NodeId) -> Find:
    """Those that have this broker in their ISR."""
    return lambda rows: [i for i, row in enumerate(rows) if row is not None and broker_id in row.isr]


def leaderless(rows: Sequence[Partition | None]) -> list[int]:
    """Those without a leader."""
    return [i for i, row in enumerate(rows) if row is not None and row.leader == NO_LEADER]


def bites(topics: Topics, find: Find, turn: Turn) -> Iterator[tuple[Key, ...]]:
    """All partitions that are wanted, by and by: each bite is found in the state of the moment when it is asked for.

    A bite may be empty, and then was only looked for; it has less than twice of what a turn has. What comes to be
    wanted behind the search is not found.
    """
    found: list[Key] = []
    looked_at = 0
    for topic_id, start, rows in topics.stretches(turn.changed_max):
        found += [(topic_id, start + place) for place in find(rows)]
        looked_at += len(rows)
        if len(found) >= turn.changed_max or looked_at >= turn.looked_at_max:
            yield tuple(found)
            found, looked_at = [], 0
    if found:
        yield tuple(found)


def present(state: ClusterState, keys: Iterable[Key]) -> Iterator[Found]:
    """Those that are still there, as they are now."""
    for topic_id, partition_id in keys:
        topic = state.topics.by_id(topic_id)
        partition = None if topic is None else topic.partitions.get(partition_id)
        if topic is not None and partition is not None:
            yield Found(topic, partition_id, partition)
