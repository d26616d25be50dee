"""Tables in a session's memory, for tests that ask what silver and gold say and not where it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from services.pipeline.tables import Rows


class InMemory:
    """Stands in for a disk: Spark writes a file for each table, cluster and task, which takes longer than the rows."""

    def __init__(self) -> None:
        self._rows: dict[str, DataFrame] = {}

    def read(self, name: str) -> DataFrame | None:
        """A table's rows; None if it was never written."""
        return self._rows.get(name)

    def files(self, name: str) -> None:
        """There are none."""

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """These rows, and those before."""
        there = self.read(name)
        self.keep(name, rows if there is None else there.unionByName(rows))

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """These rows alone, in one partition."""
        from services.pipeline.tables import frame_of

        made = self._rows[name] = frame_of(rows).coalesce(1).localCheckpoint()
        return made
