"""Single files where the tables lie, on whatever file system Spark knows: written, renamed, deleted by the driver."""

from __future__ import annotations

import secrets
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

__all__ = ["ATTEMPT", "Files", "HadoopFiles", "new_attempt"]

ATTEMPT: Final = "mapreduce.job.application.attempt.id"
"""Names where a job's tasks put their files until all are done. All jobs of Spark have the same, so that one which was
killed would leave there what the next one publishes as its own."""

UNFINISHED: Final = ".unfinished"
"""Nobody lists a file with such a beginning; a rename gives it its name when it is whole."""


class Files(Protocol):
    """By path. Each of these is done or not; a killed process leaves nothing half done."""

    def write(self, path: str, text: str) -> None:
        """A new file."""

    def rename(self, path: str, to: str) -> None:
        """Raises FileNotFoundError if there is none, or it cannot be renamed."""

    def delete(self, path: str) -> None:
        """A file that is not there is deleted already."""


class HadoopFiles:
    """Files by Hadoop's interface, in the JVM that runs this session."""

    def __init__(self, spark: SparkSession) -> None:
        """Raises NotImplementedError through Spark Connect: that has no such interface."""
        if is_remote():
            raise NotImplementedError("plain Parquet is compacted by the driver itself, not through Spark Connect")
        self._jvm: Any = spark.sparkContext._jvm  # Any: a gateway into Java
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def write(self, path: str, text: str) -> None:
        """A new file, under its name once it is whole."""
        folder, _, name = path.rpartition("/")
        beside = f"{folder}/{UNFINISHED}-{name}"
        stream = self._of(beside).create(self._path(beside), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.rename(beside, path)

    def rename(self, path: str, to: str) -> None:
        """Raises FileNotFoundError if there is none, or it cannot be renamed."""
        if not self._of(path).rename(self._path(path), self._path(to)):
            raise FileNotFoundError(f"{path} cannot be renamed to {to}: is another job at work there?")

    def delete(self, path: str) -> None:
        """A file that is not there is deleted already."""
        self._of(path).delete(self._path(path), False)

    def _of(self, path: str) -> Any:  # Any: Java's FileSystem
        return self._path(path).getFileSystem(self._conf)

    def _path(self, path: str) -> Any:  # Any: Java's Path
        return self._jvm.org.apache.hadoop.fs.Path(path)


def new_attempt() -> str:
    """An attempt that no other job has."""
    return str(secrets.randbelow(1 << 31))
