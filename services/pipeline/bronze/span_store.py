"""Reads the observer's trace stores: the table `spans`, as a data source whose tasks answer with Arrow.

A store is a file of SQLite's or a database (`span_database`). It may be in use: it is opened read-only, and what its
writer has committed is read.
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
"""Spark tells nobody the value of an option with `url` in its name: it may hold a password."""
PART_ROWS: Final = 50_000
"""Numbers that one task reads: about 20 MB."""
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
_ERROR: Final = _ARROW.get_field_index("error")
# As text, whatever a broken store holds: who reads it judges it.
_SELECT: Final = ", ".join(f"cast({name} as text)" if name != "error" else "error != 0" for name in _STORED)
_ROWS: Final = f"select {_SELECT} from spans where seq >= ? and seq < ?"


class Store(NamedTuple):
    """What is told of a store, the cluster that it is of, and the URL of a database; a file has its path alone."""

    path: str
    cluster_id: str
    url: str | None = None


def read_stores(spark: SparkSession, stores: Iterable[Store]) -> DataFrame:
    """The spans of these stores, each of the cluster beside its name: columns as stored, times as text.

    What cannot be read of a file is a row with `_corrupt`, naming file and numbers.
    """
    spark.dataSource.register(SpanStoreSource)
    return spark.read.format(NAME).option(OPTION, json.dumps(list(stores))).load()


class SpanStoreSource(DataSource):
    """The format `span_store`; its option `storeUrls` is a JSON array of Store."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return NAME

    def schema(self) -> str:
        """The table's columns, and where they are from."""
        return SCHEMA

    def reader(self, schema: StructType) -> SpanStoreReader:
        """Raises ValueError without stores."""
        if OPTION not in self.options:
            raise ValueError(f"the source {NAME} needs the option {OPTION}: a JSON array")
        return SpanStoreReader([Store(*each) for each in json.loads(self.options[OPTION])])


class Range(InputPartition):
    """Numbers `low` to `high` (exclusive) of one store; or why it is not read."""

    def __init__(self, store: Store, low: int, high: int, problem: str | None = None) -> None:
        super().__init__(None)
        self.store = store
        self.low = low
        self.high = high
        self.problem = problem


class SpanStoreReader(DataSourceReader):
    """One read of all stores, cut by the numbers in which their spans arrived."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores

    def partitions(self) -> Sequence[InputPartition]:
        """At least one a store, so that a broken one is told of."""
        return [part for store in self._stores for part in _ranges(store)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range; after damage, what was read before it."""
        if not isinstance(partition, Range):
            return  # what Spark makes of no parts at all
        if partition.problem is not None:
            yield _damaged(partition, partition.problem)
            return
        if partition.store.url is None:
            yield from _of_file(partition)
            return
        from services.pipeline.bronze.span_database import rows

        for some in rows(partition.store.url, _STORED, low=partition.low, high=partition.high):
            yield _batch(partition, some)


def _of_file(part: Range) -> Iterator[pa.RecordBatch]:
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


def _ranges(store: Store) -> Iterator[Range]:
    if store.url is not None:
        from services.pipeline.bronze.span_database import look

        low, high, _ = look(store.url)
    else:
        try:
            with closing(_opened(store.path)) as opened:
                low, high = opened.execute("select coalesce(min(seq), 0), coalesce(max(seq), -1) from spans").fetchone()
        except sqlite3.Error as problem:
            yield Range(store, 0, 0, f"it is no trace store: {problem}")
            return
    for start in range(low, high + 1, PART_ROWS):
        yield Range(store, start, min(start + PART_ROWS, high + 1))


def _opened(path: str) -> sqlite3.Connection:
    """A connection that cannot write. Raises sqlite3.Error."""
    # A store that was closed in good order has no journal beside it; then nothing is created there either.
    is_closed = not Path(f"{path}-wal").exists()
    return sqlite3.connect(f"file:{quote(path)}?mode=ro{'&immutable=1' if is_closed else ''}", uri=True)


def _batch(part: Range, rows: Sequence[Sequence[object]]) -> pa.RecordBatch:
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


def _damaged(part: Range, problem: str) -> pa.RecordBatch:
    said = {"cluster_id": part.store.cluster_id, "source": part.store.path, "_corrupt": problem}
    return pa.RecordBatch.from_pylist([said], schema=_ARROW)
