"""From when to when a row was so: columns that every history has.

A row holds after the record at `valid_from_offset` and no longer after the record at `valid_to_offset`; null while
nothing has ended it. The state as of an offset has all records below it, so `as_of` takes what began below and had
not ended below. What a checkpoint brought began just below the checkpoint's offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as fn

__all__ = ["SPAN", "as_of", "by_key", "ended"]

SPAN: Final = (
    "valid_from_offset",
    "valid_to_offset",
    "valid_from_time",
    "valid_to_time",
    "trace_id",
    "end_trace_id",
    "end_type",
)
"""Whose request began it and ended it, where the records say, and the type of the record that ended it."""


def by_key(key: Sequence[str], *order: str) -> WindowSpec:
    """The rows of one thing, in order: of `offset`, if no other is named."""
    return Window.partitionBy("cluster_id", *key).orderBy(*(order or ("offset",)))


def ended(rows: DataFrame, order: WindowSpec, removed: Column) -> DataFrame:
    """Rows that begin something, each with what ended it: the next by `order`. Those `removed` only end."""
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
    """The rows of a history that hold in the state with all records below `offset`."""
    began = fn.col("valid_from_offset") < offset
    return history.where(began & (fn.col("valid_to_offset").isNull() | (fn.col("valid_to_offset") >= offset)))
