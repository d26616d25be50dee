"""Validity columns: from which record to which record a row of a history held.

A row holds after the record at `valid_from_offset`, and no longer after the record at `valid_to_offset`, which is null
while the row still holds. The state as of an offset contains all records below it, so `as_of` selects the rows that
began below that offset and had not ended below it. Rows from a checkpoint begin just below its offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as fn

__all__ = ["SPAN", "as_of", "at_begin", "at_end", "by_key", "ended"]

SPAN: Final = (
    "valid_from_offset",
    "valid_to_offset",
    "valid_from_time",
    "valid_to_time",
    "trace_id",
    "end_trace_id",
    "end_type",
)
"""The validity columns; trace ids are those of the requests that began and ended the row, null if the log has none."""


def by_key(key: Sequence[str], *order: str) -> WindowSpec:
    """Returns the window over the rows of one key in a cluster, ordered by `offset` or by the columns named."""
    return Window.partitionBy("cluster_id", *key).orderBy(*(order or ("offset",)))


def ended(rows: DataFrame, order: WindowSpec, removed: Column) -> DataFrame:
    """Adds to each row from when to when it held (SPAN): from its own record to that of the next row by `order`.

    Rows where `removed` is true only end others and are dropped.
    """
    spans = rows.withColumns(
        {
            "valid_from_offset": fn.col("offset"),
            "valid_to_offset": fn.lead("offset").over(order),
            "valid_from_time": fn.col("timestamp"),
            "valid_to_time": fn.lead("timestamp").over(order),
            "end_trace_id": fn.lead("trace_id").over(order),
            "end_type": fn.lead("type").over(order),
        }
    )
    return spans.where(~removed)


def as_of(history: DataFrame, offset: Column) -> DataFrame:
    """Selects the rows of a history that hold in the state of all records below `offset`."""
    began = fn.col("valid_from_offset") < offset
    return history.where(began & (fn.col("valid_to_offset").isNull() | (fn.col("valid_to_offset") >= offset)))


def at_begin(history: DataFrame, *columns: Column | str) -> DataFrame:
    """Selects `cluster_id`, and `offset` and `time` of the record from which on each row held, and these columns."""
    return _at(history, "valid_from", columns)


def at_end(history: DataFrame, *columns: Column | str) -> DataFrame:
    """Selects `cluster_id`, `offset` and `time` of the record behind which each row no longer held, and these columns.

    The offset and the time are null while a row holds.
    """
    return _at(history, "valid_to", columns)


def _at(history: DataFrame, side: str, columns: Sequence[Column | str]) -> DataFrame:
    offset, time = (fn.col(f"{side}_{name}").alias(name) for name in ("offset", "time"))
    return history.select("cluster_id", offset, time, *columns)
