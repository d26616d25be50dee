"""Where the tables lie: Parquet below one directory, behind the three verbs that another format would need too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

__all__ = ["ParquetTables", "Tables"]

INFER: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"


class Tables(Protocol):
    """Named tables, as `bronze/records`."""

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written."""

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows, all or none of them."""

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others, by cluster; and the table that they are then."""


class ParquetTables:
    """Directories of Parquet files. A job that dies while it appends leaves nothing that is read."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """`root` is any place that Spark can write to."""
        self._spark = spark
        self._root = root.rstrip("/")
        # A cluster may be called 123 and one 0123: partitions are what they are called.
        spark.conf.set(INFER, "false")

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written."""
        try:
            return self._spark.read.parquet(self._place(name))
        except AnalysisException as problem:
            if problem.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                return None
            raise

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows, all or none of them."""
        rows.write.mode("append").partitionBy(*partition_by).parquet(self._place(name))

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others, by cluster; and the table that they are then. They must not come from it."""
        rows.write.mode("overwrite").partitionBy("cluster_id").parquet(self._place(name))
        # With its schema, for a table of no rows has no file that would say it.
        ordered = [field for field in rows.schema if field.name != "cluster_id"] + [rows.schema["cluster_id"]]
        return self._spark.read.schema(StructType(ordered)).parquet(self._place(name))

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"
