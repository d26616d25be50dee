"""The lines of text files as a data source: bytes as they lie there, cut at newlines, up to where a file ended.

Spark's own reader of text reads to wherever a file ends by then, and cannot tell a line that is not whole yet from one
that is.
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
"""What one task reads, about; a packed file is never cut."""
BLOCK_BYTES: Final = 8 << 20
"""What is read at a time: some of a collector's lines."""
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


class LineFile(NamedTuple):
    """Bytes 0 to `size` of a file. Is more of it expected, then its last line may be half of one: `may_grow`."""

    path: str
    cluster_id: str
    size: int
    may_grow: bool


class Range(InputPartition):
    """The lines that begin at bytes `low` to `high` (exclusive) of a file."""

    def __init__(self, file: LineFile, low: int, high: int) -> None:
        super().__init__(None)
        self.file = file
        self.low = low
        self.high = high


def read_line_files(spark: SparkSession, files: Iterable[LineFile]) -> DataFrame:
    """The lines of these files as SCHEMA says, without what ends them.

    `is_open` is the last line of a file that may grow, if no newline ends it. What cannot be read, or not any more, is
    a row with `_corrupt`; where the file may grow, that is `is_open` too.
    """
    spark.dataSource.register(LineFilesSource)
    return spark.read.format(NAME).option("files", json.dumps(list(files))).load()


class LineFilesSource(DataSource):
    """The format `span_lines`; its option `files` is a JSON array of LineFile."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return NAME

    def schema(self) -> str:
        """A line, and where it is from."""
        return SCHEMA

    def reader(self, schema: StructType) -> LineFilesReader:
        """Raises ValueError without files."""
        if "files" not in self.options:
            raise ValueError(f"the source {NAME} needs the option files: a JSON array")
        return LineFilesReader([LineFile(*each) for each in json.loads(self.options["files"])])


class LineFilesReader(DataSourceReader):
    """One read of all files: large ones are several tasks."""

    def __init__(
        self, files: Sequence[LineFile], *, part_bytes: int = PART_BYTES, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._files = files
        self._part_bytes = part_bytes
        self._block_bytes = block_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of bytes."""
        return [part for file in self._files for part in _ranges(file, self._part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The lines of a range."""
        if not isinstance(partition, Range):
            return  # what Spark makes of no parts at all
        file = partition.file
        try:
            with _opened(file.path) as opened:
                yield from _batches(partition, opened, self._block_bytes)
        except FileNotFoundError:
            yield _damaged(file, "it is gone: the next one may have its lines", is_open=True)
        except (EOFError, OSError, zlib.error) as problem:
            yield _damaged(file, f"it cannot be read to its end: {problem}", is_open=file.may_grow)


def _ranges(file: LineFile, part_bytes: int) -> Iterator[Range]:
    step = file.size if file.path.endswith(PACKED) else part_bytes
    for low in range(0, file.size, step or 1):
        yield Range(file, low, min(low + step, file.size))


def _opened(path: str) -> gzip.GzipFile | BufferedReader:
    return gzip.GzipFile(path) if path.endswith(PACKED) else Path(path).open("rb")


def _batches(part: Range, opened: gzip.GzipFile | BufferedReader, block_bytes: int) -> Iterator[pa.RecordBatch]:
    is_packed = part.file.path.endswith(PACKED)
    if part.low > 0:
        # A line that began before the range is another task's.
        opened.seek(part.low - 1)
        opened.readline()
    held = b""
    while True:
        room = block_bytes if is_packed else min(block_bytes, part.high - opened.tell())
        # All that is there of a packed file that breaks off is given: `read` would lose what it has with its error.
        block = opened.read1(room) if room > 0 else b""
        if not block:
            break
        whole, newline, held = (held + block).rpartition(b"\n")
        if newline:
            yield _batch(part.file, whole)
    if held:
        # The line on which a range ends is read to where it ends itself.
        left = 0 if is_packed else part.file.size - opened.tell()
        line = held + opened.readline(left) if left > 0 else held
        is_open = part.file.may_grow and not line.endswith(b"\n")
        yield _batch(part.file, line.removesuffix(b"\n"), is_open=is_open)


def _batch(file: LineFile, lines: bytes, *, is_open: bool = False) -> pa.RecordBatch:
    values = pc.split_pattern(pa.array([lines], pa.large_binary()), b"\n").flatten().cast(pa.binary())
    count = len(values)
    said = (file.cluster_id, file.path, None, is_open, None)
    columns = [
        values if field.name == "value" else pa.repeat(pa.scalar(each, field.type), count)
        for each, field in zip(said, _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _damaged(file: LineFile, problem: str, *, is_open: bool) -> pa.RecordBatch:
    said = {"cluster_id": file.cluster_id, "source": file.path, "is_open": is_open, "_corrupt": problem}
    return pa.RecordBatch.from_pylist([said], schema=_ARROW)
