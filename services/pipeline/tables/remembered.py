"""A cache in front of tables with few rows: each table is read and written once, and later jobs get it from memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame

from services.pipeline.problems import OF_SPARK
from services.pipeline.tables.computed import Rows, frame_of
from services.pipeline.tables.inbox import Inbox
from services.pipeline.tables.verbs import Compacted, Lake, TableFile

__all__ = ["Remembered"]


class Remembered:
    """The wrapped tables with their rows cached in this session; no other job may write to them meanwhile."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._known: dict[str, DataFrame | None] = {}

    def read(self, name: str) -> DataFrame | None:
        """Returns a table's present rows, from memory after the first time; None if it was never written."""
        if name not in self._known:
            found = self._lake.read(name)
            try:
                self._known[name] = None if found is None else found.localCheckpoint()
            except OF_SPARK:
                return found  # some of its rows may be readable: a reader of the others fails
        return self._known[name]

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """Appends rows, and drops the table's cached rows."""
        self._known.pop(name, None)
        self._lake.append(name, rows, partition_by=partition_by)

    def inbox(self) -> Inbox | None:
        """Makes a directory for files to adopt; None if the tables take only rows."""
        found = self._lake.inbox()
        return None if found is None else found.telling(lambda name: self._known.pop(name, None))

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """Computes the rows, overwrites the table with them, partitioned by cluster, and returns them from memory."""
        self._known.pop(name, None)
        made = frame_of(rows).localCheckpoint()
        self._lake.keep(name, made)
        self._known[name] = made
        return made

    def replace(self, name: str, rows: Rows) -> DataFrame:
        """Replaces all rows of the clusters that occur in `rows`, and returns the whole table."""
        self._known.pop(name, None)
        self._lake.replace(name, frame_of(rows).localCheckpoint())
        whole = self.read(name)
        assert whole is not None, f"{name} was just made"
        return whole

    def files(self, name: str) -> Sequence[TableFile] | None:
        """Returns the files of a table partitioned by cluster alone; None if workers cannot read them as they are."""
        return self._lake.files(name)

    def compact(self, name: str, *, before: date) -> Compacted:
        """Compacts the table's files; cached rows stay valid, because the rows do not change."""
        return self._lake.compact(name, before=before)
