"""Tables that tell of each one as soon as it is written, as a job over very many rows takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from services.pipeline.tables.verbs import Tables

__all__ = ["Telling"]


class Telling:
    """The same tables; `told` is how many were written."""

    def __init__(self, tables: Tables, tell: Callable[[str, int], None]) -> None:
        """`tell` hears the name of a table that is written, and how many rows it has."""
        self._tables = tables
        self._tell = tell
        self.told = 0

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written."""
        return self._tables.read(name)

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows."""
        self._tables.append(name, rows, partition_by=partition_by)

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others, by cluster."""
        return self._heard(name, self._tables.keep(name, rows))

    def replace(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows for all that there are of the same clusters."""
        return self._heard(name, self._tables.replace(name, rows))

    def _heard(self, name: str, table: DataFrame) -> DataFrame:
        self.told += 1
        self._tell(name, table.count())
        return table
