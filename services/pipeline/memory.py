"""Computes DataFrames before what needs them, in the manner that suits the amount of data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

__all__ = ["IS_SMALL", "count_of", "is_small", "kept", "shortened", "united"]

IS_SMALL: Final = "spark.quorate.small"
"""A session setting that marks a session for few records (`session.SMALL`)."""


def is_small(spark: SparkSession) -> bool:
    """Returns whether this session is configured for few records."""
    return spark.conf.get(IS_SMALL, "false") == "true"


@contextmanager
def kept(*frames: DataFrame) -> Iterator[tuple[DataFrame, ...]]:
    """A context manager that yields DataFrames with the same rows, each computed only once.

    In a session for few records the rows are checkpointed locally, so that later query plans stay short; elsewhere they
    are persisted until the end. With few rows persisting is slower: Spark compiles code for its columnar cache, and
    plans every query down to the rows' source.
    """
    if frames and is_small(frames[0].sparkSession):
        yield tuple(map(shortened, frames))
        return
    persisted = tuple(frame.persist() for frame in frames)
    try:
        yield persisted
    finally:
        for frame in persisted:
            frame.unpersist()


def shortened(frame: DataFrame) -> DataFrame:
    """Returns a DataFrame with the same rows; in a session for few records they are computed now.

    There, most time goes into plans: each step looks through the whole plan before it, and the optimizer repeats all
    its rules until none changes anything in any part. A job of few rows takes less.
    """
    return frame.localCheckpoint() if is_small(frame.sparkSession) else frame


def united(frames: Iterable[DataFrame]) -> DataFrame:
    """Returns the rows of all these DataFrames, each `shortened`; they have the same columns."""
    return reduce(DataFrame.unionByName, map(shortened, frames))


def count_of(frame: DataFrame) -> int:
    """Returns the number of rows; in a session for few records they are counted as they are, without another plan."""
    if not is_small(frame.sparkSession):
        return frame.count()
    classic: Any = frame  # pyspark's stubs leave the JVM's object out
    return int(classic._jdf.queryExecution().toRdd().count())
