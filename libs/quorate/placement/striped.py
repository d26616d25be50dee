"""Striped replica placement, as Kafka's StripedReplicaPlacer: each partition is a stripe over the racks.

Goals, in this order (KIP-36, KIP-631):

* The first replica, which will lead, is on an unfenced broker. No broker has two replicas of a partition.
* The replicas of a partition are spread over the racks as evenly as the racks' sizes allow.
* Leaders are spread over the racks, and replicas over the brokers of a rack.
* Fenced brokers come after the unfenced ones of their rack.
* Two topics rarely begin alike, and a long topic does not repeat its pattern.

The algorithm treats each rack as a ring of brokers, and the racks as a ring of rings:

    rack a: 1 2 3 4        partition   begins at   takes from   replicas
    rack b: 5 6            0           a           a b          1 5
    rack c: 7 8            1           b             b c        6 7
                           2           c           a   c        8 2
                           3           a           a b          3 5
                           4           b             b c        6 7
                           5           c           a   c        8 4

1. A partition begins at one rack, the next partition at the next rack.
2. Its first replica comes from the first rack, from there on, that has an unfenced broker. The further replicas
   come from one rack after the other, again from where the partition began, except that the first replica's rack
   is skipped once. A rack without brokers left is skipped.
3. Each partition that takes from a ring begins one broker further than the previous one that took from it.
4. The start position of each ring is random. After as many partitions as there are unfenced brokers, the racks and
   the brokers in them are shuffled, and each ring starts at its beginning; a single unfenced broker is never
   shuffled.

If no rack can run out of unfenced brokers, which is usual, the positions in a cycle can be computed, and the same
stripes are cut out of the rings as slices (`even_cycle`): several times as fast as taking one broker after the
other (`uneven_cycle`). If all racks are equally large too, cycles of one length take the same positions of the rings,
which are computed once (`alike_cycle`). A test checks all three against the rules above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, cycle
from operator import itemgetter

from quorate.nouns import NodeId
from quorate.placement.racks import Rack, Racks
from quorate.placement.spec import PlacementSpec, Random, Replicas


def place(spec: PlacementSpec, racks: Racks, random: Random) -> tuple[Replicas, ...]:
    """Returns the replicas of each partition of `spec.partition_ids`, in that order.

    Calls `random` in this order: for the start of each rack's unfenced and then its fenced ring, rack by
    rack; for the rack at which the first partition begins; at each shuffle for the racks, then rack by rack in the new
    order for its unfenced and its fenced brokers. The same random numbers give the same placement.

    Raises ApiError as `PlacementSpec.check` does, before `random` is called.

    >>> from quorate.placement import UsableBroker
    >>> class NoChance:
    ...     def randrange(self, stop): return 0
    ...     def shuffle(self, x): pass
    >>> brokers = [UsableBroker(id=id, rack=rack) for id, rack in zip(range(1, 9), "aaaabbcc")]
    >>> for replicas in place(PlacementSpec(partition_count=6, replication_factor=2), Racks.of(brokers), NoChance()):
    ...     print(*replicas)
    1 5
    6 7
    8 2
    3 5
    6 7
    8 4
    """
    spec.check(unfenced_count=racks.unfenced_count, fenced_count=racks.fenced_count)

    stripes = _Stripes(racks, random)
    one_cycle = stripes.uneven_cycle
    if _is_even(racks, spec.replication_factor):
        one_cycle = stripes.alike_cycle if stripes.are_alike else stripes.even_cycle
    # A single unfenced broker would be shuffled after every partition, without effect.
    cycle_length = racks.unfenced_count if racks.unfenced_count > 1 else spec.partition_count
    placed = one_cycle(min(cycle_length, spec.partition_count), spec.replication_factor)
    while (left := spec.partition_count - len(placed)) > 0:
        stripes.shuffle(random)
        placed += one_cycle(min(cycle_length, left), spec.replication_factor)
    assert len(placed) == spec.partition_count, (len(placed), spec)
    for replicas in (placed[0], placed[-1]):
        assert len(set(replicas)) == spec.replication_factor, (replicas, spec)  # I-63: no broker has two
        assert any(replicas[0] in rack.unfenced for rack in racks.racks), replicas  # a fenced one would lead
    return tuple(placed)


def _is_even(racks: Racks, replication_factor: int) -> bool:
    """Returns whether every rack has an unfenced broker for each replica that a partition takes from it."""
    laps = -(-replication_factor // len(racks.racks))
    return all(len(rack.unfenced) >= laps for rack in racks.racks)


class _Ring:
    """A ring of brokers. `start` is the position from which the next partition takes."""

    __slots__ = ("brokers", "start", "taken", "taker")

    def __init__(self, brokers: tuple[NodeId, ...], random: Random) -> None:
        self.brokers = list(brokers)
        self.start = random.randrange(len(brokers)) if brokers else 0
        self.taken = 0
        self.taker: int | None = None

    @property
    def turned(self) -> list[NodeId]:
        """The brokers once round, from `start` on; not to be changed."""
        if not self.start:
            return self.brokers
        start = self.start % len(self.brokers)
        return self.brokers[start:] + self.brokers[:start]

    def take(self, partition: int) -> NodeId | None:
        """Returns the next broker for `partition`; None once the partition has all brokers of the ring."""
        if partition != self.taker:
            self.start += self.taker is not None  # one further than the previous partition that took from here
            self.taker, self.taken = partition, 0
        assert self.taken <= len(self.brokers), (self.taken, self.brokers)
        if self.taken == len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.start + self.taken - 1) % len(self.brokers)]

    def shuffle(self, random: Random) -> None:
        if len(self.brokers) > 1:  # no random number is used for one or none, which is usual in small clusters
            random.shuffle(self.brokers)
        self.start, self.taken, self.taker = 0, 0, None


class _RackRings:
    """The two rings of a rack: unfenced brokers and fenced brokers."""

    __slots__ = ("fenced", "rings", "unfenced")

    def __init__(self, rack: Rack, random: Random) -> None:
        self.unfenced = _Ring(rack.unfenced, random)
        self.fenced = _Ring(rack.fenced, random)
        self.rings = tuple(ring for ring in (self.unfenced, self.fenced) if ring.brokers)

    def take(self, partition: int) -> NodeId | None:
        broker = self.unfenced.take(partition)
        return self.fenced.take(partition) if broker is None else broker


class _Stripes:
    """The ring of racks, each with its rings of brokers. `first` is the rack at which the next partition begins."""

    __slots__ = ("first", "racks")

    def __init__(self, racks: Racks, random: Random) -> None:
        self.racks = [_RackRings(rack, random) for rack in racks.racks]
        self.first = random.randrange(len(self.racks))

    @property
    def are_alike(self) -> bool:
        """Whether every rack has equally many unfenced brokers."""
        return len({len(rack.unfenced.brokers) for rack in self.racks}) == 1

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.racks)
        for rack in self.racks:
            for ring in rack.rings:
                ring.shuffle(random)

    def uneven_cycle(self, count: int, replication_factor: int) -> list[Replicas]:
        """Returns the replicas of the next `count` partitions, broker by broker, for any racks."""
        placed = []
        for partition in range(count):
            placed.append(tuple(self._stripe(partition, replication_factor)))
            self.first = (self.first + 1) % len(self.racks)
        return placed

    def _stripe(self, partition: int, replication_factor: int) -> Iterator[NodeId]:
        order = self.racks[self.first :] + self.racks[: self.first]
        leading = next(rack for rack in order if rack.unfenced.brokers)
        leader = leading.take(partition)
        assert leader is not None, (partition, leading.unfenced.brokers)
        yield leader

        further = chain((rack for rack in order if rack is not leading), cycle(order))
        wanted = replication_factor - 1
        while wanted:  # ends, since there are at least as many brokers as replicas
            broker = next(further).take(partition)
            if broker is not None:
                wanted -= 1
                yield broker

    def even_cycle(self, count: int, replication_factor: int) -> list[Replicas]:
        """Returns the next `count` partitions' replicas as slices of rings; no rack may run out of unfenced brokers."""
        rings = [rack.unfenced.turned for rack in self.racks]
        columns = _columns(rings, self.first, count, replication_factor)
        self.first = (self.first + count) % len(self.racks)
        return list(zip(*columns, strict=True))

    def alike_cycle(self, count: int, replication_factor: int) -> list[Replicas]:
        """Returns what `even_cycle` does, where all racks have equally many unfenced brokers."""
        brokers = list(chain.from_iterable([rack.unfenced.turned for rack in self.racks]))
        taken = _positions(len(self.racks), len(brokers), self.first, count, replication_factor)(brokers)
        self.first = (self.first + count) % len(self.racks)
        return list(zip(*[iter(taken)] * replication_factor, strict=True))


@lru_cache(maxsize=128)
def _positions(
    rack_count: int, broker_count: int, first: int, count: int, replication_factor: int
) -> Callable[[Sequence[NodeId]], Sequence[NodeId]]:
    """Returns what takes a cycle's replicas, partition by partition, out of the brokers of all rings in their order."""
    size, rest = divmod(broker_count, rack_count)
    assert not rest, (broker_count, rack_count)  # the racks are alike
    rings = [list(range(start, start + size)) for start in range(0, broker_count, size)]
    columns = _columns(rings, first, count, replication_factor)
    positions = list(chain.from_iterable(zip(*columns, strict=True)))
    if len(positions) == 1:  # of a single position, itemgetter takes no tuple
        return lambda brokers: [brokers[positions[0]]]
    return itemgetter(*positions)


def _columns(rings: Sequence[list[int]], first: int, count: int, replication_factor: int) -> list[list[int]]:
    """Returns the first replicas of `count` partitions, their second, and so on; each ring is taken from its beginning.

    Rack r is d racks beyond the one at which partition 0 begins, so it gives replica j of partition d - j, and again of
    every R-th partition after that. Of R partitions in a row min(RF, R) take from it, each starting one position
    further: so the brokers are a slice of the ring, with that number as the step.
    """
    rack_count = len(rings)
    step = min(replication_factor, rack_count)
    length = (count // rack_count + 2) * step + replication_factor
    unrolled = [ring * (length // len(ring) + 1) for ring in rings]
    columns = []
    for replica in range(replication_factor):
        lap, near = divmod(replica, rack_count)
        column = [-1] * count
        for distance in range(min(rack_count, count + near)):
            ring = unrolled[(first + distance) % rack_count]
            partition, entered = _first_turn(distance, near, step=step, rack_count=rack_count)
            assert min(partition, entered) >= 0, (partition, entered)  # a slice from below 0 is of the ring's end
            if partition < count:
                turns = (count - 1 - partition) // rack_count + 1
                start = entered + lap
                column[partition::rack_count] = ring[start : start + (turns - 1) * step + 1 : step]
        assert len(column) == count, (len(column), count, replica)
        assert -1 not in column, (replica, first, count)  # each place was filled
        columns.append(column)
    return columns


def _first_turn(distance: int, near: int, *, step: int, rack_count: int) -> tuple[int, int]:
    """Returns the first partition for which a rack gives replica `near` of a lap, and how many took from it before.

    `distance` is how many racks it lies beyond the one at which partition 0 begins; with each partition the distance
    falls by one, and a partition takes from the rack if the distance is below `step`.
    """
    if distance >= near:
        return distance - near, max(0, min(distance, step - 1) - near)
    return distance - near + rack_count, distance + step - near
