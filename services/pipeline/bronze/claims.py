"""Withdraws claims in quarantine that no longer hold: lines and checkpoints that are complete now, readable stores.

A claim about a line is withdrawn if its file was read again or is gone, the claim was not made again, and a longer line
in that file or one beside it begins with the same bytes (a collector renames full files). A claim about a whole file is
withdrawn if the file was read again and the claim was not made again. A claim about a single span always stays. A claim
about an unfinished checkpoint is withdrawn if that file is gone: it was completed and renamed, or abandoned. A claim
about any other file of a log is withdrawn if the whole file was read again and the claim was not made again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.pipeline.log_files import CHECKPOINT_KIND, HALF, LOG_KIND
from services.pipeline.bronze.line_files import LineFile
from services.pipeline.bronze.otlp_lines import LINE_CLAIM, text_lines
from services.pipeline.bronze.quarantine import CLAIM, standing, withdraw
from services.pipeline.memory import kept
from services.pipeline.tables import Growing

__all__ = ["SPAN_CLAIM", "claimed", "withdraw_files", "withdraw_halves", "withdraw_read"]

SPAN_CLAIM: Final = "span"
"""The first word of a quarantine claim about an invalid span."""


def claimed(tables: Growing) -> set[str]:
    """Returns the span files and trace stores about which quarantine has claims in force."""
    claims = standing(tables)
    if claims is None:
        return set()
    return {row["source"] for row in claims.where("kind = 'span'").select("source").distinct().collect()}


def withdraw_read(
    spark: SparkSession, tables: Growing, read: Sequence[str], lines: Sequence[LineFile], made: DataFrame
) -> int:
    """Withdraws the quarantine claims about spans that no longer hold after these files were read; returns how many.

    `lines` are those of the files that are not stores; `made` are all claims that this run has made.
    """
    claims = standing(tables)
    if claims is None:
        return 0
    places = sorted({str(Path(path).parent) for path in read})
    near = claims.where((fn.col("kind") == "span") & _directory().isin(places))
    with kept(near.join(made.select(*CLAIM), list(CLAIM), "left_anti")) as (not_repeated,):
        sources = [row["source"] for row in not_repeated.select("source").distinct().collect()]
        were_read = set(read)
        looked_at = [path for path in sources if path in were_read or not Path(path).exists()]
        if not looked_at:
            return 0
        return withdraw(tables, _over(spark, not_repeated.where(fn.col("source").isin(looked_at)), read, lines))


def withdraw_files(tables: Growing, read: Collection[str], made: DataFrame | None) -> int:
    """Withdraws the quarantine claims about these files of logs, which were read whole, but for those in `made`.

    Returns how many.
    """
    claims = standing(tables)
    if claims is None:
        return 0
    of_logs = claims.where(fn.col("kind").isin(LOG_KIND, CHECKPOINT_KIND))
    if made is not None:
        of_logs = of_logs.join(made.select(*CLAIM), list(CLAIM), "left_anti")
    sources = {row["source"] for row in of_logs.select("source").distinct().collect()}.intersection(read)
    over = of_logs.where(fn.col("source").isin(sorted(sources)))
    return withdraw(tables, over.select(*CLAIM)) if sources else 0


def withdraw_halves(tables: Growing) -> int:
    """Withdraws the quarantine claims about unfinished checkpoints that no longer exist; returns how many."""
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
