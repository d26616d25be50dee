"""A Spark data source for the observer's trace store: reads its table `spans` and returns Arrow batches.

A store is an SQLite file or a database (`span_database`). It may be in use: it is opened read-only, and only committed
rows are read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

__all__ = ["SpanStoreSource", "Store", "read_stores"]

NAME: Final = "span_store"
OPTION: Final = "storeUrls"
"""Spark redacts options with `url` in their names in logs and plans, because they may contain a password."""
PART_ROWS: Final = 50_000
"""How many sequence numbers (`seq`) one task reads: about 20 MB."""
BATCH_ROWS: Final = 8_192

SCHEMA: Final = """
    cluster_id string, source string, trace_id string, span_id string, parent_span_id string, name string,
    service string, instance string, start_ns string, end_ns string, error boolean, attributes string, _corrupt string
"""
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
_TYPES: Final = {"error": pa.bool_()}
_ARROW: Final = pa.schema(
    [(name, _TYPES.get(name, pa.string())) for name in ("cluster_id", "source", *_STORED, "_corrupt")]
)
assert [each.split()[0] for each in SCHEMA.split(",")] == _ARROW.names, (SCHEMA, _ARROW)
_ERROR: Final = _ARROW.get_field_index("error")
# Columns are read as text, since a damaged store may hold anything; the caller checks them.
_SELECT: Final = ", ".join(f"cast({name} as text)" if name != "error" else "error != 0" for name in _STORED)
_ROWS: Final = f"select {_SELECT} from spans where seq >= ? and seq < ?"


class Store(NamedTuple):
    """A trace store: its path without secrets, its cluster id, and the URL if it is a database (None for a file)."""

    path: str
    cluster_id: str
    url: str | None = None


def read_stores(spark: SparkSession, stores: Iterable[Store]) -> DataFrame:
    """Reads the spans of these stores with their cluster ids: columns as stored, times as text.

    Rows that cannot be read become a row with `_corrupt`, which names the sequence numbers.
    """
    spark.dataSource.register(SpanStoreSource)
    return spark.read.format(NAME).option(OPTION, json.dumps(list(stores))).load()


class SpanStoreSource(DataSource):
    """The data source `span_store`; its option `storeUrls` is a JSON array of Store."""

    @classmethod
    def name(cls) -> str:
        """Returns "span_store", the name for `format(…)`."""
        return NAME

    def schema(self) -> str:
        """Returns the schema: the columns of the table `spans`, with the cluster id and the store's path."""
        return SCHEMA

    def reader(self, schema: StructType) -> SpanStoreReader:
        """Returns the reader of the listed trace stores. Raises ValueError if the option `storeUrls` is missing."""
        if OPTION not in self.options:
            raise ValueError(f"the source {NAME} needs the option {OPTION}: a JSON array")
        return SpanStoreReader([Store(*each) for each in json.loads(self.options[OPTION])])


class SpanRange(InputPartition):
    """A Spark input partition: the spans of a store whose `seq` is from `low` to `high` (exclusive).

    If `problem` is set, no span is read: the reader reports the problem as a row with `_corrupt`.
    """

    def __init__(self, store: Store, low: int, high: int, problem: str | None = None) -> None:
        super().__init__(None)
        self.store = store
        self.low = low
        self.high = high
        self.problem = problem


class SpanStoreReader(DataSourceReader):
    """Reads all stores; each is split by sequence number, the order in which its spans arrived."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores

    def partitions(self) -> Sequence[InputPartition]:
        """Splits the stores into ranges; a file that cannot be opened gets one range with the problem.

        Raises OSError, naming the database, for one that cannot be read.
        """
        return [part for store in self._stores for part in _ranges(store)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the spans of a range as Arrow batches; at damage the range ends with a row that reports it."""
        if not isinstance(partition, SpanRange):
            return  # Spark passes another partition if the plan is empty
        if partition.problem is not None:
            yield _damaged(partition, partition.problem)
            return
        if partition.store.url is None:
            yield from _of_file(partition)
            return
        from services.pipeline.bronze.span_database import rows

        for some in rows(partition.store.url, _STORED, low=partition.low, high=partition.high):
            yield _batch(partition, some)


def _of_file(part: SpanRange) -> Iterator[pa.RecordBatch]:
    some: list[Sequence[object]] = []
    damage: sqlite3.Error | None = None
    try:
        with closing(_opened(part.store.path)) as store:
            for row in store.execute(_ROWS, (part.low, part.high)):
                some.append(row)
                if len(some) == BATCH_ROWS:
                    yield _batch(part, some)
                    some = []
    except sqlite3.Error as problem:
        damage = problem
    if some:
        yield _batch(part, some)
    if damage is not None:
        yield _damaged(part, f"spans {part.low} to {part.high - 1}: {damage}")


def _ranges(store: Store) -> Iterator[SpanRange]:
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


def _opened(path: str) -> sqlite3.Connection:
    """Opens a read-only connection. Raises sqlite3.Error."""
    # A store without a write-ahead log was closed properly; `immutable` then keeps SQLite from creating files beside
    # it.
    is_closed = not Path(f"{path}-wal").exists()
    return sqlite3.connect(f"file:{quote(path)}?mode=ro{'&immutable=1' if is_closed else ''}", uri=True)


def _batch(part: SpanRange, rows: Sequence[Sequence[object]]) -> pa.RecordBatch:
    count = len(rows)
    columns = [
        [part.store.cluster_id] * count,
        [part.store.path] * count,
        *map(list, zip(*rows, strict=True)),
        [None] * count,
    ]
    columns[_ERROR] = [None if each is None else bool(each) for each in columns[_ERROR]]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )


def _damaged(part: SpanRange, problem: str) -> pa.RecordBatch:
    row_values = {"cluster_id": part.store.cluster_id, "source": part.store.path, "_corrupt": problem}
    return pa.RecordBatch.from_pylist([row_values], schema=_ARROW)
