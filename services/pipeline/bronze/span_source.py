"""A Spark data source for spans: of the observer's trace stores, and of a collector's files of OTLP lines.

A store is an SQLite file or a database (`span_database`). It may be in use: it is opened read-only, and only committed
rows are read. A text file is read only up to the size that it had when listed: what is behind it may be half a line.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from services.pipeline.bronze.otlp import rows_of
from services.pipeline.bronze.span_files import PACKED

__all__ = ["LineFile", "SpanSource", "SpanSourceReader", "Store", "read_lines", "read_spans"]

NAME: Final = "spans"
STORES: Final = "storeUrls"
"""The option of stores. Spark redacts options with `url` in their names, because they may contain a password."""
PART_ROWS: Final = 50_000
"""How many sequence numbers (`seq`) of a store one task reads: about 20 MB."""
PART_BYTES: Final = 32 << 20
"""Target size of one task's range of a text file, in bytes; a gzip file is never split."""
BLOCK_BYTES: Final = 8 << 20
"""Bytes that are read at a time, enough for several lines of a collector."""
BATCH_ROWS: Final = 8_192
_STORED: Final = (
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "service",
    "instance",
    "start_ns",
    "end_ns",
    "error",
    "attributes",
)
_TYPES: Final = {"error": pa.bool_(), "is_open": pa.bool_(), "raw": pa.binary()}
SCHEMA: Final = pa.schema(
    [
        (name, _TYPES.get(name, pa.string()))
        for name in ("cluster_id", "source", *_STORED, "resource", "raw", "is_open", "_corrupt")
    ]
)
"""The columns: those of a span as stored, times as text, attributes as JSON; `raw` is a line that is damaged.

`is_open` says that the next run may be able to read what is damaged now.
"""
# Columns are read as text, since a damaged store may hold anything; the caller checks them.
_SELECT: Final = ", ".join(f"cast({name} as text)" if name != "error" else "error != 0" for name in _STORED)


class Store(NamedTuple):
    """A trace store: its path without secrets, its cluster id, and the URL if it is a database (None for a file)."""

    path: str
    cluster_id: str
    url: str | None = None


class LineFile(NamedTuple):
    """A text file that is read up to byte `size`. With `may_grow` its last line may still be incomplete."""

    path: str
    cluster_id: str
    size: int
    may_grow: bool


def read_spans(spark: SparkSession, stores: Iterable[Store], files: Iterable[LineFile]) -> DataFrame:
    """Reads the spans with their cluster ids; attributes and resource as maps.

    A range of a store, a line or a file that cannot be read becomes a row with `_corrupt`.
    """
    found = _loaded(spark, stores, files, parsed=True)
    maps = {name: fn.from_json(name, "map<string, string>") for name in ("attributes", "resource")}
    return found.withColumns(maps)


def read_lines(spark: SparkSession, files: Iterable[LineFile]) -> DataFrame:
    """Reads the lines of these files as they are, in the columns `source` and `raw`."""
    return _loaded(spark, (), files, parsed=False).select("source", "raw")


def _loaded(spark: SparkSession, stores: Iterable[Store], files: Iterable[LineFile], *, parsed: bool) -> DataFrame:
    spark.dataSource.register(SpanSource)
    given = {STORES: json.dumps(list(stores)), "files": json.dumps(list(files)), "parsed": json.dumps(parsed)}
    return spark.read.format(NAME).options(**given).load()


class SpanSource(DataSource):
    """The data source `spans`; its options are JSON arrays of Store and LineFile, and whether lines are parsed."""

    @classmethod
    def name(cls) -> str:
        """Returns "spans", the name for `format(…)`."""
        return NAME

    def schema(self) -> StructType:
        """Returns the schema."""
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> SpanSourceReader:
        """Returns the reader of the listed stores and files. Raises KeyError if an option is missing."""
        stores, files, parsed = (json.loads(self.options[name]) for name in (STORES, "files", "parsed"))
        return SpanSourceReader([Store(*each) for each in stores], [LineFile(*each) for each in files], parsed=parsed)


class SpanRange(InputPartition):
    """The spans of a store whose `seq`, or the lines of a file whose first byte, is from `low` to `high` (exclusive).

    If `problem` is set, nothing is read: it is reported as a row with `_corrupt`.
    """

    def __init__(self, of: Store | LineFile, low: int, high: int, problem: str | None = None) -> None:
        super().__init__(None)
        self.of = of
        self.low = low
        self.high = high
        self.problem = problem


class SpanSourceReader(DataSourceReader):
    """Reads all stores, split by sequence number, the order in which spans arrived, and all files, split by bytes."""

    def __init__(
        self,
        stores: Sequence[Store],
        files: Sequence[LineFile],
        *,
        parsed: bool = True,
        part_bytes: int = PART_BYTES,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._stores = stores
        self._files = files
        self._parsed = parsed
        self._part_bytes = part_bytes
        self._block_bytes = block_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """Splits into ranges; a store that cannot be opened gets one range with the problem."""
        found = [part for store in self._stores for part in _seqs(store)]
        for file in self._files:
            step = file.size if file.path.endswith(PACKED) else self._part_bytes
            found += [SpanRange(file, at, min(at + step, file.size)) for at in range(0, file.size, step or 1)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a range as Arrow batches; at damage a store's range ends with a row that reports it."""
        if not isinstance(partition, SpanRange):
            return  # Spark passes another partition if the plan is empty
        of = partition.of
        if partition.problem is not None:
            yield _batch(of, [{"_corrupt": partition.problem, "is_open": False}])
        elif isinstance(of, LineFile):
            for lines, is_open in _lines(partition, of, self._block_bytes):
                if isinstance(lines, str):
                    yield _batch(of, [{"_corrupt": lines, "is_open": is_open}])
                elif self._parsed:
                    yield _batch(of, [{**row, "is_open": is_open} for line in lines for row in rows_of(line)])
                else:
                    yield _batch(of, [{"raw": line, "is_open": is_open} for line in lines])
        elif of.url is None:
            yield from _of_file(partition, of)
        else:
            from services.pipeline.bronze.span_database import rows

            for some in rows(of.url, _STORED, low=partition.low, high=partition.high):
                yield _batch(of, map(_stored, some))


def _batch(of: Store | LineFile, rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    found = [{"cluster_id": of.cluster_id, "source": of.path, **row} for row in rows]
    return pa.RecordBatch.from_pylist(found, schema=SCHEMA)


def _stored(row: Sequence[Any]) -> dict[str, Any]:
    found = dict(zip(_STORED, row, strict=True))
    return {**found, "error": None if found["error"] is None else bool(found["error"]), "is_open": False}


def _seqs(store: Store) -> Iterator[SpanRange]:
    if store.url is not None:
        from services.pipeline.bronze.span_database import look

        low, high, _ = look(store.url)
    else:
        try:
            with closing(_opened(store.path)) as opened:
                low, high = opened.execute("select coalesce(min(seq), 0), coalesce(max(seq), -1) from spans").fetchone()
        except sqlite3.Error as problem:
            yield SpanRange(store, 0, 0, f"it is no trace store: {problem}")
            return
    for start in range(low, high + 1, PART_ROWS):
        yield SpanRange(store, start, min(start + PART_ROWS, high + 1))


def _of_file(part: SpanRange, store: Store) -> Iterator[pa.RecordBatch]:
    some: list[dict[str, Any]] = []
    try:
        with closing(_opened(store.path)) as opened:
            for row in opened.execute(f"select {_SELECT} from spans where seq >= ? and seq < ?", (part.low, part.high)):
                some.append(_stored(row))
                if len(some) == BATCH_ROWS:
                    yield _batch(store, some)
                    some = []
    except sqlite3.Error as problem:
        some.append({"_corrupt": f"spans {part.low} to {part.high - 1}: {problem}", "is_open": False})
    yield _batch(store, some)


def _opened(path: str) -> sqlite3.Connection:
    """Opens a read-only connection. Raises sqlite3.Error."""
    # A store without a write-ahead log was closed properly; `immutable` then keeps SQLite from creating files beside
    # it.
    is_closed = not Path(f"{path}-wal").exists()
    return sqlite3.connect(f"file:{quote(path)}?mode=ro{'&immutable=1' if is_closed else ''}", uri=True)


def _lines(part: SpanRange, file: LineFile, block_bytes: int) -> Iterator[tuple[Sequence[bytes] | str, bool]]:
    """Yields lines without their newlines, or why there are none; and whether the next run may read more."""
    is_packed = file.path.endswith(PACKED)
    try:
        with gzip.GzipFile(file.path) if is_packed else Path(file.path).open("rb") as opened:
            yield from _whole_lines(part, file, opened, block_bytes)
    except FileNotFoundError:
        yield "it is gone: the next one may have its lines", True
    except (EOFError, OSError, zlib.error) as problem:
        yield f"it cannot be read to its end: {problem}", file.may_grow


def _whole_lines(
    part: SpanRange, file: LineFile, opened: gzip.GzipFile | BufferedReader, block_bytes: int
) -> Iterator[tuple[Sequence[bytes], bool]]:
    is_packed = file.path.endswith(PACKED)
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
            yield whole.split(b"\n"), False
    if held:
        # The last line that begins in this range may end behind it; it is read to its end.
        left = 0 if is_packed else file.size - opened.tell()
        line = held + opened.readline(left) if left > 0 else held
        yield [line.removesuffix(b"\n")], file.may_grow and not line.endswith(b"\n")
