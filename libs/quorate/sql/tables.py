"""The nouns as tables of SQLAlchemy, with the columns' comments, for any database that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

from quorate.sql.nouns import NOUNS, Named, Noun
from quorate.wire.schema import FieldType

__all__ = ["COLUMNS", "METADATA", "TABLES", "column_of", "described"]

METADATA: Final = MetaData()

_TYPES: Final[Mapping[FieldType, type[TypeEngine[Any]]]] = {  # Any: what the column's values are in Python
    FieldType.BOOL: Boolean,
    FieldType.FLOAT64: Double,
    FieldType.STRING: Text,
    FieldType.UUID: Text,
    FieldType.STRUCT: Text,
}
"""All other types are integers."""


def _table(noun: Noun) -> Table:
    table = Table(noun.name, METADATA, *map(column_of, noun.columns), comment=noun.about)
    if noun.key:
        # No primary key: what a log made by hand has twice is shown twice, as elsewhere.
        Index(f"{noun.name}_key", *(table.c[name] for name in noun.key))
    return table


def column_of(named: Named) -> Column[Any]:
    """Returns SQLAlchemy's column for a column, with its type and its comment."""
    return Column(named.name, _TYPES.get(named.kind, BigInteger), comment=named.comment or None)


TABLES: Final[Mapping[str, Table]] = {name: _table(noun) for name, noun in NOUNS.items()}

COLUMNS: Final = Table(
    "columns",
    METADATA,
    Column("table_name", Text, comment="A table's name."),
    Column("column_name", Text, comment="A column's name."),
    Column("type", Text, comment="The type of its values; JSON for a list, as text."),
    Column("comment", Text, comment="What it is."),
    comment="what each column is",
)


def described() -> list[tuple[str, str, str, str]]:
    """Returns the rows of COLUMNS (table, column, type, comment), in the order of the tables and columns."""
    return [
        (noun.name, each.name, "JSON" if each.kind is FieldType.STRUCT else each.kind.value, each.comment)
        for noun in NOUNS.values()
        for each in noun.columns
    ]
