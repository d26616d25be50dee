"""The tables of a state database: of each noun the present rows, those that were, and a view of both.

A row of the present says from which record on it holds; a row of the past says, too, by which record it ended. Columns
of numbers, texts and JSON are as in `tables`, so that the same question may be asked of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

from quorate.nouns import Offset
from quorate.sql.nouns import NOUNS, Noun
from quorate.sql.tables import column_of

__all__ = [
    "APPLIED",
    "FROM",
    "GAPS",
    "LONG_KEYS",
    "METADATA",
    "NOUN_TABLES",
    "PLACE_TYPES",
    "TO",
    "NounTables",
    "whole_at",
]

METADATA: Final = MetaData()

FROM: Final = ("valid_from_offset", "valid_from_epoch", "valid_from_ms", "valid_from_trace")
"""The columns of the record that made a row what it is, in the order of a `Place`."""
TO: Final = ("valid_to_offset", "valid_to_epoch", "valid_to_ms", "valid_to_trace")
"""The columns of the record that ended it."""
PLACE_TYPES: Final[tuple[type[TypeEngine[Any]], ...]] = (BigInteger, BigInteger, BigInteger, Text)
"""The types of both."""

LONG_KEYS: Final[Mapping[str, str]] = {
    "client_quotas": "entity",
    "configs": "resource_name",
    "features": "name",
    "scram_users": "name",
}
"""Tables whose key is a text of any length, and the column of it by which PostgreSQL finds a row.

Its B-trees refuse a row of more than 2,704 bytes; a hash index has only the hash. In the keys of all other tables are
numbers, ids, and names of topics, which have 249 characters at most.
"""

OWNED: Final[Mapping[str, str]] = {"partitions": "topic"}
"""Tables of whose past a part is read in its order, and the column that says whose: a topic may have most changes of
all. Of a row of another table there are few, which are sorted."""

_SAID: Final = {
    "offset": "The offset of the record that {} this row.",
    "epoch": "The leader epoch of that record.",
    "ms": "When it was appended, in ms since 1970.",
    "trace": "The trace of the request that caused it, by its id; null if it has none, or a checkpoint was read.",
}


def _places(names: tuple[str, ...], did: str) -> list[Column[Any]]:  # Any: as SQLAlchemy has columns of any type
    return [
        Column(name, kind, comment=_SAID[name.rpartition("_")[2]].format(did))
        for name, kind in zip(names, PLACE_TYPES, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NounTables:
    """The two tables of a `Noun`, one of present rows and one of past rows, and the SQL of the view of both."""

    noun: Noun
    present: Table
    past: Table
    incoming: Table
    """A temporary table, for rows that are compared with those that are there."""

    @property
    def history(self) -> str:
        """The name of the view of both tables."""
        return f"{self.noun.name}_history"

    def history_query(self, had: Sequence[str] = ()) -> str:
        """Returns the SELECT of the view of both tables; the columns of the end are null in rows of the present.

        It begins with the columns that the view `had`: PostgreSQL replaces none whose columns move. Those of a later
        release are in the tables, too.
        """
        nowhere = {name: f"CAST(NULL AS {kind()}) AS {name}" for name, kind in zip(TO, PLACE_TYPES, strict=True)}
        names = dict.fromkeys([*had, *(each.name for each in self.present.columns), *TO])
        of_past = ", ".join(f'"{name}"' for name in names)
        of_present = ", ".join(nowhere.get(name, f'"{name}"') for name in names)
        return f"SELECT {of_past} FROM {self.past.name} UNION ALL SELECT {of_present} FROM {self.present.name}"


def _tables(noun: Noun) -> NounTables:
    present = Table(
        noun.name, METADATA, *map(column_of, noun.columns), *_places(FROM, "made"), comment=f"{noun.about}: now"
    )
    past = Table(
        f"{noun.name}_past",
        METADATA,
        *map(column_of, noun.columns),
        *_places(FROM, "made"),
        *_places(TO, "ended"),
        comment=f"{noun.about}: as they were",
    )
    incoming = Table(f"incoming_{noun.name}", MetaData(), *map(column_of, noun.columns), prefixes=["TEMPORARY"])
    for table in (present, past, incoming) if noun.identity else ():
        _index_key(table, noun)
    for table, offsets in ((present, FROM[:1]), (past, (FROM[0], TO[0]))):
        for name in offsets:  # what changed is looked for by its offset
            Index(f"{table.name}_{name}", table.c[name])
            if noun.name in OWNED:
                Index(f"{table.name}_{OWNED[noun.name]}_{name}", table.c[OWNED[noun.name]], table.c[name])
    return NounTables(noun=noun, present=present, past=past, incoming=incoming)


def _index_key(table: Table, noun: Noun) -> None:
    """No primary key: a row that a log made by hand has twice is there twice, as elsewhere."""
    key = Index(f"{table.name}_key", *(table.c[name] for name in noun.identity))
    if noun.name in LONG_KEYS:
        key.ddl_if(dialect="sqlite")
        by_hash = Index(f"{table.name}_hash", table.c[LONG_KEYS[noun.name]], postgresql_using="hash")
        by_hash.ddl_if(dialect="postgresql")


NOUN_TABLES: Final[Mapping[str, NounTables]] = {name: _tables(noun) for name, noun in NOUNS.items()}

APPLIED: Final = Table(
    "applied",
    METADATA,
    Column("only", Integer, primary_key=True, comment="1: this table has one row."),
    Column("cluster_id", Text, nullable=False, comment="The id of the cluster whose log it is."),
    Column("next_offset", BigInteger, nullable=False, comment="Every record below this offset is in the tables."),
    Column("epoch", BigInteger, nullable=False, comment="The leader epoch of the last of them."),
    Column("timestamp_ms", BigInteger, nullable=False, comment="When that was appended, in ms since 1970."),
    Column("whole", Text, comment="Of which columns the rows have all values, and at which next offset that was said."),
    comment="how much of the log the tables have",
)


def whole_at(next_offset: Offset) -> str:
    """Returns the text for `whole` in `applied` if all rows have a value in each column of this release.

    It is another one for a release with other columns, and for another `next_offset`: so the mark is no longer right
    after a release that knows of none has written.
    """
    return f"{_COLUMNS} {next_offset}"


_COLUMNS: Final = sha256(
    repr(
        [(tables.noun.name, [column.name for column in tables.present.columns]) for tables in NOUN_TABLES.values()]
    ).encode()
).hexdigest()[:16]

GAPS: Final = Table(
    "history_gaps",
    METADATA,
    Column("after_offset", BigInteger, nullable=False, comment="The last offset before it; -1 for the log's start."),
    Column("until_offset", BigInteger, nullable=False, comment="The offset at which all its changes are written."),
    Column("until_ms", BigInteger, comment="When its last change was, in ms since 1970; null if not known."),
    comment="parts of the log that a checkpoint has replaced: what changed in one is written as one change at its end; "
    "from -1 on also what the retention has dropped, or what was before tables have grown",
)
