"""What could not be read, and what of that is over by now: two tables that are only ever added to.

A claim is known by cluster, file and words. Quarantine has a row for each time that it was made, and `withdrawn` says
how many of these are over. So it may be made again, and a job that is killed anywhere leaves it as it was or withdrawn.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.tables import Growing, add

__all__ = ["CLAIM", "QUARANTINE", "WITHDRAWN", "claim", "standing", "withdraw"]

QUARANTINE: Final = "bronze/quarantine"
WITHDRAWN: Final = "bronze/withdrawn"
CLAIM: Final = ("cluster_id", "source", "_corrupt")
_BY: Final = ("cluster_id",)


def standing(tables: Growing) -> DataFrame | None:
    """The claims that are not over, as quarantine has them; None if nothing was ever claimed."""
    claims, withdrawn = tables.read(QUARANTINE), tables.read(WITHDRAWN)
    if claims is None or withdrawn is None:
        return claims
    over = withdrawn.groupBy(*CLAIM).agg(fn.max("times").alias("over"))
    times = fn.row_number().over(Window.partitionBy(*CLAIM).orderBy("timestamp"))
    known = claims.withColumn("time", times).join(fn.broadcast(over), list(CLAIM), "left")
    # One row a claim, be it that two jobs have made it at a time.
    return known.where(fn.col("time") == fn.coalesce("over", fn.lit(0)) + 1).select(claims.columns)


def claim(tables: Growing, rows: DataFrame) -> int:
    """Add the claims that do not stand yet, once each; how many these are."""
    there = standing(tables)
    once = rows.dropDuplicates(list(CLAIM))
    new = once if there is None else once.join(there.select(*CLAIM), list(CLAIM), "left_anti").select(rows.columns)
    return add(tables, QUARANTINE, new, partition_by=_BY)


def withdraw(tables: Growing, over: DataFrame) -> int:
    """Say that these claims, by the columns of CLAIM, are over; how many they are."""
    claims = tables.read(QUARANTINE)
    assert claims is not None, "what is over was claimed"
    made = claims.join(fn.broadcast(over), list(CLAIM), "left_semi").groupBy(*CLAIM).agg(fn.count("*").alias("times"))
    return add(tables, WITHDRAWN, made.coalesce(1), partition_by=_BY)
