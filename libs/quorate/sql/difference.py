"""The difference between two states, row by row of the tables: created, changed, deleted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Final, TypeAlias

from kraft import Message
from quorate.controller.secrets import redacted
from quorate.sql.nouns import NOUNS, Image, Noun, Row, Value, column_names, rows, rows_of

__all__ = ["Change", "Difference", "compared", "compared_row", "differences", "secrets"]


_WITH_SECRETS: Final[Mapping[str, Callable[[Image], Iterable[Message]]]] = defaultdict(
    lambda: lambda image: (),
    configs=lambda image: (record for record, _ in image.state.configs.records()),
    scram_users=lambda image: image.state.scram,
)
"""By table: the records of which a part is shown nowhere."""


class Change(StrEnum):
    """The kinds of change of a row between two states."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row that is not the same in both states.

    `key` says which row it is. `before` and `after` have its other columns: all of them of a row that was created or
    deleted, of which the other side is empty; of a row that was changed those that differ. Where only a password or the
    salt and keys of a SCRAM user are others, both are empty: secrets are in no table.
    """

    noun: Noun
    key: Mapping[str, Value]
    change: Change
    before: Mapping[str, Value]
    after: Mapping[str, Value]
    same: Mapping[str, Value] = field(default_factory=dict, compare=False)
    """The other columns of a row that was changed: they are as they were."""


def differences(before: Image, after: Image) -> Iterator[Difference]:
    """Yields the rows that differ between two states, in the order of the tables, and of their keys.

    A row of which only the secret is another one, which no table shows, is among them as changed.
    """
    for noun in NOUNS.values():
        old, new = secrets(noun, _WITH_SECRETS[noun.name](before)), secrets(noun, _WITH_SECRETS[noun.name](after))
        rewritten = {row for row in old.keys() & new.keys() if old[row] != new[row]}
        yield from compared(noun, rows(noun, before), rows(noun, after), rewritten)


def secrets(noun: Noun, records: Iterable[Message]) -> dict[Row, Message]:
    """Returns those of the records that have a secret, by the row of the table in which each is shown redacted."""
    shown = ((record, redacted(record)) for record in records)
    return {row: record for record, public in shown if public != record for row in rows_of(noun, [((), public)])}


def compared(
    noun: Noun, before: Iterable[Row], after: Iterable[Row], rewritten: Collection[Row] = ()
) -> Iterator[Difference]:
    """Yields the rows of one table that were created, changed or deleted after `before`, in the order of their keys.

    `rewritten` are rows that are the same on both sides, but have another secret: they are changed rows, too.
    """
    names = column_names(noun.name)
    places = [names.index(name) for name in noun.identity]
    old, new = _by_key(places, before), _by_key(places, after)
    changed = (key for key in old.keys() | new.keys() if old.get(key) != new.get(key) or new.get(key) in rewritten)
    for key in sorted(changed, key=_in_order):
        was, now = (_others(names, places, each.get(key)) for each in (old, new))
        change = Change.CREATED if key not in old else Change.DELETED if key not in new else Change.CHANGED
        same: Mapping[str, Value] = {}
        if change is Change.CHANGED:
            same = {name: value for name, value in was.items() if value == now[name]}
            was, now = ({name: each[name] for name in each if name not in same} for each in (was, now))
        named = dict(zip(noun.identity, key, strict=False))
        yield Difference(noun=noun, key=named, change=change, before=was, after=now, same=same)


def compared_row(noun: Noun, before: Row, after: Row) -> Iterator[Difference]:
    """Yields how a row has changed; nothing if it has not. Both rows have the same key.

    It is `compared` for one row without a secret, only faster: most records change one row.
    """
    if before == after:
        return
    key, others = _places(noun.name)
    was: dict[str, Value] = {}
    now: dict[str, Value] = {}
    same: dict[str, Value] = {}
    for name, place in others:
        old, new = before[place], after[place]
        if old == new:
            same[name] = new
        else:
            was[name], now[name] = old, new
    named = {name: after[place] for name, place in key}
    yield Difference(noun=noun, key=named, change=Change.CHANGED, before=was, after=now, same=same)


_Places: TypeAlias = Sequence[tuple[str, int]]


@cache
def _places(table: str) -> tuple[_Places, _Places]:
    """Returns where a row has the columns of its key, in the key's order, and where the others."""
    names, identity = column_names(table), NOUNS[table].identity
    others = [(name, place) for place, name in enumerate(names) if name not in identity]
    return [(name, names.index(name)) for name in identity], others


Key = tuple[Value, ...]


def _by_key(places: Sequence[int], of: Iterable[Row]) -> dict[Key, Row]:
    """Returns the rows by key. Rows that a log made by hand has twice have a number after the key."""
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
