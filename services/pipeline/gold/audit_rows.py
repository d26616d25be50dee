"""Builds rows of the audit timeline from a history: the change at the start of a row, or at its end, as a sentence."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.silver.validity import by_key

__all__ = ["began", "ended", "not_followed", "with_before"]


def with_before(history: DataFrame, key: tuple[str, ...], columns: tuple[str, ...]) -> DataFrame:
    """Adds the previous values as `was_…`, and `is_first`: the subject did not exist immediately before the row."""
    order = by_key(key, "valid_from_offset")
    follows = fn.coalesce(fn.lag("valid_to_offset").over(order) == fn.col("valid_from_offset"), fn.lit(False))
    before = {f"was_{name}": fn.when(follows, fn.lag(name).over(order)) for name in columns}
    return history.withColumns({**before, "is_first": ~follows})


def not_followed(history: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Selects the history rows after which their subject (a topic, a broker …) did not exist, at least for a while."""
    following = fn.lead("valid_from_offset").over(by_key(key, "valid_from_offset"))
    return history.withColumn("following", following).where(~fn.col("following").eqNullSafe(fn.col("valid_to_offset")))


def began(rows: DataFrame, subject: Column, sentence: Column) -> DataFrame:
    """Returns an audit timeline row for the start of each row: sentence about `subject`, time, offset, trace id."""
    return _sentence(rows, "valid_from_offset", "valid_from_time", "trace_id", subject, sentence)


def ended(rows: DataFrame, subject: Column, sentence: Column) -> DataFrame:
    """Returns an audit timeline row for the end of each row: sentence about `subject`, time, offset, trace id."""
    return _sentence(rows, "valid_to_offset", "valid_to_time", "end_trace_id", subject, sentence)


def _sentence(rows: DataFrame, offset: str, time: str, trace: str, subject: Column, sentence: Column) -> DataFrame:
    return rows.select(
        "cluster_id",
        fn.col(offset).alias("offset"),
        fn.col(time).alias("time"),
        subject.alias("subject"),
        fn.concat_ws(" ", subject, sentence).alias("sentence"),
        fn.col(trace).alias("trace_id"),
    )
