"""A Spark data source for the lines of text files; it reads each file only up to the size that it had when listed.

Spark's own text source reads to the file's present end, so it takes a half-written last line for a complete one.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from services.pipeline.bronze.span_files import PACKED

__all__ = ["LineFile", "LineFilesSource", "read_line_files"]

NAME: Final = "span_lines"
PART_BYTES: Final = 32 << 20
"""Target size of one task's range, in bytes; a gzip file is never split."""
BLOCK_BYTES: Final = 8 << 20
"""Bytes that are read at a time, enough for several lines of a collector."""
SCHEMA: Final = "cluster_id string, source string, value binary, is_open boolean, _corrupt string"
_ARROW: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("source", pa.string()),
        ("value", pa.binary()),
        ("is_open", pa.bool_()),
        ("_corrupt", pa.string()),
    ]
)
assert [each.split()[0] for each in SCHEMA.split(",")] == _ARROW.names, (SCHEMA, _ARROW)


class LineFile(NamedTuple):
    """A text file that is read up to byte `size`. With `may_grow` its last line may still be incomplete."""

    path: str
    cluster_id: str
    size: int
    may_grow: bool


class LineRange(InputPartition):
    """A Spark input partition: the lines of a file that begin at bytes `low` to `high` (exclusive)."""

    def __init__(self, file: LineFile, low: int, high: int) -> None:
        super().__init__(None)
        self.file = file
        self.low = low
        self.high = high


def read_line_files(spark: SparkSession, files: Iterable[LineFile]) -> DataFrame:
    """Reads the lines of these files with the columns of SCHEMA, without their newlines.

    `is_open` marks a last line without a newline in a file that may grow. A file that cannot be read, or is gone,
    becomes a row with `_corrupt`; its `is_open` says that the next run may be able to read it.
    """
    spark.dataSource.register(LineFilesSource)
    return spark.read.format(NAME).option("files", json.dumps(list(files))).load()


class LineFilesSource(DataSource):
    """The data source `span_lines`; its option `files` is a JSON array of LineFile."""

    @classmethod
    def name(cls) -> str:
        """Returns "span_lines", the name for `format(…)`."""
        return NAME

    def schema(self) -> str:
        """Returns the schema: a line with its file and its cluster id."""
        return SCHEMA

    def reader(self, schema: StructType) -> LineFilesReader:
        """Returns the reader of the listed text files. Raises ValueError if the option `files` is missing."""
        if "files" not in self.options:
            raise ValueError(f"the source {NAME} needs the option files: a JSON array")
        return LineFilesReader([LineFile(*each) for each in json.loads(self.options["files"])])


class LineFilesReader(DataSourceReader):
    """Reads all files; a large file is split into several tasks."""

    def __init__(
        self, files: Sequence[LineFile], *, part_bytes: int = PART_BYTES, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._files = files
        self._part_bytes = part_bytes
        self._block_bytes = block_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """Splits the text files into byte ranges, one for each task."""
        return [part for file in self._files for part in _ranges(file, self._part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the lines of a text file's byte range as Arrow batches."""
        if not isinstance(partition, LineRange):
            return  # Spark passes another partition if the plan is empty
        file = partition.file
        try:
            with _opened(file.path) as opened:
                yield from _batches(partition, opened, self._block_bytes)
        except FileNotFoundError:
            yield _damaged(file, "it is gone: the next one may have its lines", is_open=True)
        except (EOFError, OSError, zlib.error) as problem:
            yield _damaged(file, f"it cannot be read to its end: {problem}", is_open=file.may_grow)


def _ranges(file: LineFile, part_bytes: int) -> Iterator[LineRange]:
    step = file.size if file.path.endswith(PACKED) else part_bytes
    for low in range(0, file.size, step or 1):
        yield LineRange(file, low, min(low + step, file.size))


def _opened(path: str) -> gzip.GzipFile | BufferedReader:
    return gzip.GzipFile(path) if path.endswith(PACKED) else Path(path).open("rb")


def _batches(part: LineRange, opened: gzip.GzipFile | BufferedReader, block_bytes: int) -> Iterator[pa.RecordBatch]:
    is_packed = part.file.path.endswith(PACKED)
    if part.low > 0:
        # A line that begins before this range is read by the task before.
        opened.seek(part.low - 1)
        opened.readline()
    held = b""
    while True:
        room = block_bytes if is_packed else min(block_bytes, part.high - opened.tell())
        # `read1` returns what a truncated gzip file still has; `read` would raise an error instead and lose it.
        block = opened.read1(room) if room > 0 else b""
        if not block:
            break
        whole, newline, held = (held + block).rpartition(b"\n")
        if newline:
            yield _batch(part.file, whole)
    if held:
        # The last line that begins in this range may end behind it; it is read to its end.
        left = 0 if is_packed else part.file.size - opened.tell()
        line = held + opened.readline(left) if left > 0 else held
        is_open = part.file.may_grow and not line.endswith(b"\n")
        yield _batch(part.file, line.removesuffix(b"\n"), is_open=is_open)


def _batch(file: LineFile, lines: bytes, *, is_open: bool = False) -> pa.RecordBatch:
    values = pc.split_pattern(pa.array([lines], pa.large_binary()), b"\n").flatten().cast(pa.binary())
    count = len(values)
    fixed = (file.cluster_id, file.path, None, is_open, None)
    columns = [
        values if field.name == "value" else pa.repeat(pa.scalar(each, field.type), count)
        for each, field in zip(fixed, _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _damaged(file: LineFile, problem: str, *, is_open: bool) -> pa.RecordBatch:
    fixed = {"cluster_id": file.cluster_id, "source": file.path, "is_open": is_open, "_corrupt": problem}
    return pa.RecordBatch.from_pylist([fixed], schema=_ARROW)
