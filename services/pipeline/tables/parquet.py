"""Plain Parquet: directories of files, by cluster (and date), that anything reads that reads Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from services.pipeline.tables.compaction import Compaction
from services.pipeline.tables.files import ATTEMPT, HadoopFiles, new_attempt
from services.pipeline.tables.rounds import rounds_of, without_hidden
from services.pipeline.tables.verbs import Compacted

__all__ = ["ParquetTables"]

INFER: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
OPEN_FILES: Final = "spark.sql.maxConcurrentOutputFileWriters"
OPEN_FILES_MAX: Final = 40
"""Partitions that a task writes to side by side; where it has more it sorts its rows first, which takes much longer."""

LOOKS_MAX: Final = 20
"""How often a reader looks again because files are being rewritten just then: each time takes as long as one does."""


class ParquetTables:
    """Directories of Parquet files. Each gets its name at once, when all are written: half of one is never read.

    A job that is killed while they get their names leaves some of them: whoever appends can tell which rows are there.
    One that is killed while it keeps or replaces may have taken the old files away: such tables can be made again.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        """`root` is any place that Spark can write to."""
        self._spark = spark
        self._root = root.rstrip("/")
        # A cluster may be called 123 and one 0123: partitions are what they are called.
        spark.conf.set(INFER, "false")
        spark.conf.set(OPEN_FILES, OPEN_FILES_MAX)

    def read(self, name: str) -> DataFrame | None:
        """A table as it is; None if it has never been written.

        Raises LookupError if it is rewritten all the time.
        """
        place = self._place(name)
        for _ in range(LOOKS_MAX):
            rounds = rounds_of(self._spark, place)
            found = self._files(place)
            # The files were listed in between: was it all before, or all after, what a compaction did?
            if found is None or rounds == rounds_of(self._spark, place):
                return None if found is None else without_hidden(found, rounds)
        raise LookupError(f"{place} was rewritten during each of {LOOKS_MAX} looks: try again when it is compacted")

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows. A job that is killed meanwhile leaves each of them there, or not."""
        writer = rows.write.mode("append").option(ATTEMPT, new_attempt())
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
        found = self._spark.read.schema(there.schema).parquet(self._place(name))
        return without_hidden(found, rounds_of(self._spark, self._place(name)))

    def compact(self, name: str, *, before: date) -> Compacted:
        """Rewrite the small files of each closed partition as one. One job at a time may do so.

        Raises NotImplementedError through Spark Connect, and ArithmeticError if what was written is not what was read:
        then nothing has changed.
        """
        return Compaction(self._spark, self._place(name), HadoopFiles(self._spark)).run(before=before)

    def _files(self, place: str) -> DataFrame | None:
        try:
            found = self._spark.read.parquet(place)
            _ = found.schema  # Spark Connect does not look before it is asked
        except AnalysisException as problem:
            if problem.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                return None
            raise
        return found

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"
