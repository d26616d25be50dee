"""Rows of the audit timeline: what was before a row of a history, where a thing ends, and the sentence about either."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.silver.validity import by_key

__all__ = ["began", "ended", "not_followed", "with_before"]


def with_before(history: DataFrame, key: tuple[str, ...], columns: tuple[str, ...]) -> DataFrame:
    """Rows with what was before, as `was_…`, and whether they are the first of their thing, be it anew."""
    order = by_key(key, "valid_from_offset")
    follows = fn.coalesce(fn.lag("valid_to_offset").over(order) == fn.col("valid_from_offset"), fn.lit(False))
    before = {f"was_{name}": fn.when(follows, fn.lag(name).over(order)) for name in columns}
    return history.withColumns({**before, "is_first": ~follows})


def not_followed(history: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The rows after which there was nothing, be it for a while."""
    following = fn.lead("valid_from_offset").over(by_key(key, "valid_from_offset"))
    return history.withColumn("following", following).where(~fn.col("following").eqNullSafe(fn.col("valid_to_offset")))


def began(rows: DataFrame, subject: Column, sentence: Column) -> DataFrame:
    """The rows' begin, as sentences about `subject`."""
    return _sentence(rows, "valid_from_offset", "valid_from_time", "trace_id", subject, sentence)


def ended(rows: DataFrame, subject: Column, sentence: Column) -> DataFrame:
    """The rows' end, likewise."""
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
