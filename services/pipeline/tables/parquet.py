"""Plain Parquet tables: directories of files, partitioned by cluster (and date), that any Parquet reader can read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from quorate.pipeline.files import local_path
from services.pipeline.tables.compaction import Compaction
from services.pipeline.tables.computed import Computed, Rows, frame_of, staged
from services.pipeline.tables.files import ATTEMPT, HadoopFiles, new_attempt
from services.pipeline.tables.inbox import Inbox
from services.pipeline.tables.rounds import rounds_of, without_hidden
from services.pipeline.tables.verbs import Compacted, TableFile

__all__ = ["ParquetTables", "opened"]

INFER: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
OPEN_FILES: Final = "spark.sql.maxConcurrentOutputFileWriters"
OPEN_FILES_MAX: Final = 40
"""Files that a task has open at a time, one a partition; with more partitions Spark first sorts the rows: slow."""

LOOKS_MAX: Final = 20
"""How often `read` lists a table again because a compaction changed it meanwhile."""


def opened(spark: SparkSession, root: str) -> ParquetTables:
    """Opens the tables below `root`. Raises LookupError if they are in Delta, as those of an earlier release may be.

    Spark would read all files of such a directory, also those that Delta has overwritten.
    """
    logs = f"{root.rstrip('/')}/*/*/_delta_log"
    try:
        _ = spark.read.format("binaryFile").load(logs).schema
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            return ParquetTables(spark, root)
        raise
    raise LookupError(f"the tables in {root} are in Delta, and only plain Parquet is read: make them anew elsewhere")


class ParquetTables:
    """Tables as directories of Parquet files. Files get their names when all are written, so none is read half written.

    A kill during that renaming leaves some of the files. Append is safe because callers find which rows are there;
    after a killed keep or replace the table may lack rows and must be made again.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        """Opens the tables below `root`, any path that Spark can write to."""
        self._spark = spark
        self._root = root.rstrip("/")
        # Type inference would turn the cluster ids 123 and 0123 into one number.
        spark.conf.set(INFER, "false")
        spark.conf.set(OPEN_FILES, OPEN_FILES_MAX)

    def read(self, name: str) -> DataFrame | None:
        """Returns a table's present rows; None if it was never written.

        Raises LookupError if compactions change it during each of LOOKS_MAX attempts.
        """
        place = self._place(name)
        for _ in range(LOOKS_MAX):
            rounds = rounds_of(self._spark, place)
            found = self._files(place)
            # The files were listed between two looks at the notes: equal notes mean that no compaction step came in
            # between.
            if found is None or rounds == rounds_of(self._spark, place):
                return None if found is None else without_hidden(found, rounds)
        raise LookupError(f"{place} was rewritten during each of {LOOKS_MAX} looks: try again when it is compacted")

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """Appends rows. A kill meanwhile may leave some of them in the table."""
        writer = rows.write.mode("append").option(ATTEMPT, new_attempt())
        writer.partitionBy(*partition_by).parquet(self._place(name))

    def inbox(self) -> Inbox | None:
        """Makes a directory for files to adopt; None if the tables are not on a file system of this machine."""
        root = self._local_root()
        return None if root is None else Inbox(root)

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """Overwrites the table with these rows, partitioned by cluster, and returns it.

        The rows must not be read from the table itself.
        """
        frame = frame_of(rows)
        if not self._adopt(name, rows, whole=True):
            frame.write.mode("overwrite").partitionBy("cluster_id").parquet(self._place(name))
        if not self._is_written(name):
            # Without a row there is no partition and no file with the schema, so one empty file is written.
            self._spark.createDataFrame([], frame.schema).write.mode("overwrite").parquet(self._place(name))
        ordered = [field for field in frame.schema if field.name != "cluster_id"] + [frame.schema["cluster_id"]]
        return self._spark.read.schema(StructType(ordered)).parquet(self._place(name))

    def replace(self, name: str, rows: Rows) -> DataFrame:
        """Replaces all rows of the clusters that occur in `rows`, and returns the whole table.

        Clusters that do not occur in `rows` keep their rows. The rows must not be read from the table itself.
        """
        there = self.read(name)
        if there is None or there.isEmpty():
            return self.keep(name, rows)
        if not self._adopt(name, rows, whole=False):
            writer = frame_of(rows).write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
            writer.partitionBy("cluster_id").parquet(self._place(name))
        found = self._spark.read.schema(there.schema).parquet(self._place(name))
        return without_hidden(found, rounds_of(self._spark, self._place(name)))

    def files(self, name: str) -> Sequence[TableFile] | None:
        """Returns the files of a table partitioned by cluster alone; None if they are not on this machine's disk."""
        root = self._local_root()
        if root is None:
            return None
        # Spark escapes characters of a directory's name in the manner of URLs.
        return [
            TableFile(unquote(folder.name.partition("=")[2]), str(path))
            for folder in sorted((root / name).glob("cluster_id=*"))
            for path in sorted(folder.glob("[!._]*.parquet"))
        ]

    def compact(self, name: str, *, before: date) -> Compacted:
        """Rewrites the small files of each closed partition as one. Only one job at a time may compact.

        Raises NotImplementedError under Spark Connect, and ArithmeticError if the new files do not have the old ones'
        rows: then these partitions are left as they were.
        """
        return Compaction(self._spark, self._place(name), HadoopFiles(self._spark)).run(before=before)

    def _is_written(self, name: str) -> bool:
        """Returns whether a table that was kept has a file; on this machine's disk Spark is not asked."""
        files = self.files(name)
        return self.read(name) is not None if files is None else bool(files)

    def _local_root(self) -> Path | None:
        """Returns the directory of the tables; None if it is not on a file system of this machine."""
        if is_remote() or not HadoopFiles(self._spark).is_local(self._root):
            return None
        return Path(local_path(self._root)).absolute()

    def _adopt(self, name: str, rows: Rows, *, whole: bool) -> bool:
        """Replaces a table's files by files that the Python workers write, and returns True.

        Returns False, and does nothing, for rows that Spark has to write: a DataFrame, or a lake that is not local.
        """
        if isinstance(rows, DataFrame):
            return False
        inbox = self.inbox()
        if inbox is None:
            return False
        with inbox:
            files = staged([rows] if isinstance(rows, Computed) else rows, inbox.place)
            folders = {HadoopFiles(self._spark).partition("cluster_id", each): some for each, some in files.items()}
            inbox.replace(name, folders, whole=whole)
        return True

    def _files(self, place: str) -> DataFrame | None:
        try:
            found = self._spark.read.parquet(place)
            _ = found.schema  # Spark Connect loads lazily; reading the schema makes it fail here
        except AnalysisException as problem:
            if problem.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                return None
            raise
        return found

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"
