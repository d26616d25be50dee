"""What differs between two states, row by row of the tables: created, changed, deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from quorate.sql.nouns import NOUNS, Image, Noun, Row, Value, column_names, rows

__all__ = ["Change", "Difference", "compared", "differences"]


class Change(StrEnum):
    """What has become of a row."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row that is not the same in both states.

    `key` says which row it is. `before` and `after` have its other columns: all of them of a row that was created or
    deleted, of which the other side is empty; of a row that was changed those that differ.
    """

    noun: Noun
    key: Mapping[str, Value]
    change: Change
    before: Mapping[str, Value]
    after: Mapping[str, Value]


def differences(before: Image, after: Image) -> Iterator[Difference]:
    """Yields what differs, in the order of the tables, and of their keys.

    A secret is in no table, so that a password which was changed to another one makes no difference.
    """
    for noun in NOUNS.values():
        yield from compared(noun, rows(noun, before), rows(noun, after))


def compared(noun: Noun, before: Iterable[Row], after: Iterable[Row]) -> Iterator[Difference]:
    """Yields what differs between rows of one table, in the order of their keys."""
    names = column_names(noun.name)
    places = [names.index(name) for name in noun.identity]
    old, new = _by_key(places, before), _by_key(places, after)
    changed = (key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    for key in sorted(changed, key=_in_order):
        was, now = (_others(names, places, each.get(key)) for each in (old, new))
        change = Change.CREATED if key not in old else Change.DELETED if key not in new else Change.CHANGED
        if change is Change.CHANGED:
            differing = [name for name in was if was[name] != now[name]]
            was, now = ({name: each[name] for name in differing} for each in (was, now))
        named = dict(zip(noun.identity, key, strict=False))
        yield Difference(noun=noun, key=named, change=change, before=was, after=now)


Key = tuple[Value, ...]


def _by_key(places: Sequence[int], of: Iterable[Row]) -> dict[Key, Row]:
    """Returns the rows by key. What a log made by hand has twice is told apart by a number after the key."""
    found: dict[Key, Row] = {}
    again: Counter[Key] = Counter()
    for row in of:
        key: Key = tuple(row[place] for place in places)
        if key in found:
            again[key] += 1
            key = (*key, again[key])
        found[key] = row
    return found


def _in_order(key: Key) -> list[tuple[bool, int | float, str]]:
    return [(each is None, 0, each) if isinstance(each, str) else (each is None, each or 0, "") for each in key]


def _others(names: Sequence[str], places: Sequence[int], row: Row | None) -> dict[str, Value]:
    if row is None:
        return {}
    return {name: value for place, (name, value) in enumerate(zip(names, row, strict=True)) if place not in places}
