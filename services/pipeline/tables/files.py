"""Writes, renames and deletes single files from the driver, on any file system that Hadoop supports."""

from __future__ import annotations

import secrets
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

__all__ = ["ATTEMPT", "Files", "HadoopFiles", "new_attempt"]

ATTEMPT: Final = "mapreduce.job.application.attempt.id"
"""Spark's setting for the directory in which tasks write files until the job commits.

By default all jobs use the same one: a job would publish the leftovers of a killed job as its own files.
"""

UNFINISHED: Final = ".unfinished"
"""Name prefix of a file that is still being written; readers ignore it, and a rename gives the file its final name."""


class Files(Protocol):
    """Operations on single files by path.

    Each is atomic: a killed process leaves no half-written file under its name.
    """

    def write(self, path: str, text: str) -> None:
        """Creates a file with this text."""

    def rename(self, path: str, to: str) -> None:
        """Renames a file. Raises FileNotFoundError if it does not exist or cannot be renamed."""

    def delete(self, path: str) -> None:
        """Deletes a file; does nothing if it does not exist."""


class HadoopFiles:
    """Files through Hadoop's FileSystem API, in the JVM of this session."""

    def __init__(self, spark: SparkSession) -> None:
        """Connects to the session's JVM. Raises NotImplementedError under Spark Connect, which has no access to one."""
        if is_remote():
            raise NotImplementedError("plain Parquet is compacted by the driver itself, not through Spark Connect")
        self._jvm: Any = spark.sparkContext._jvm  # Any: a gateway into Java
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def write(self, path: str, text: str) -> None:
        """Creates a file with this text: writes it under another name and renames it."""
        folder, _, name = path.rpartition("/")
        beside = f"{folder}/{UNFINISHED}-{name}"
        stream = self._of(beside).create(self._path(beside), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.rename(beside, path)

    def rename(self, path: str, to: str) -> None:
        """Renames a file. Raises FileNotFoundError if it does not exist or cannot be renamed."""
        if not self._of(path).rename(self._path(path), self._path(to)):
            raise FileNotFoundError(f"{path} cannot be renamed to {to}: is another job at work there?")

    def delete(self, path: str) -> None:
        """Deletes a file; does nothing if it does not exist."""
        self._of(path).delete(self._path(path), False)

    def is_local(self, path: str) -> bool:
        """Returns whether a path is on a file system of this machine, also without a scheme."""
        return bool(self._of(path).getScheme() == "file")

    def partition(self, column: str, value: str) -> str:
        """Returns how Spark calls the directory of a partition; it escapes some characters."""
        catalog = self._jvm.org.apache.spark.sql.catalyst.catalog
        return str(catalog.ExternalCatalogUtils.getPartitionPathString(column, value))

    def _of(self, path: str) -> Any:  # Any: Java's FileSystem
        return self._path(path).getFileSystem(self._conf)

    def _path(self, path: str) -> Any:  # Any: Java's Path
        return self._jvm.org.apache.hadoop.fs.Path(path)


def new_attempt() -> str:
    """Returns a random attempt number, so that two jobs practically never share one."""
    return str(secrets.randbelow(1 << 31))
