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

A registration in the place of another process is cut up as fencing is. What it has to know beside:

* It is checked before the first bite, and nothing is written for one that is refused. It is checked again in each bite
  and in the whole: the last process may be let in again meanwhile, then it is alive and its twin is refused; another
  broker may take the directory, a level may be raised. What was written by then is true of the last process all the
  same: it had no session, so it belongs in no ISR; and who says that it did not stop in order, by the only claim that
  there is to its logs, is not to be elected for them.
* A bite names the registration whose place is taken, and writes nothing once there is another. So of a registration
  that is sent again while its turns are under way, whichever comes to its end first registers, and the other finds its
  own process there and answers alike; of two twins, the later one takes the place of the earlier, as in one turn each.
* The broker epoch is where the last turn's records begin: nobody hears of one that is not in the log.

The same holds where an operator unregisters a broker, which may be alive and well:

* It sends heartbeats in between, is let in, is taken back into ISRs: the last turn takes it out again, and unregisters
  whoever has its id by then, as one that was asked for at that moment would: the request names no process. The bites
  name one, and leave another that has registered meanwhile alone.
* If leadership is lost in between, whoever asked hears so, and the broker stays. So no bite takes away a leader for
  whom there is no other: nobody would look for one before the preferred leaders are (300 s). That is left to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft import Uuid
from quorate.controller.decision import RECORDS_PER_WRITE_MAX
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.rows import Stretch
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Found, Topics
from quorate.nouns import NodeId

__all__ = [
    "DEFAULT_TURN",
    "Key",
    "Turn",
    "bites",
    "bites_of",
    "epoch_of",
    "in_isr",
    "in_isr_or_elr",
    "leaderless",
    "present",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How much is done before others have theirs."""

    changed_max: int = 500
    """Partitions of one bite: about 8 ms of deciding, applying and encoding."""
    looked_at_max: int = 16_000
    """Partitions that are looked through for one bite: a few ms, also where nothing is found."""
    uncut_max: int = RECORDS_PER_WRITE_MAX
    """Partitions of a change that is better not cut up: what one batch holds."""


DEFAULT_TURN: Final = Turn()

Key: TypeAlias = tuple[Uuid, int]
"""A partition: the topic's id, and its number."""
Find: TypeAlias = Callable[[Stretch], list[int]]
"""The places of those that are wanted. Of all at once: it is asked of every partition that there is."""


def in_isr(broker_id: NodeId) -> Find:
    """Those that have this broker in their ISR."""
    return lambda stretch: [i for i, isr in enumerate(stretch.isrs) if broker_id in isr]


def in_isr_or_elr(broker_id: NodeId) -> Find:
    """Those that have this broker in their ISR or ELR."""
    return lambda stretch: [
        i for i, row in enumerate(stretch.rows) if row is not None and (broker_id in row.isr or broker_id in row.elr)
    ]


def leaderless(stretch: Stretch) -> list[int]:
    """Those without a leader."""
    return [i for i, row in enumerate(stretch.rows) if row is not None and row.leader == NO_LEADER]


def bites(topics: Topics, find: Find, turn: Turn) -> Iterator[tuple[Key, ...]]:
    """All partitions that are wanted, by and by: each bite is found in the state of the moment when it is asked for.

    A bite may be empty, and then was only looked for; it has less than twice of what a turn has. What comes to be
    wanted behind the search is not found.
    """
    found: list[Key] = []
    looked_at = 0
    for topic_id, start, stretch in topics.stretches(turn.changed_max):
        found += [(topic_id, start + place) for place in find(stretch)]
        looked_at += len(stretch.rows)
        if len(found) >= turn.changed_max or looked_at >= turn.looked_at_max:
            yield tuple(found)
            found, looked_at = [], 0
    if found:
        yield tuple(found)


def bites_of(state: ClusterState, broker_id: NodeId, find: Find, turn: Turn) -> Iterator[tuple[Key, ...]]:
    """`bites`, until another process is registered, or none any more."""
    epoch = epoch_of(state, broker_id)
    for keys in bites(state.topics, find, turn):
        if epoch_of(state, broker_id) != epoch:
            return
        yield keys


def epoch_of(state: ClusterState, broker_id: NodeId) -> int | None:
    """Which process is registered, by its broker epoch; None if none is."""
    broker = state.brokers.get(broker_id)
    return None if broker is None else broker.epoch


def present(state: ClusterState, keys: Iterable[Key]) -> Iterator[Found]:
    """Those that are still there, as they are now."""
    for topic_id, partition_id in keys:
        topic = state.topics.by_id(topic_id)
        partition = None if topic is None else topic.partitions.get(partition_id)
        if topic is not None and partition is not None:
            yield Found(topic, partition_id, partition)
