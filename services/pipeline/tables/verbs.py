"""What a job may do to tables, whichever format they have; and tables of which only some clusters are made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

__all__ = ["Compacted", "Growing", "Keeping", "Lake", "Replacing", "Tables", "add"]


class Growing(Protocol):
    """Named tables, as `bronze/records`, of which no row ever goes."""

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written."""

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows. A job that is killed meanwhile leaves each of them there, or not."""


class Keeping(Protocol):
    """Named tables that are made whole, and can be made again: killed meanwhile, a job may leave any part of one."""

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others, by cluster; and the table that they are then."""


class Tables(Growing, Keeping, Protocol):
    """All of them."""

    def replace(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows for all that there are of the same clusters; and the whole table then."""


class Compacted(NamedTuple):
    """So many files were rewritten as so many."""

    files: int
    into: int


class Lake(Tables, Protocol):
    """Tables whose files may be rewritten, too: a format of its own."""

    def compact(self, name: str, *, before: date) -> Compacted:
        """Rewrite the small files of each closed partition as one; nobody reads a row twice, or misses one.

        A partition is closed if its `date` is earlier than `before`, or if the table has none. A table that
        was never written has no files.
        """


class Replacing:
    """Tables of which only some clusters are made: what is kept replaces theirs, and is all that is seen then."""

    def __init__(self, tables: Tables, clusters: Sequence[str]) -> None:
        self._tables = tables
        self._clusters = list(clusters)

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others of their clusters."""
        return self._tables.replace(name, rows).where(fn.col("cluster_id").isin(self._clusters))


def add(tables: Growing, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> int:
    """Append these rows, if there are any; how many they are."""
    new = rows.persist()
    try:
        count = new.count()
        if count:
            tables.append(name, new, partition_by=partition_by)
    finally:
        new.unpersist()
    return count
