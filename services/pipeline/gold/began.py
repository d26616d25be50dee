"""Finds since when a condition has held without interruption, from a history of states: the start of a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.silver.validity import by_key

__all__ = ["began", "last_lives", "since"]


def began(history: DataFrame, key: Sequence[str], conditions: Mapping[str, Column]) -> DataFrame:
    """Computes one row a key: for each condition a struct of `offset` and `time`, with null fields if it fails now.

    `history` has the states of each key without gaps, with the validity columns of silver. A condition began where the
    last state without it ended, or where the key's history begins.
    """
    first = fn.min(since("valid_from_offset", "valid_from_time"))
    paused = {
        name: fn.max(fn.when(~fn.coalesce(holds, fn.lit(False)), since("valid_to_offset", "valid_to_time", last=True)))
        for name, holds in conditions.items()
    }
    return history.groupBy(*key).agg(*(fn.coalesce(value, first).alias(name) for name, value in paused.items()))


def last_lives(history: DataFrame, key: str) -> DataFrame:
    """Returns the states of each key since it last began to exist: those before are of an earlier life.

    `key` is a column beside `cluster_id`. A state that does not begin where the one before ends begins a life.
    """
    order = by_key((key,), "valid_from_offset")
    begins = fn.lag("valid_to_offset").over(order) != fn.col("valid_from_offset")
    begin = fn.max(fn.when(begins, fn.col("valid_from_offset"))).over(Window.partitionBy("cluster_id", key))
    of_last = history.withColumn("begins", begins).withColumn("life", begin)
    return of_last.where("life is null or valid_from_offset >= life").drop("begins", "life")


def since(offset: str, time: str, *, last: bool = False) -> Column:
    """Returns a struct of `offset` and `time` that sorts by them; with `last` a state that still holds sorts last."""
    still = fn.col(offset).isNull() if last else fn.lit(False)
    return fn.struct(still.alias("is_open"), fn.col(offset).alias("offset"), fn.col(time).alias("time"))
