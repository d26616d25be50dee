"""A dict and a value that can revert to the snapshots of their registry.

A read of the present is a read of a plain dict. `at(offset)` returns a view of a snapshot, not a copy. It stays correct
while the present changes, and fails an assertion after its snapshot is forgotten.

Iteration is in order of insertion, and so the same on every replica that applied the same records, except for keys that
a revert brought back: sort where the order matters.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Generic, TypeVar

from quorate.nouns import Offset
from quorate.timeline.registry import ABSENT, UNCHANGED, Absent, Overwritten, SnapshotRegistry

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
T = TypeVar("T")


class TimelineDict(Mapping[K, V]):
    """A dict that can revert to a snapshot of its registry.

    It stores values without copying them. A value changed in place would change in every snapshot, too, so values must
    be immutable, or be timeline collections themselves.

    It is equal to any mapping with the same contents, and is not hashable.
    """

    __slots__ = ("__weakref__", "_present", "_registry", "changed_at", "get")

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._registry = registry
        self._present: dict[K, V] = {}  # the same one for ever
        self.get = self._present.get  # type: ignore[method-assign]  # most reads are by it: the dict's own costs no call
        self.changed_at = UNCHANGED
        registry.register(self)

    def __getitem__(self, key: K) -> V:
        return self._present[key]

    def __contains__(self, key: object) -> bool:
        return key in self._present

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Iterator[K]:
        return iter(self._present)

    def keys(self) -> KeysView[K]:
        return self._present.keys()

    def values(self) -> ValuesView[V]:
        return self._present.values()

    def items(self) -> ItemsView[K, V]:
        return self._present.items()

    def __repr__(self) -> str:
        return f"TimelineDict({self._present!r})"

    def at(self, offset: Offset) -> Mapping[K, V]:
        """Returns a read-only view of the contents at the snapshot at `offset`.

        An iteration fixes its keys at its start and looks up each value when it reaches it, so a checkpoint can be
        written slowly while the present changes.
        """
        assert offset in self._registry, f"no snapshot at offset {offset}; there are {list(self._registry.offsets)}"
        return _DictAt(self, offset)

    def __setitem__(self, key: K, value: V) -> None:
        snapshot = self._registry.newest
        if snapshot is not None:
            overwritten = snapshot.overwriting(self)
            if key not in overwritten:
                overwritten[key] = self._present.get(key, ABSENT)
        self._present[key] = value

    def __delitem__(self, key: K) -> None:
        """Deletes `key`. Raises KeyError, and changes nothing, if it does not exist."""
        value = self._present.pop(key)
        snapshot = self._registry.newest
        if snapshot is not None:
            snapshot.overwriting(self).setdefault(key, value)

    def pop(self, key: K, default: D, /) -> V | D:
        """Removes `key` and returns its value; returns `default` if it does not exist."""
        if key not in self._present:
            return default
        value = self._present[key]
        del self[key]
        return value

    def update(self, pairs: Mapping[K, V] | Iterable[tuple[K, V]], /) -> None:
        """Sets many keys. Without a snapshot it costs the same as for a plain dict, so a checkpoint loads fast."""
        snapshot = self._registry.newest
        if snapshot is None:
            self._present.update(pairs)
            return
        present, overwritten = self._present, snapshot.overwriting(self)
        for key, value in pairs.items() if isinstance(pairs, Mapping) else pairs:
            if key not in overwritten:
                overwritten[key] = present.get(key, ABSENT)
            present[key] = value

    def clear(self) -> None:
        """Removes all keys from the dict. A revert brings them back."""
        snapshot = self._registry.newest
        if snapshot is not None:
            overwritten = snapshot.overwriting(self)
            for key, value in self._present.items():
                overwritten.setdefault(key, value)
        self._present.clear()

    def overwritten_since(self, offset: Offset) -> Mapping[K, V | Absent]:
        """Returns the values overwritten since the snapshot at `offset`, as they were there; ABSENT for a new key.

        All keys that may differ between that snapshot and the present are in it.
        """
        since: dict[K, V | Absent] = {}
        for overwritten in reversed(list(self._registry.overwritten_since(offset, self))):
            since.update(overwritten)  # newest first, so that the value of the oldest snapshot remains
        return since

    def was(self, offset: Offset, key: K) -> V | Absent:
        """Returns the value of `key` at the snapshot at `offset`; ABSENT if it did not exist."""
        for overwritten in self._registry.overwritten_since(offset, self):
            if key in overwritten:
                before: V | Absent = overwritten[key]
                return before
        return self._present.get(key, ABSENT)

    def put_back(self, overwritten: Overwritten) -> None:
        """Restores old values when the registry reverts; called by the registry only."""
        for key, value in overwritten.items():
            if value is ABSENT:
                self._present.pop(key, None)
            else:
                self._present[key] = value

    def empty(self) -> None:
        """Empties the dict when the registry is reset; called by the registry only."""
        self._present.clear()
        self.changed_at = UNCHANGED


class _DictAt(Mapping[K, V]):
    """A read-only view of a TimelineDict at one snapshot."""

    __slots__ = ("_dict", "_offset")

    def __init__(self, timeline: TimelineDict[K, V], offset: Offset) -> None:
        self._dict = timeline
        self._offset = offset

    def __getitem__(self, key: K) -> V:
        value = self._dict.was(self._offset, key)
        if isinstance(value, Absent):
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._dict.was(self._offset, key) is not ABSENT  # type: ignore[arg-type]  # `in` accepts any object

    def __len__(self) -> int:
        count = len(self._dict)
        for key, before in self._dict.overwritten_since(self._offset).items():
            count += (before is not ABSENT) - (key in self._dict)
        return count

    def __iter__(self) -> Iterator[K]:
        overwritten = self._dict.overwritten_since(self._offset)
        unchanged = [key for key in self._dict if key not in overwritten] if overwritten else list(self._dict)
        yield from unchanged
        yield from (key for key, before in overwritten.items() if before is not ABSENT)

    def __repr__(self) -> str:
        return f"<{dict(self)!r} at offset {self._offset}>"


class TimelineValue(Generic[T]):
    """A single value that can revert to a snapshot of its registry. It is `initial` at first and after a reset."""

    __slots__ = ("__weakref__", "_initial", "_registry", "_value", "changed_at")

    def __init__(self, registry: SnapshotRegistry, initial: T) -> None:
        self._registry = registry
        self._initial = initial
        self._value = initial
        self.changed_at = UNCHANGED
        registry.register(self)

    @property
    def value(self) -> T:
        """The present value. Setting it keeps the old value for the newest snapshot."""
        return self._value

    @value.setter
    def value(self, value: T) -> None:
        snapshot = self._registry.newest
        if snapshot is not None:
            snapshot.overwriting(self).setdefault(None, self._value)
        self._value = value

    def at(self, offset: Offset) -> T:
        """Returns the value at the snapshot at `offset`."""
        for overwritten in self._registry.overwritten_since(offset, self):
            before: T = overwritten[None]
            return before
        return self._value

    def __repr__(self) -> str:
        return f"TimelineValue({self._value!r})"

    def put_back(self, overwritten: Overwritten) -> None:
        """Restores the old value when the registry reverts; called by the registry only."""
        self._value = overwritten[None]

    def empty(self) -> None:
        """Sets the initial value when the registry is reset; called by the registry only."""
        self._value = self._initial
        self.changed_at = UNCHANGED
