"""Spark's read limits, and the options that set them. Spark 4.1 has none, so only stream readers import this."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from services.pipeline.source.options import FOREVER, Options

__all__ = ["default_limit", "most_of"]


def default_limit(options: Options) -> ReadLimit:
    """Returns the limit of a micro-batch; with both limits set, that of the most: the reader itself keeps the least.

    Spark asks with another limit, all that is available, if the trigger is one that must not leave anything.
    """
    if options.offsets_max is not None:
        return ReadMaxRows(options.offsets_max)
    return ReadAllAvailable() if options.offsets_min is None else ReadMinRows(options.offsets_min)


def most_of(limit: ReadLimit) -> int:
    """Returns how many offsets a micro-batch may have."""
    return limit.max_rows if isinstance(limit, ReadMaxRows) else FOREVER
