"""A wrapper around tables that reports each table as soon as it is written, because jobs over many rows take long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from services.pipeline.memory import count_of
from services.pipeline.tables.computed import Rows
from services.pipeline.tables.verbs import TableFile, Tables

__all__ = ["Reporting"]


class Reporting:
    """The wrapped tables; reports each table that `keep` or `replace` has written: its name and its number of rows.

    `table_count` is the number of these reports. `append` is neither reported nor counted.
    """

    def __init__(self, tables: Tables, on_table: Callable[[str, int], None]) -> None:
        """Wraps tables; `on_table` is called with the name of each table that was written and its number of rows."""
        self._tables = tables
        self._on_table = on_table
        self.table_count = 0

    def read(self, name: str) -> DataFrame | None:
        """Returns a table's present rows; None if it was never written."""
        return self._tables.read(name)

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """Appends rows; this is not reported."""
        self._tables.append(name, rows, partition_by=partition_by)

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """Overwrites the whole table with these rows, reports its name and number of rows, and returns it."""
        return self._reported(name, self._tables.keep(name, rows))

    def replace(self, name: str, rows: Rows) -> DataFrame:
        """Replaces all rows of the clusters that occur in `rows`, reports the whole table, and returns it."""
        return self._reported(name, self._tables.replace(name, rows))

    def files(self, name: str) -> Sequence[TableFile] | None:
        """Returns the files of a table partitioned by cluster alone; None if workers cannot read them as they are."""
        return self._tables.files(name)

    def _reported(self, name: str, table: DataFrame) -> DataFrame:
        self.table_count += 1
        self._on_table(name, count_of(table))
        return table
