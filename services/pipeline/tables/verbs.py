"""The interface between jobs and tables: read, append, keep, replace and compact."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.memory import kept
from services.pipeline.tables.computed import Rows
from services.pipeline.tables.inbox import Inbox

__all__ = ["Adopting", "Compacted", "Growing", "Keeping", "Lake", "Replacing", "TableFile", "Tables", "add"]


class TableFile(NamedTuple):
    """A Parquet file of a table; it lacks the column `cluster_id`, as all its rows are of one cluster."""

    cluster_id: str
    path: str


class Growing(Protocol):
    """Append-only tables by name, such as `bronze/records`; rows are never removed."""

    def read(self, name: str) -> DataFrame | None:
        """Returns a table's present rows; None if it was never written."""

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """Appends rows. A kill meanwhile may leave some of them in the table."""


class Keeping(Protocol):
    """Tables that are always rebuilt whole; after a kill one may be incomplete, and is rebuilt again."""

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """Overwrites the table with these rows, partitioned by cluster, and returns it."""


class Tables(Growing, Keeping, Protocol):
    """Tables that can be read, appended to, overwritten, and replaced for some clusters."""

    def replace(self, name: str, rows: Rows) -> DataFrame:
        """Replaces all rows of the clusters that occur in `rows`, and returns the whole table."""

    def files(self, name: str) -> Sequence[TableFile] | None:
        """Returns the files of a table partitioned by cluster alone; None if workers cannot read them as they are."""


class Compacted(NamedTuple):
    """The result of a compaction: how many files were rewritten, and into how many."""

    files: int
    into: int


class Adopting(Growing, Protocol):
    """Append-only tables that may also take Parquet files that were written elsewhere."""

    def inbox(self) -> Inbox | None:
        """Makes a directory for such files; None if the tables take only rows."""


class Lake(Tables, Adopting, Protocol):
    """Tables that take rows and Parquet files of others (`Adopting`), and whose small files can be compacted."""

    def compact(self, name: str, *, before: date) -> Compacted:
        """Rewrites the small files of each closed partition as one; meanwhile readers see each row exactly once.

        A partition is closed if its `date` is earlier than `before`, or if the table has no dates. A table that was
        never written has no files.
        """


class Replacing:
    """A view on tables that is limited to some clusters: `keep` replaces only their rows and returns only these."""

    def __init__(self, tables: Tables, clusters: Sequence[str]) -> None:
        self._tables = tables
        self._clusters = list(clusters)

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """Replaces the rows of those of these clusters that occur in `rows`; returns all rows of these clusters."""
        return self._tables.replace(name, rows).where(fn.col("cluster_id").isin(self._clusters))


def add(tables: Growing, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> int:
    """Appends the rows, if there are any, and returns how many."""
    with kept(rows) as (new,):
        count = new.count()
        if count:
            tables.append(name, new, partition_by=partition_by)
    return count
