"""Where the tables lie: Parquet below one directory, behind the three verbs that another format would need too."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

__all__ = ["ParquetTables", "Replacing", "Tables"]

INFER: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
OPEN_FILES: Final = "spark.sql.maxConcurrentOutputFileWriters"
OPEN_FILES_MAX: Final = 40
"""Partitions that a task writes to side by side; where it has more it sorts its rows first, which takes much longer."""

ATTEMPT: Final = "mapreduce.job.application.attempt.id"
"""Names where a job's tasks put their files until all are done. All jobs of Spark have the same, so that one which was
killed would leave there what the next one publishes as its own."""


class Tables(Protocol):
    """Named tables, as `bronze/records`."""

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written."""

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows, all or none of them."""

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others, by cluster; and the table that they are then."""

    def replace(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows for all that there are of the same clusters; and the whole table then."""


class Replacing:
    """Tables of which only some clusters are made: what is kept replaces theirs, and is all that is seen then."""

    def __init__(self, tables: Tables, clusters: Sequence[str]) -> None:
        self._tables = tables
        self._clusters = list(clusters)

    def read(self, name: str) -> DataFrame | None:
        """What there is of these clusters; None if the table has never been written."""
        there = self._tables.read(name)
        return None if there is None else self._of(there)

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows, all or none of them."""
        self._tables.append(name, rows, partition_by=partition_by)

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others of their clusters."""
        return self._of(self._tables.replace(name, rows))

    def replace(self, name: str, rows: DataFrame) -> DataFrame:
        """The same."""
        return self.keep(name, rows)

    def _of(self, rows: DataFrame) -> DataFrame:
        return rows.where(fn.col("cluster_id").isin(self._clusters))


class ParquetTables:
    """Directories of Parquet files. A job that dies while it appends leaves nothing that is read."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """`root` is any place that Spark can write to."""
        self._spark = spark
        self._root = root.rstrip("/")
        # A cluster may be called 123 and one 0123: partitions are what they are called.
        spark.conf.set(INFER, "false")
        spark.conf.set(OPEN_FILES, OPEN_FILES_MAX)

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written."""
        try:
            found = self._spark.read.parquet(self._place(name))
            _ = found.schema  # Spark Connect does not look before it is asked
        except AnalysisException as problem:
            if problem.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                return None
            raise
        return found

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows, all or none of them."""
        writer = rows.write.mode("append").option(ATTEMPT, str(secrets.randbelow(1 << 31)))
        writer.partitionBy(*partition_by).parquet(self._place(name))

    def keep(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows and no others, by cluster; and the table that they are then. They must not come from it."""
        rows.write.mode("overwrite").partitionBy("cluster_id").parquet(self._place(name))
        if self.read(name) is None:
            # No row, so no partition, and no file that would say the columns: one that says nothing else.
            self._spark.createDataFrame([], rows.schema).write.mode("overwrite").parquet(self._place(name))
        ordered = [field for field in rows.schema if field.name != "cluster_id"] + [rows.schema["cluster_id"]]
        return self._spark.read.schema(StructType(ordered)).parquet(self._place(name))

    def replace(self, name: str, rows: DataFrame) -> DataFrame:
        """These rows for all that there are of the same clusters; and the whole table then. They must not come from it.

        A cluster without a row here keeps those that it has.
        """
        there = self.read(name)
        if there is None or there.isEmpty():
            return self.keep(name, rows)
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("cluster_id").parquet(self._place(name))
        return self._spark.read.schema(there.schema).parquet(self._place(name))

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"
