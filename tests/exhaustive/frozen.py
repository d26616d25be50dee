"""A node's memory as a plain value: taken out of the real core, put back into it, its nodes renamed.

A value is None, a bool, an int, a string, bytes, an enum, or a tuple of values. The first item of a tuple that stands
for an object is the object's class name. Two cores with equal values behave alike; `README.md` says why.

Ints carry their meaning in their size, so that no table of field names is needed: from `FIRST_ID` on they are node
ids, and near `NOW_MS` they are moments. A moment is only ever "still to come" or "come".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TypeAlias

import msgspec

from quorate.raft import VoterSet
from quorate.raft.voters import Voter

Value: TypeAlias = object
Renaming: TypeAlias = Mapping[int, int]
"""Each node id by the one that it gets."""

FIRST_ID = 1_001
IDS_MAX = 9
"""Ids are `FIRST_ID` to `FIRST_ID + IDS_MAX`; epochs and offsets stay below, sizes are chosen above."""
NOW_MS = 1_000_000_000
"""The only moment at which anything happens."""
LATER_MS = NOW_MS + 5_000_000
"""Every deadline that has not come, however near it is."""
SPAN_MS_MAX = 100_000_000

CLASSES: dict[str, type] = {}
"""The classes met so far, by name."""
SLOTS: dict[type, tuple[str, ...]] = {}
UNORDERED = ("set", "frozenset", "dict", "VoterSet")


def is_id(value: int) -> bool:
    return FIRST_ID <= value <= FIRST_ID + IDS_MAX


def moment(value: int) -> int:
    """`value`, or if it is a moment, which of the two it is."""
    if not NOW_MS - SPAN_MS_MAX <= value <= NOW_MS + SPAN_MS_MAX:
        return value
    return LATER_MS if value > NOW_MS else NOW_MS


def slots_of(kind: type) -> tuple[str, ...]:
    """The names under which objects of class `kind` keep their state."""
    known = SLOTS.get(kind)
    if known is None:
        known = SLOTS[kind] = _slots_of(kind)
    return known


def _slots_of(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    found = kind.__dict__.get("__slots__")
    assert isinstance(found, tuple), f"{kind} has neither fields nor slots"
    return found


def freeze(thing: object, leave_out: frozenset[str] = frozenset()) -> Value:
    """The value of `thing`; the slots in `leave_out` of `thing` itself are not looked at."""
    kind = type(thing)
    if kind is int:
        return moment(thing)  # type: ignore[arg-type]
    if isinstance(thing, VoterSet):
        return ("VoterSet", *(freeze(voter) for voter in thing.voters))
    if isinstance(thing, tuple) and kind is not tuple:  # one with names
        CLASSES[kind.__name__] = kind
        return (kind.__name__, *(freeze(item) for item in thing))
    match thing:
        case tuple():
            return ("tuple", *(freeze(item) for item in thing))
        case list():
            return ("list", *(freeze(item) for item in thing))
        case set() | frozenset():
            return (kind.__name__, *sorted((freeze(item) for item in thing), key=repr))
        case dict():
            pairs = [("tuple", freeze(key), freeze(value)) for key, value in thing.items()]
            return ("dict", *sorted(pairs, key=repr))
    if thing is None or isinstance(thing, bool | int | str | bytes):
        return thing
    CLASSES[kind.__name__] = kind
    return (kind.__name__, *(freeze(getattr(thing, name)) for name in slots_of(kind) if name not in leave_out))


def thaw(value: Value, left_out: Mapping[str, object] | None = None) -> object:
    """A new object of that value; `left_out` are the slots that were not looked at."""
    if not isinstance(value, tuple):
        return value
    tag, items = value[0], value[1:]
    match tag:
        case "tuple":
            return tuple(thaw(item) for item in items)
        case "list":
            return [thaw(item) for item in items]
        case "set":
            return {thaw(item) for item in items}
        case "frozenset":
            return frozenset(thaw(item) for item in items)
        case "dict":
            return {thaw(pair[1]): thaw(pair[2]) for pair in items if isinstance(pair, tuple)}
        case "VoterSet":
            return _voter_set(value)
    assert isinstance(tag, str), value
    return _object(CLASSES[tag], items, left_out or {})


def _object(kind: type, items: tuple[Value, ...], left_out: Mapping[str, object]) -> object:
    if issubclass(kind, tuple):
        new_tuple: Callable[..., object] = kind
        return new_tuple(*(thaw(item) for item in items))
    if issubclass(kind, msgspec.Struct):
        new_struct: Callable[..., object] = kind
        return new_struct(**dict(zip(slots_of(kind), map(thaw, items), strict=True)))
    new = object.__new__(kind)
    given = iter(items)
    for name in slots_of(kind):
        object.__setattr__(new, name, left_out[name] if name in left_out else thaw(next(given)))
    return new


@cache
def _voter_set(value: tuple[Value, ...]) -> VoterSet:
    voters = [thaw(item) for item in value[1:]]
    return VoterSet(tuple(voter for voter in voters if isinstance(voter, Voter)))


def rename(value: Value, names: Renaming) -> Value:
    """`value` with every node id replaced, and what has no order of its own put in order again."""
    if type(value) is int:
        if is_id(-value):
            return -names[-value]
        return names[value] if is_id(value) else value
    if not isinstance(value, tuple):
        return value
    renamed = tuple([rename(item, names) for item in value])
    if renamed and renamed[0] in UNORDERED:
        return (renamed[0], *sorted(renamed[1:], key=repr))
    return renamed


def replaced(value: Value, old: Value, new: Value) -> Value:
    """`value` with every `old` in it replaced by `new`."""
    if value == old:
        return new
    if not isinstance(value, tuple):
        return value
    return tuple([replaced(item, old, new) for item in value])
