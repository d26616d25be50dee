"""The subject of a history: a topic, a broker, a controller, a user, one table, or all there is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.sql.difference import Difference
from quorate.sql.nouns import NOUNS, Value

__all__ = ["Subject", "subject_of"]

SHOWN_MAX: Final = 80
"""Characters of a refused subject that the error shows."""
ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose rows a history is to show: those of a topic, a broker, a controller, a user, or of one table or all.

    `tables` says which tables have such rows, and which values the columns of their keys have then; `is_own` looks at
    what is no part of a key.
    """

    tables: Mapping[str, Mapping[str, Value]]
    is_own: Callable[[Difference], bool]

    def has(self, found: Difference) -> bool:
        """Returns whether a changed row is one of this subject's, before or after its change."""
        wanted = self.tables.get(found.noun.name)
        if wanted is None or any(found.key[name] != value for name, value in wanted.items()):
            return False
        return self.is_own(found)


def subject_of(text: str | None) -> Subject:
    """Reads `topic/NAME`, `broker/ID`, `controller/ID`, `user/NAME`, or the name of a table; None is all.

    Raises ValueError for another text. A name that nothing has, or an id that is no number, is a subject without rows.
    """
    if text is None or text in NOUNS:
        return Subject({name: {} for name in (NOUNS if text is None else (text,))}, _is_any)
    kind, slash, name = text.partition("/")
    tables_of = _TABLES_OF.get(kind)
    if not slash or not name or tables_of is None:
        kinds = ", ".join(f"{each}/…" for each in _TABLES_OF)
        raise ValueError(f"{text[:SHOWN_MAX]!r}: a history is of {kinds}, or of a table: {', '.join(NOUNS)}")
    return Subject(tables_of(name), (lambda found: _is_of_user(found, name)) if kind == "user" else _is_any)


def _is_any(found: Difference) -> bool:
    return True


def _of_topic(name: str) -> Mapping[str, Mapping[str, Value]]:
    return {"topics": {"name": name}, "partitions": {"topic": name}, "configs": _configs_of("TOPIC", name)}


def _of_broker(name: str) -> Mapping[str, Mapping[str, Value]]:
    return {**_of_id(name, brokers="broker_id"), "configs": _configs_of("BROKER", name)}


def _of_controller(name: str) -> Mapping[str, Mapping[str, Value]]:
    return _of_id(name, controllers="controller_id", voters="voter_id")


def _of_user(name: str) -> Mapping[str, Mapping[str, Value]]:
    return {"scram_users": {"name": name}, "acls": {}, "client_quotas": {}, "delegation_tokens": {}}


def _of_id(name: str, **columns: str) -> Mapping[str, Mapping[str, Value]]:
    """Returns the tables in which a node has rows, by their columns of its id; none if the name is no id."""
    is_id = name.isascii() and name.isdecimal() and len(name) <= len(str(ID_MAX)) and str(int(name)) == name
    return {table: {column: int(name)} for table, column in columns.items()} if is_id and int(name) <= ID_MAX else {}


def _configs_of(kind: str, name: str) -> Mapping[str, Value]:
    return {"resource_type": kind, "resource_name": name}


def _is_of_user(found: Difference, name: str) -> bool:
    match found.noun.name:
        case "acls":
            return f"User:{name}" in _said_of(found, "principal")
        case "delegation_tokens":
            return f"User:{name}" in _said_of(found, "owner")
        case "client_quotas":
            return {"entity_type": "user", "entity_name": name} in json.loads(str(found.key["entity"]))
    return True


def _said_of(found: Difference, column: str) -> tuple[Value, ...]:
    """Returns what a column has on both sides."""
    return tuple(side.get(column, found.same.get(column)) for side in (found.before, found.after))


_TABLES_OF: Final[Mapping[str, Callable[[str], Mapping[str, Mapping[str, Value]]]]] = {
    "topic": _of_topic,
    "broker": _of_broker,
    "controller": _of_controller,
    "user": _of_user,
}
