"""Delta Lake tables: every write is one commit of the table's log, so a killed job publishes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.tables.computed import Rows, frame_of
from services.pipeline.tables.verbs import Compacted

__all__ = ["DeltaTables"]

_NOT_THERE: Final = (
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_MISSING_DELTA_TABLE",
    "PATH_NOT_FOUND",
)


class DeltaTables:
    """Delta tables below a root directory. A reader keeps the version of the table with which it started."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """Opens the tables below `root`, a path that Spark can write to.

        The session needs Delta's jars and extension.
        """
        self._spark = spark
        self._root = root.rstrip("/")

    def read(self, name: str) -> DataFrame | None:
        """Returns a table's present rows; None if it was never written."""
        try:
            found = self._spark.read.format("delta").load(self._place(name))
            _ = found.schema  # Spark Connect loads lazily; reading the schema makes it fail here
        except AnalysisException as problem:
            if problem.getCondition() in _NOT_THERE:
                return None
            raise
        return found

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """Appends rows to the table in one commit."""
        rows.write.format("delta").mode("append").partitionBy(*partition_by).save(self._place(name))

    def inbox(self) -> None:
        """Returns None: only Delta's own commit adds a file to a table."""

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """Overwrites the table with these rows, partitioned by cluster, and returns it."""
        writer = frame_of(rows).write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.partitionBy("cluster_id").save(self._place(name))
        return self._there(name)

    def replace(self, name: str, rows: Rows) -> DataFrame:
        """Replaces all rows of the clusters that occur in `rows`, and returns the whole table.

        Clusters that do not occur in `rows` keep their rows.
        """
        if self.read(name) is None:
            return self.keep(name, rows)
        writer = frame_of(rows).write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("cluster_id").save(self._place(name))
        return self._there(name)

    def files(self, name: str) -> None:
        """Returns None: only Delta knows which files a table has, and which of their rows."""

    def compact(self, name: str, *, before: date) -> Compacted:
        """Runs OPTIMIZE on the closed partitions.

        The old files remain for present readers until somebody runs VACUUM.
        """
        there = self.read(name)
        if there is None:
            return Compacted(0, 0)
        closed = f" WHERE date < '{before}'" if "date" in there.columns else ""
        metrics = self._spark.sql(f"OPTIMIZE delta.`{self._place(name)}`{closed}").selectExpr("metrics.*").collect()[0]
        return Compacted(metrics["numFilesRemoved"], metrics["numFilesAdded"])

    def _there(self, name: str) -> DataFrame:
        found = self.read(name)
        assert found is not None, f"{name} was just made"
        return found

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"
