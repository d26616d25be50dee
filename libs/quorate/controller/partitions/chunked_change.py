"""Chunked changes: a change of very many partitions is cut into chunks, so that other requests are decided in between.

A broker may be in the ISRs of a hundred thousand partitions. Kafka decides its fencing for all of them in one event and
appends several batches: the partitions first, the broker's own record last, so that each prefix is valid. Here each
chunk is a decision of its own, on the state that it finds, and other commands run in between. That is safe, too:

* The broker stays unfenced for all readers until its own record is in the log. A command that elects it in between, or
  adds it to an ISR, does what the state allows. Kafka does the same when two brokers fail one after the other.
* The chunks only prepare the change. After them the whole command runs as one decision: it removes the broker from
  every ISR that has it at that time, and fences it. So a fenced broker is never in an ISR.
* A chunk names its partitions and reads each again. So it may run twice, and it skips a partition that was deleted or
  has changed already.
* If leadership is lost in between, the broker is not fenced. The next one to notice the missing heartbeats starts
  again.

When a broker is unfenced, its own record must come first, as a fenced broker cannot lead. Then there is no final run of
the whole command: after a failover nobody elects leaders for the rest. The same is true in Kafka when the change takes
several batches, and only then is it cut here.

A registration that replaces another process of the same broker is chunked as fencing is. In addition:

* It is checked before the first chunk, and nothing is written if it is refused. It is checked again in each chunk and
  in the final command: meanwhile the old process may be unfenced again (then it is alive, and the new one is refused),
  another broker may claim the directory, or a feature level may rise. The records of the chunks are right for the old
  process in any case: it had no session, so it belongs in no ISR; and if it did not shut down cleanly by the only
  report that exists, it must not be elected.
* A chunk names the registration that it replaces, and writes nothing once there is another. If a registration is sent
  again while its chunks run, the first to finish registers, and the second finds its own process and answers alike.
  Of two processes with one broker id, the later one replaces the earlier, as it would without chunks.
* The broker epoch is the offset at which the records of the final command begin, so it is always in the log.

The same holds when an operator unregisters a broker that may be alive:

* The broker sends heartbeats in between, is unfenced, and rejoins ISRs. The final command removes it again, and
  unregisters the process that has the id by then, as the request names no process. The chunks do name one, and skip
  another that has registered meanwhile.
* If leadership is lost in between, the caller gets an error, and the broker stays. So no chunk leaves a partition
  without a leader: nobody would elect one before the next preferred leader election (300 s). The final command does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft import Uuid
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX
from quorate.metadata.partition_rows import PartitionSlice
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition, Topics
from quorate.nouns import NodeId

__all__ = [
    "DEFAULT_LIMITS",
    "ChunkLimits",
    "Key",
    "chunks",
    "chunks_of",
    "epoch_of",
    "in_isr",
    "in_isr_or_elr",
    "leaderless",
    "present",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """The limits of one chunk of a chunked change; after each chunk other commands run."""

    changed_max: int = 500
    """The most partitions that one chunk changes: about 8 ms to decide, apply and encode."""
    looked_at_max: int = 16_000
    """The most partitions that are searched for one chunk: a few ms, even if none is found."""
    uncut_max: int = RECORDS_PER_WRITE_MAX
    """A change of up to this many partitions is not cut where chunks are less safe: the size of one batch."""

    def __post_init__(self) -> None:
        assert 1 <= self.changed_max <= self.looked_at_max, self
        assert 2 * self.changed_max <= RECORDS_PER_WRITE_MAX, f"a chunk is one batch: {self}"
        assert 0 <= self.uncut_max <= RECORDS_PER_WRITE_MAX, f"what is not cut is one batch: {self}"


DEFAULT_LIMITS: Final = ChunkLimits()

Key: TypeAlias = tuple[Uuid, int]
"""A partition: topic id and partition number."""
Find: TypeAlias = Callable[[PartitionSlice], list[int]]
"""A search: returns the indexes of the wanted partitions in a range of partitions, looking at all of them at once."""


def in_isr(broker_id: NodeId) -> Find:
    """Returns a search, for `chunks`, for the partitions that have this broker in their ISR."""
    return lambda stretch: [i for i, isr in enumerate(stretch.isrs) if broker_id in isr]


def in_isr_or_elr(broker_id: NodeId) -> Find:
    """Returns a search, for `chunks`, for the partitions that have this broker in their ISR or ELR."""
    return lambda stretch: [
        i for i, row in enumerate(stretch.rows) if row is not None and (broker_id in row.isr or broker_id in row.elr)
    ]


def leaderless(stretch: PartitionSlice) -> list[int]:
    """Returns the indexes of the partitions in `stretch` that have no leader."""
    return [i for i, row in enumerate(stretch.rows) if row is not None and row.leader == NO_LEADER]


def chunks(topics: Topics, find: Find, limits: ChunkLimits) -> Iterator[tuple[Key, ...]]:
    """Yields the partitions that `find` finds, in chunks; each is searched in the state when it is requested.

    A chunk may be empty, if the search limit was reached first; it has less than twice `limits.changed_max` partitions.
    A partition that comes to match after the search has passed it is not found.
    """
    found: list[Key] = []
    looked_at = 0
    for topic_id, start, stretch in topics.stretches(limits.changed_max):
        assert len(stretch.rows) <= limits.changed_max, (topic_id, start, len(stretch.rows), limits)
        found += [(topic_id, start + place) for place in find(stretch)]
        looked_at += len(stretch.rows)
        assert len(found) < 2 * limits.changed_max, (len(found), limits)
        if len(found) >= limits.changed_max or looked_at >= limits.looked_at_max:
            yield tuple(found)
            found, looked_at = [], 0
    if found:
        yield tuple(found)


def chunks_of(state: ClusterState, broker_id: NodeId, find: Find, limits: ChunkLimits) -> Iterator[tuple[Key, ...]]:
    """Yields what `chunks` does, but ends once another process has registered as this broker, or none is registered."""
    epoch = epoch_of(state, broker_id)
    for keys in chunks(state.topics, find, limits):
        if epoch_of(state, broker_id) != epoch:
            return
        yield keys


def epoch_of(state: ClusterState, broker_id: NodeId) -> int | None:
    """Returns the broker epoch with which this broker is registered now; None if it is not registered."""
    broker = state.brokers.get(broker_id)
    return None if broker is None else broker.epoch


def present(state: ClusterState, keys: Iterable[Key]) -> Iterator[TopicPartition]:
    """Yields those of the partitions `keys` that still exist, as they are in this state."""
    for topic_id, partition_id in keys:
        topic = state.topics.by_id(topic_id)
        partition = None if topic is None else topic.partitions.get(partition_id)
        if topic is not None and partition is not None:
            yield TopicPartition(topic, partition_id, partition)
