"""The points to which state can go back: snapshots by offset, and what has been overwritten since each.

    offset      10                20                  present
    state       {a: 1, b: 2}      {a: 1, b: 3}        {b: 3, c: 4}

    kept        {b: 2}            {a: 1, c: absent}   the dict itself

A snapshot keeps, for each collection, the values that were overwritten between it and the next
snapshot. So three things are simple:

* Read at an offset: the first snapshot from that offset onward that kept the key has its value then;
  if none did, the key has not changed since and the present has it.
* Revert: put back what the snapshots kept, newest first.
* Forget the oldest: drop what it kept. Nobody else needs it.

* Hold one: it is not forgotten before it is released, and takes over what the forgotten ones after it kept.
  So a checkpoint is written, and a list is read page by page, while the present moves on.

There are a few snapshots at a time (the last committed offset, the batches in flight, what is held), so a plain
list in ascending order is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

from quorate.nouns import Offset

# Any: keys and values are of the collection's own types, which differ from one to the next.
Overwritten: TypeAlias = dict[Any, Any]
"""What a collection held under each key before the key's first change; ABSENT where it held nothing."""


class Absent:
    """There was nothing under this key. A value may be None, so None cannot say it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()

UNCHANGED: Final = -1
"""In the place of an offset: no snapshot was live when a collection changed."""


class Reversible(Protocol):
    """What a collection offers to its registry, and to nobody else."""

    changed_at: Offset
    """The newest snapshot since which it has changed, UNCHANGED if none; a later one after a revert."""

    def put_back(self, overwritten: Overwritten) -> None:
        """Make the keys of `overwritten` what they were."""

    def empty(self) -> None:
        """Be as when made."""


class Snapshot:
    """One point in time: its offset, and what each collection has overwritten between it and the next."""

    __slots__ = ("_kept", "offset")

    def __init__(self, offset: Offset) -> None:
        self.offset = offset
        # By the collection's id(): a collection need not be hashable. The pair holds it, so the id stays its own.
        self._kept: dict[int, tuple[Reversible, Overwritten]] = {}

    def kept(self, collection: Reversible) -> Overwritten | None:
        """What `collection` has overwritten; None if it has not changed."""
        entry = self._kept.get(id(collection))
        return None if entry is None else entry[1]

    def keep(self, collection: Reversible) -> Overwritten:
        """Where `collection` notes what it is about to overwrite for the first time since this snapshot."""
        entry = self._kept.get(id(collection))
        if entry is None:
            entry = self._kept[id(collection)] = (collection, {})
            collection.changed_at = self.offset
        return entry[1]

    def revert(self) -> None:
        """Put everything back as it was at this snapshot, provided nothing newer is left."""
        for collection, overwritten in self._kept.values():
            collection.put_back(overwritten)
        self._kept.clear()

    def absorb(self, later: Snapshot) -> None:
        """Take over what the next snapshot kept, which is about to be deleted."""
        for key, (collection, overwritten) in later._kept.items():
            mine = self._kept.setdefault(key, (collection, overwritten))[1]
            if mine is not overwritten:
                for name, value in overwritten.items():
                    mine.setdefault(name, value)


class SnapshotRegistry:
    """The live snapshots of a group of collections that change, and go back, together.

    `newest` is the snapshot that takes what is overwritten now; None while none is live, and then a
    write costs no more than the dict's own. Only a registry writes it; collections read it at each write.

    Misuse is ours, so it is an assertion: offsets must rise, and an offset that is named must be live.
    """

    __slots__ = ("_collections", "_held", "_snapshots", "newest")

    def __init__(self) -> None:
        self.newest: Snapshot | None = None
        self._held: dict[Offset, int] = {}  # by how many
        self._snapshots: list[Snapshot] = []
        # Weak: a registry does not keep alive a collection that the state has dropped. By id() as in Snapshot.
        self._collections: WeakValueDictionary[int, Reversible] = WeakValueDictionary()

    def register(self, collection: Reversible) -> None:
        """Make `collection` subject to `reset`; each collection does so when it is made."""
        self._collections[id(collection)] = collection

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """The offsets of the live snapshots, ascending."""
        return tuple(snapshot.offset for snapshot in self._snapshots)

    @property
    def latest(self) -> Offset | None:
        """The offset of the newest live snapshot; None if there is none."""
        return None if self.newest is None else self.newest.offset

    def __contains__(self, offset: Offset) -> bool:
        """Is a snapshot at `offset` live?"""
        place = self._place(offset)
        return place < len(self._snapshots) and self._snapshots[place].offset == offset

    def is_held(self, offset: Offset) -> bool:
        """Is the snapshot at `offset` held, and not lost in a reset or a revert?"""
        return offset in self._held

    def hold(self, offset: Offset) -> None:
        """Keep a snapshot, whatever is forgotten, until it is released as many times as it was held."""
        assert offset in self, f"no snapshot at offset {offset}; there are {list(self.offsets)}"
        self._held[offset] = self._held.get(offset, 0) + 1

    def release(self, offset: Offset) -> None:
        """The snapshot at `offset` may be forgotten again like any other; nothing happens if it is not held."""
        count = self._held.pop(offset, 0)
        if count > 1:
            self._held[offset] = count - 1

    def create(self, offset: Offset) -> None:
        """Make the present something to come back to: the state with all records below `offset` applied."""
        assert offset >= 0, offset
        latest = self.latest
        assert latest is None or offset > latest, f"snapshot offsets must rise: {offset} does not lie above {latest}"

        self.newest = Snapshot(offset)
        self._snapshots.append(self.newest)

    def revert_to(self, offset: Offset) -> None:
        """Bring every collection back to what it was at `offset`. That snapshot stays, the newer ones are gone.

        Takes time in proportion to the keys changed since. A key that had been deleted returns at
        the end of its dict: order is the one thing that does not come back.
        """
        place = self._find(offset)
        while len(self._snapshots) > place + 1:
            self._snapshots.pop().revert()
        self._held = {held: count for held, count in self._held.items() if held <= offset}
        self._snapshots[place].revert()
        self.newest = self._snapshots[place]

    def forget_before(self, offset: Offset) -> None:
        """Forget the snapshots below `offset`, but for held ones. `offset` need not be one. The present stays."""
        if not self._snapshots or offset <= self._snapshots[0].offset:
            return
        end = self._place(offset)
        kept: list[Snapshot] = []
        for snapshot in self._snapshots[:end]:
            if snapshot.offset in self._held:
                kept.append(snapshot)
            elif kept:
                kept[-1].absorb(snapshot)
        self._snapshots[:end] = kept
        self.newest = self._snapshots[-1] if self._snapshots else None

    def delete(self, offset: Offset) -> None:
        """Forget one snapshot. What it kept goes to the one before it, if there is one."""
        assert offset not in self._held, f"the snapshot at offset {offset} is held"
        place = self._find(offset)
        if place > 0:
            self._snapshots[place - 1].absorb(self._snapshots[place])
        del self._snapshots[place]
        self.newest = self._snapshots[-1] if self._snapshots else None

    def reset(self) -> None:
        """Forget all snapshots and empty every collection, as before a checkpoint is loaded."""
        self._snapshots.clear()
        self._held.clear()
        self.newest = None
        for collection in list(self._collections.values()):
            collection.empty()

    def kept_since(self, offset: Offset, collection: Reversible) -> Iterator[Overwritten]:
        """What `collection` has overwritten since `offset`, oldest first: the first to know a key is right."""
        for snapshot in self._snapshots[self._find(offset) :]:
            overwritten = snapshot.kept(collection)
            if overwritten is not None:
                yield overwritten

    def _place(self, offset: Offset) -> int:
        return bisect_left(self._snapshots, offset, key=_offset)

    def _find(self, offset: Offset) -> int:
        assert offset in self, f"no snapshot at offset {offset}; there are {list(self.offsets)}"
        return self._place(offset)


def _offset(snapshot: Snapshot) -> Offset:
    return snapshot.offset
