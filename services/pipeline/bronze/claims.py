"""What quarantine says that is not so any more: lines and checkpoints that are whole by now, stores that can be read.

A claim of a line is over when the file was read again, or has gone, and it is not told again, but a longer line there
or in a file beside it begins with the same bytes: a collector gives full files other names. One of a whole file is over
when that was read again and it is not told again. One of a single span stays. One of half a checkpoint is over when
that is gone: it has its name by now, or the node that began it has given it up, which loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.pipeline.places import CHECKPOINT_KIND, HALF
from services.pipeline.bronze.line_files import LineFile
from services.pipeline.bronze.otlp_lines import LINE_CLAIM, text_lines
from services.pipeline.bronze.quarantine import CLAIM, standing, withdraw
from services.pipeline.tables import Growing

__all__ = ["SPAN_CLAIM", "claimed", "withdraw_halves", "withdraw_read"]

SPAN_CLAIM: Final = "span"
"""How it is told what a span is not."""


def claimed(tables: Growing) -> set[str]:
    """The files with spans of which quarantine says something."""
    claims = standing(tables)
    if claims is None:
        return set()
    return {row["source"] for row in claims.where("kind = 'span'").select("source").distinct().collect()}


def withdraw_read(
    spark: SparkSession, tables: Growing, read: Sequence[str], lines: Sequence[LineFile], told: DataFrame
) -> int:
    """Withdraw the claims that are over, now that these files were read; how many they were.

    `lines` are those of them that are no stores, and `told` is all that was found wrong with any.
    """
    claims = standing(tables)
    if claims is None:
        return 0
    places = sorted({str(Path(path).parent) for path in read})
    near = claims.where((fn.col("kind") == "span") & _directory().isin(places))
    unsaid = near.join(told.select(*CLAIM), list(CLAIM), "left_anti").persist()
    try:
        sources = [row["source"] for row in unsaid.select("source").distinct().collect()]
        were_read = set(read)
        looked_at = [path for path in sources if path in were_read or not Path(path).exists()]
        if not looked_at:
            return 0
        return withdraw(tables, _over(spark, unsaid.where(fn.col("source").isin(looked_at)), read, lines))
    finally:
        unsaid.unpersist()


def withdraw_halves(tables: Growing) -> int:
    """Withdraw the claims of checkpoints that are half no more; how many they were."""
    claims = standing(tables)
    if claims is None:
        return 0
    of_halves = claims.where((fn.col("kind") == CHECKPOINT_KIND) & fn.startswith("_corrupt", fn.lit(HALF)))
    sources = [row["source"] for row in of_halves.select("source").distinct().collect()]
    gone = [path for path in sources if Path(path).parent.is_dir() and not Path(path).exists()]
    return withdraw(tables, of_halves.where(fn.col("source").isin(gone)).select(*CLAIM)) if gone else 0


def _over(spark: SparkSession, claims: DataFrame, read: Sequence[str], lines: Sequence[LineFile]) -> DataFrame:
    is_of_line = fn.startswith("_corrupt", fn.lit(LINE_CLAIM))
    is_of_span = fn.startswith("_corrupt", fn.lit(SPAN_CLAIM))
    of_files = claims.where(~is_of_line & ~is_of_span & fn.col("source").isin(list(read))).select(*CLAIM)
    if not lines:
        return of_files
    whole = text_lines(spark, lines).select(_directory().alias("place"), "value")
    of_lines = claims.where(is_of_line).withColumn("place", _directory())
    same = of_lines["place"] == whole["place"]
    goes_on = fn.startswith(whole["value"], of_lines["raw"])
    is_longer = fn.octet_length(whole["value"]) > fn.octet_length(of_lines["raw"])
    return of_files.union(whole.join(fn.broadcast(of_lines), same & goes_on & is_longer).select(*CLAIM))


def _directory() -> Column:
    return fn.regexp_extract("source", "^(.*)/[^/]*$", 1)
