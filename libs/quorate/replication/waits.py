"""Produce and fetch requests that wait, as data: what each waits for, and what completes it. Kafka's purgatory.

A step of a partition that raised the high watermark, appended, or changed the role calls `touch` with that partition's
key, after it has let go of the partition's lock: so requests are completed outside of it, by the caller that moved the
high watermark or the log end (R47). A request is looked at once more when it is held, since what it waits for may have
come just before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, TypeAlias, TypeVar

from quorate.errors import ErrorCode
from quorate.nouns import Offset
from quorate.replication.admission import FetchPosition, acks_outcome, size_available
from quorate.replication.partition import Partition

P = TypeVar("P", bound=Hashable)
Find: TypeAlias = Callable[[P], Partition | None]
"""The partition of a key; None if this broker does not host it any more."""

DEAD_DEADLINES_MIN = 1_024
"""Deadlines of requests that are answered are forgotten when they are so many, and most of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceWait(Generic[P]):
    """A write with acks=all: each partition's high watermark must reach the end of the records it got (R45).

    Or a deletion of records: each partition's low watermark must reach the offset, with `outcome_of` deleted_outcome.
    `deadline_ms` is of the monotonic clock.
    """

    required: Mapping[P, Offset]
    deadline_ms: int
    reply_to: object = None
    outcome_of: Callable[[Partition, Offset], ErrorCode | None] = acks_outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWait(Generic[P]):
    """A fetch that waits for `min_bytes`, over all its partitions, until `deadline_ms` (monotonic clock) (R48).

    `partition_max_bytes` caps each one's part. With `may_grow` others may join it while it is held (`Waits.join`).
    """

    positions: dict[P, FetchPosition]
    min_bytes: int
    partition_max_bytes: int
    deadline_ms: int
    reply_to: object = None
    may_grow: bool = False


@dataclass(frozen=True, slots=True)
class ProduceDone(Generic[P]):
    """The answer to a produce request. A partition that was not in time has REQUEST_TIMED_OUT, and keeps its records
    (R45)."""

    wait: ProduceWait[P]
    outcomes: Mapping[P, ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchDone(Generic[P]):
    """The fetch is to be read and answered now, with what there is."""

    wait: FetchWait[P]


Done: TypeAlias = ProduceDone[P] | FetchDone[P]


@dataclass(slots=True)
class _Held(Generic[P]):
    """A wait, and what is known of each of its partitions: outcomes of a produce, sizes of a fetch."""

    wait: ProduceWait[P] | FetchWait[P]
    outcomes: dict[P, ErrorCode] = field(default_factory=dict)
    sizes: dict[P, int] = field(default_factory=dict)
    size: int = 0

    @property
    def keys(self) -> Iterable[P]:
        return self.wait.required if isinstance(self.wait, ProduceWait) else self.wait.positions

    @property
    def waits_for_something(self) -> bool:
        return bool(self.keys) or (isinstance(self.wait, FetchWait) and self.wait.may_grow)

    def look(self, key: P, partition: Partition | None) -> Done[P] | None:
        """Looks at one partition; returns the answer if that completes the request."""
        if isinstance(self.wait, ProduceWait):
            return self._look_at_outcome(self.wait, key, partition)
        return self._look_at_size(self.wait, key, partition)

    def _look_at_outcome(self, wait: ProduceWait[P], key: P, partition: Partition | None) -> Done[P] | None:
        if key not in self.outcomes:  # an outcome is final
            gone = ErrorCode.NOT_LEADER_OR_FOLLOWER
            outcome = gone if partition is None else wait.outcome_of(partition, wait.required[key])
            if outcome is not None:
                self.outcomes[key] = outcome
        return ProduceDone(wait, self.outcomes) if len(self.outcomes) == len(wait.required) else None

    def _look_at_size(self, wait: FetchWait[P], key: P, partition: Partition | None) -> Done[P] | None:
        size = None if partition is None else size_available(partition, wait.positions[key])
        if size is None:
            return FetchDone(wait)
        size = min(size, wait.partition_max_bytes)
        self.size += size - self.sizes.get(key, 0)
        self.sizes[key] = size
        return FetchDone(wait) if self.size >= wait.min_bytes else None

    def time_out(self) -> Done[P]:
        if isinstance(self.wait, FetchWait):
            return FetchDone(self.wait)
        late = {key: self.outcomes.get(key, ErrorCode.REQUEST_TIMED_OUT) for key in self.wait.required}
        return ProduceDone(self.wait, late)


class Waits(Generic[P]):
    """Holds requests by partition and by deadline, and returns each one's answer once, for the caller to send."""

    def __init__(self, find: Find[P]) -> None:
        self._find = find
        self._held: dict[int, _Held[P]] = {}
        self._numbers: dict[int, int] = {}
        """Of those that are held, by the `id` of the wait."""
        self._by_partition: dict[P, dict[int, None]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._next_number = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def deadline_ms(self) -> int | None:
        """The earliest deadline of a held request (monotonic clock), for `expire`; None if nothing is held."""
        while self._deadlines and self._deadlines[0][1] not in self._held:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def hold(self, wait: ProduceWait[P] | FetchWait[P], *, now_ms: int) -> Done[P] | None:
        """Returns the answer if the request is complete, or its deadline is over; else holds it and returns None."""
        held = _Held(wait)
        for key in held.keys:
            done = held.look(key, self._find(key))
            if done is not None:
                return done
        if wait.deadline_ms <= now_ms or not held.waits_for_something:
            return held.time_out()
        number, self._next_number = self._next_number, self._next_number + 1
        self._held[number] = held
        self._numbers[id(wait)] = number
        for key in held.keys:
            self._by_partition.setdefault(key, {})[number] = None
        heappush(self._deadlines, (wait.deadline_ms, number))
        return None

    def drop(self, wait: ProduceWait[P] | FetchWait[P]) -> None:
        """Lets go of a request whose caller is gone; nothing if it is held no more."""
        if (number := self._numbers.get(id(wait))) is not None:
            self._drop(number)

    def end(self, wait: FetchWait[P]) -> list[Done[P]]:
        """Completes a fetch with what there is by now; returns its answer, or nothing if it is held no more."""
        if (number := self._numbers.get(id(wait))) is None:
            return []
        self._drop(number)
        return [FetchDone(wait)]

    def join(self, wait: FetchWait[P], key: P, position: FetchPosition) -> None:
        """Adds a partition to a fetch that may grow, if it is still held; it is looked at with its next `touch`."""
        assert wait.may_grow, wait
        if (number := self._numbers.get(id(wait))) is not None:
            wait.positions[key] = position
            self._by_partition.setdefault(key, {})[number] = None

    def touch(self, key: P) -> list[Done[P]]:
        """Returns the answers to the requests, no longer held, that a change of this partition completes, in order."""
        partition, done = self._find(key), []
        for number in tuple(self._by_partition.get(key, ())):
            answer = self._held[number].look(key, partition)
            if answer is not None:
                self._drop(number)
                done.append(answer)
        return done

    def expire(self, now_ms: int) -> list[Done[P]]:
        """Returns the answers to the requests whose deadline has come by `now_ms`; they are held no longer."""
        done = []
        while (deadline_ms := self.deadline_ms) is not None and deadline_ms <= now_ms:
            number = heappop(self._deadlines)[1]
            done.append(self._held[number].time_out())
            self._drop(number)
        return done

    def _drop(self, number: int) -> None:
        held = self._held.pop(number)
        del self._numbers[id(held.wait)]
        for key in held.keys:
            numbers = self._by_partition[key]
            del numbers[number]
            if not numbers:
                del self._by_partition[key]
        dead = len(self._deadlines) - len(self._held)
        if dead > max(DEAD_DEADLINES_MIN, len(self._held)):
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._held]
            heapify(self._deadlines)
