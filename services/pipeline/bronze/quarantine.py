"""Quarantine: append-only tables of the input that could not be read, and of the claims that were withdrawn since.

A claim says that some input is damaged or missing; cluster, file and text identify it. Each time that it is made adds a
row to quarantine; a row of `withdrawn` says how many of these no longer hold. So a claim can be made again later, and
after a job was killed it is either in force or withdrawn.
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
    """Returns the quarantine rows whose claim still holds; None if there was never a claim."""
    claims, withdrawn = tables.read(QUARANTINE), tables.read(WITHDRAWN)
    if claims is None or withdrawn is None:
        return claims
    over = withdrawn.groupBy(*CLAIM).agg(fn.max("times").alias("over"))
    times = fn.row_number().over(Window.partitionBy(*CLAIM).orderBy("timestamp"))
    known = claims.withColumn("time", times).join(fn.broadcast(over), list(CLAIM), "left")
    # This gives one row a claim, even if two jobs made it at the same time.
    return known.where(fn.col("time") == fn.coalesce("over", fn.lit(0)) + 1).select(claims.columns)


def claim(tables: Growing, rows: DataFrame) -> int:
    """Appends to quarantine those of the claims that are not in force yet, each once; returns how many."""
    there = standing(tables)
    once = rows.dropDuplicates(list(CLAIM))
    new = once if there is None else once.join(there.select(*CLAIM), list(CLAIM), "left_anti").select(rows.columns)
    return add(tables, QUARANTINE, new, partition_by=_BY)


def withdraw(tables: Growing, over: DataFrame) -> int:
    """Withdraws these claims about unreadable input, given by the columns of CLAIM; returns how many."""
    claims = tables.read(QUARANTINE)
    assert claims is not None, "what is over was claimed"
    made = claims.join(fn.broadcast(over), list(CLAIM), "left_semi").groupBy(*CLAIM).agg(fn.count("*").alias("times"))
    return add(tables, WITHDRAWN, made.coalesce(1), partition_by=_BY)
