"""Placements that a placer has made ahead: small topics that are alike are placed many in one message.

A placement depends on what is asked, on the usable brokers, and on chance, and on nothing else (`quorate.placement`).
So one that was made before its topic was named is as good as one that is made for it, as long as the brokers are the
same; the decision checks it as any other (`new_partitions.placed`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from quorate.errors import ApiError
from quorate.placement import PlacementSpec, Replicas, UsableBroker

__all__ = ["PlacedAhead"]

AHEAD: Final = 128
"""How many placements of a kind are made ahead, some 3 ms of a placer's CPU; with half of them left, as many again."""
AGAIN_S: Final = 1.0
"""Topics of a kind are placed ahead once one is asked for within this time (s) after another."""
REPLICAS_MAX: Final = 30
"""Topics of more replicas are placed when they are asked for: they take more of a placer than a message does."""
KINDS_MAX: Final = 16
"""The kinds of topics that are kept: those that were asked for last."""


_Sizes: TypeAlias = tuple[int, int]
"""A kind of topics: partition count and replication factor."""


class PlacedAhead:
    """Keeps placements in reserve for topics that are still to be asked for, on one set of usable brokers.

    Topics of one kind have the same partition count and replication factor; each kind has a reserve of its own.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s` is a monotonic clock, in s."""
        self._now_s = now_s
        self._brokers: Sequence[UsableBroker] = ()
        self._kinds: OrderedDict[_Sizes, _Kind] = OrderedDict()
        self.is_low = False
        """Whether half of what was placed ahead of a kind is used up."""

    def take(
        self, specs: Sequence[PlacementSpec], brokers: Sequence[UsableBroker]
    ) -> list[tuple[Replicas, ...] | None]:
        """Takes a placement out of the reserve for each of `specs`, in their order; None where there is none.

        Other `brokers` (another object) than in the last call empty the reserve. A kind is asked for often, and gets a
        reserve, once a call within `AGAIN_S` after another one asks for it, however many topics each has.
        """
        if brokers is not self._brokers:
            self._brokers = brokers
            self._kinds.clear()
            self.is_low = False
        now_s = self._now_s()
        found: list[tuple[Replicas, ...] | None] = []
        missed: set[_Sizes] = set()
        for spec in specs:
            sizes = spec.partition_count, spec.replication_factor
            kind = self._kinds.get(sizes)
            if kind is None:
                missed.add(sizes)
                self._begin(sizes, now_s)
                found.append(None)
                continue
            self._kinds.move_to_end(sizes)
            if kind.ready:
                found.append(kind.ready.popleft())
                self.is_low = self.is_low or len(kind.ready) * 2 <= AHEAD
            else:
                found.append(None)
                if sizes not in missed:
                    kind.is_often = now_s - kind.asked_s <= AGAIN_S
                    missed.add(sizes)
            kind.asked_s = now_s
        return found

    def _begin(self, sizes: _Sizes, now_s: float) -> None:
        if sizes[0] * sizes[1] <= REPLICAS_MAX:
            self._kinds[sizes] = _Kind(now_s)
            if len(self._kinds) > KINDS_MAX:
                self._kinds.popitem(last=False)

    def wanted(self) -> list[PlacementSpec]:
        """Returns the topics to place in reserve now: what is missing of each kind that is asked for often.

        A kind of which more than half is left has none.
        """
        self.is_low = False
        missing = {sizes: AHEAD - len(kind.ready) for sizes, kind in self._kinds.items() if kind.is_often}
        return [
            PlacementSpec(partition_count=partitions, replication_factor=replicas)
            for (partitions, replicas), count in missing.items()
            if count * 2 >= AHEAD
            for _ in range(count)
        ]

    def add(
        self, spec: PlacementSpec, placement: tuple[Replicas, ...] | ApiError, brokers: Sequence[UsableBroker]
    ) -> None:
        """Adds a placement on these brokers to the reserve; it is dropped if the brokers of now are others.

        After an error no more are placed in reserve for this kind until it is asked for often again.
        """
        kind = self._kinds.get((spec.partition_count, spec.replication_factor))
        if kind is None or brokers is not self._brokers:
            return
        if isinstance(placement, ApiError):
            kind.is_often = False  # its callers get the refusal; the next one asks again
        else:
            kind.ready.append(placement)
            assert len(kind.ready) <= AHEAD, (spec, len(kind.ready))


class _Kind:
    """The placements of one kind that are ready, and whether it is asked for often."""

    __slots__ = ("asked_s", "is_often", "ready")

    def __init__(self, asked_s: float) -> None:
        self.asked_s = asked_s
        self.is_often = False
        self.ready: deque[tuple[Replicas, ...]] = deque()
