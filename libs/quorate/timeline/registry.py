"""The snapshot registry: the offsets that a group of collections can revert to (Kafka's SnapshotRegistry).

    offset      10                20                  present
    state       {a: 1, b: 2}      {a: 1, b: 3}        {b: 3, c: 4}

    kept        {b: 2}            {a: 1, c: absent}   the dict itself

A snapshot keeps, for each collection, the values that were overwritten between it and the next snapshot. So each of
these operations is simple:

* Read at an offset: the first snapshot from that offset on that kept the key has its old value; if none did, the key
  has not changed since, and the present has it.
* Revert: restore what the snapshots kept, newest first.
* Forget the oldest: drop what it kept. No other snapshot needs it.
* Hold one: it stays until it is released, and takes over what forgotten snapshots after it kept. So a checkpoint can
  be written, or a list be read page by page, while the present changes.

There are few snapshots at a time (the last committed offset, the batches in flight, the held ones), so a plain list in
ascending order is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

from quorate.nouns import Offset

# Any: keys and values have the types of their collection, and these differ.
Overwritten: TypeAlias = dict[Any, Any]
"""The old value of each key that changed since a snapshot; ABSENT for a key that did not exist."""


class Absent:
    """The type of ABSENT, which marks a key that did not exist; None cannot, since it may be a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()

UNCHANGED: Final = -1
"""The offset that stands for "no snapshot existed at the last change of a collection"."""


class Reversible(Protocol):
    """The methods that a collection has for its registry; nothing else calls them."""

    changed_at: Offset
    """The newest snapshot's offset at the last change; UNCHANGED for none. After a revert it may be too high."""

    def put_back(self, overwritten: Overwritten) -> None:
        """Restores the old values of the keys in `overwritten`."""

    def empty(self) -> None:
        """Empties the collection, as if it were new."""


class Snapshot:
    """A snapshot: its offset, and the values that each collection has overwritten between it and the next one."""

    __slots__ = ("_overwritten", "offset")

    def __init__(self, offset: Offset) -> None:
        self.offset = offset
        # By the collection's id(), since it need not be hashable. The pair keeps it alive, so the id stays unique.
        self._overwritten: dict[int, tuple[Reversible, Overwritten]] = {}

    def overwritten_by(self, collection: Reversible) -> Overwritten | None:
        """Returns the old values that `collection` has overwritten since this snapshot; None if it has not changed."""
        entry = self._overwritten.get(id(collection))
        return None if entry is None else entry[1]

    def overwriting(self, collection: Reversible) -> Overwritten:
        """Returns the dict in which `collection` stores each old value before it overwrites it for the first time."""
        entry = self._overwritten.get(id(collection))
        if entry is None:
            entry = self._overwritten[id(collection)] = (collection, {})
            collection.changed_at = self.offset
        return entry[1]

    def revert(self) -> None:
        """Restores every collection to this snapshot. All newer snapshots must be reverted before."""
        for collection, overwritten in self._overwritten.values():
            collection.put_back(overwritten)
        self._overwritten.clear()

    def absorb(self, later: Snapshot) -> None:
        """Takes over the old values kept by the next snapshot, which is about to be deleted."""
        for key, (collection, overwritten) in later._overwritten.items():
            mine = self._overwritten.setdefault(key, (collection, overwritten))[1]
            if mine is not overwritten:
                for name, value in overwritten.items():
                    mine.setdefault(name, value)


class SnapshotRegistry:
    """The snapshots of a group of collections, which change and revert together.

    `newest` is the snapshot that keeps the values overwritten now; None if there is none, and then a write costs
    no more than in a plain dict. Only the registry sets it; collections read it at each write.

    Misuse fails an assertion: offsets must rise, and an offset passed in must be that of an existing snapshot.
    """

    __slots__ = ("_collections", "_held", "_snapshots", "newest")

    def __init__(self) -> None:
        self.newest: Snapshot | None = None
        self._held: dict[Offset, int] = {}  # number of holds by offset
        self._snapshots: list[Snapshot] = []
        # Weak references: a collection that the state has dropped is freed. Keys are id(), as in Snapshot.
        self._collections: WeakValueDictionary[int, Reversible] = WeakValueDictionary()

    def register(self, collection: Reversible) -> None:
        """Adds `collection` to those that `reset` empties. Each collection calls this when it is created."""
        self._collections[id(collection)] = collection

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """The offsets of the existing snapshots, ascending."""
        return tuple(snapshot.offset for snapshot in self._snapshots)

    @property
    def latest(self) -> Offset | None:
        """The offset of the newest snapshot; None if there is none."""
        return None if self.newest is None else self.newest.offset

    def __contains__(self, offset: Offset) -> bool:
        """Returns whether there is a snapshot at `offset`."""
        place = self._position_of(offset)
        return place < len(self._snapshots) and self._snapshots[place].offset == offset

    def is_held(self, offset: Offset) -> bool:
        """Returns whether the snapshot at `offset` is held; false after a reset or a revert removed it."""
        return offset in self._held

    def hold(self, offset: Offset) -> None:
        """Holds the snapshot at `offset`: it is not forgotten until it is released as often as it was held."""
        assert offset in self, f"no snapshot at offset {offset}; there are {list(self.offsets)}"
        self._held[offset] = self._held.get(offset, 0) + 1

    def release(self, offset: Offset) -> None:
        """Releases one hold of the snapshot at `offset`. Does nothing if it is not held."""
        count = self._held.pop(offset, 0)
        if count > 1:
            self._held[offset] = count - 1

    def create(self, offset: Offset) -> None:
        """Creates a snapshot at `offset`: the state in which all records below `offset` are applied."""
        assert offset >= 0, offset
        latest = self.latest
        assert latest is None or offset > latest, f"snapshot offsets must rise: {offset} does not lie above {latest}"

        self.newest = Snapshot(offset)
        self._snapshots.append(self.newest)

    def revert_to(self, offset: Offset) -> None:
        """Reverts every collection to the snapshot at `offset`. That snapshot stays, newer ones are removed.

        It takes time in proportion to the number of changed keys. A key that was deleted comes back at the end of its
        dict: the order of keys is not restored.
        """
        place = self._find(offset)
        while len(self._snapshots) > place + 1:
            self._snapshots.pop().revert()
        self._held = {held: count for held, count in self._held.items() if held <= offset}
        self._snapshots[place].revert()
        self.newest = self._snapshots[place]
        assert self.latest == offset, (self.latest, offset)
        assert all(held in self for held in self._held), (self._held, self.offsets)

    def forget_before(self, offset: Offset) -> None:
        """Forgets the snapshots below `offset`, except held ones. `offset` need not be that of a snapshot."""
        if not self._snapshots or offset <= self._snapshots[0].offset:
            return
        end = self._position_of(offset)
        left: list[Snapshot] = []
        for snapshot in self._snapshots[:end]:
            if snapshot.offset in self._held:
                left.append(snapshot)
            elif left:
                left[-1].absorb(snapshot)
        self._snapshots[:end] = left
        self.newest = self._snapshots[-1] if self._snapshots else None
        assert all(held in self for held in self._held), (self._held, self.offsets)

    def delete(self, offset: Offset) -> None:
        """Forgets one snapshot, which must not be held. The one before it, if any, takes over its values."""
        assert offset not in self._held, f"the snapshot at offset {offset} is held"
        place = self._find(offset)
        if place > 0:
            self._snapshots[place - 1].absorb(self._snapshots[place])
        del self._snapshots[place]
        self.newest = self._snapshots[-1] if self._snapshots else None
        assert offset not in self, (offset, self.offsets)

    def reset(self) -> None:
        """Removes all snapshots and empties every collection, before a checkpoint is loaded."""
        self._snapshots.clear()
        self._held.clear()
        self.newest = None
        for collection in list(self._collections.values()):
            collection.empty()

    def overwritten_since(self, offset: Offset, collection: Reversible) -> Iterator[Overwritten]:
        """Yields the values that `collection` has overwritten since `offset`, one dict a snapshot, oldest first.

        For a key in several dicts the first one has the value at `offset`.
        """
        for snapshot in self._snapshots[self._find(offset) :]:
            overwritten = snapshot.overwritten_by(collection)
            if overwritten is not None:
                yield overwritten

    def _position_of(self, offset: Offset) -> int:
        return bisect_left(self._snapshots, offset, key=_offset)

    def _find(self, offset: Offset) -> int:
        assert offset in self, f"no snapshot at offset {offset}; there are {list(self.offsets)}"
        return self._position_of(offset)


def _offset(snapshot: Snapshot) -> Offset:
    return snapshot.offset
