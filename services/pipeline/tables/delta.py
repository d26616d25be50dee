"""Delta Lake: every write is one commit of the table's log, so a killed job has published nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from services.pipeline.tables.verbs import Compacted

__all__ = ["DeltaTables"]

_NOT_THERE: Final = (
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_MISSING_DELTA_TABLE",
    "PATH_NOT_FOUND",
)


class DeltaTables:
    """A directory a table, with its log in `_delta_log`. Who has begun to read, reads that version to its end."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """`root` is any place that Spark can write to; the session has Delta's jars and extension (`formats`)."""
        self._spark = spark
        self._root = root.rstrip("/")

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written."""
        try:
            found = self._spark.read.format("delta").load(self._place(name))
            _ = found.schema  # Spark Connect does not look before it is asked
        except AnalysisException as problem:
            if problem.getCondition() in _NOT_THERE:
                return None
            raise
        return found

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows, all or none of them."""
        rows.write.format("delta").mode("append").partitionBy(*partition_by).save(self._place(name))

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others, by cluster; and the table that they are then."""
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.partitionBy("cluster_id").save(self._place(name))
        return self._there(name)

    def replace(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows for all that there are of the same clusters; and the whole table then.

        A cluster without a row here keeps those that it has.
        """
        if self.read(name) is None:
            return self.keep(name, rows)
        writer = rows.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("cluster_id").save(self._place(name))
        return self._there(name)

    def compact(self, name: str, *, before: date) -> Compacted:
        """OPTIMIZE of the closed partitions. What was rewritten stays for its readers, until somebody VACUUMs."""
        there = self.read(name)
        if there is None:
            return Compacted(0, 0)
        closed = f" WHERE date < '{before}'" if "date" in there.columns else ""
        told = self._spark.sql(f"OPTIMIZE delta.`{self._place(name)}`{closed}").selectExpr("metrics.*").collect()[0]
        return Compacted(told["numFilesRemoved"], told["numFilesAdded"])

    def _there(self, name: str) -> DataFrame:
        found = self.read(name)
        assert found is not None, f"{name} was just made"
        return found

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"
