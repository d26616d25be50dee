"""The row before a row of a history, and the rows that nothing follows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.silver.validity import by_key

__all__ = ["not_followed", "with_before"]


def with_before(history: DataFrame, key: tuple[str, ...], columns: tuple[str, ...]) -> DataFrame:
    """Adds the previous values as `was_…`, and `is_first`: the subject did not exist immediately before the row.

    A subject is identified by its cluster and `key`. `was_…` are null in a first row.
    """
    order = by_key(key, "valid_from_offset")
    follows = fn.coalesce(fn.lag("valid_to_offset").over(order) == fn.col("valid_from_offset"), fn.lit(False))
    before = {f"was_{name}": fn.when(follows, fn.lag(name).over(order)) for name in columns}
    return history.withColumns({**before, "is_first": ~follows})


def not_followed(history: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Selects the history rows after which their subject (a topic, a broker …) did not exist, at least for a while."""
    following = fn.lead("valid_from_offset").over(by_key(key, "valid_from_offset"))
    return history.withColumn("following", following).where(~fn.col("following").eqNullSafe(fn.col("valid_to_offset")))
