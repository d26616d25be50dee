"""Doctor findings about what is in no state, so that Spark has their rules: periods without an active controller, and
records of deposed leaders. Both read all records of a cluster, and may read those of any number of years.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.doctor import Severity
from services.pipeline.gold.doctor_rules import findings, text
from services.pipeline.gold.silence import by_two_clocks, silences

__all__ = ["deposed_findings", "silence_findings"]


def silence_findings(events: DataFrame) -> DataFrame:
    """Returns one finding for each cluster with periods in which no controller wrote: the longest, and how many."""
    found = silences(events)
    longest = fn.max_by(fn.struct("before", "after", "silent_ms"), "silent_ms").alias("longest")
    rows = found.groupBy("cluster_id").agg(longest, fn.count("*").alias("count")).select("*", "longest.*")
    rows = rows.withColumns({"since_offset": fn.col("before.offset"), "since_time": fn.col("before.timestamp")})
    clocks = by_two_clocks("before", "after")
    more = fn.when(fn.col("count") > 1, text("; the longest of ", fn.col("count"), " such times")).otherwise("")
    wrote = text("no controller wrote for ", fn.round(fn.col("silent_ms") / 1000, 1), " s", clocks, ": from offset ")
    between = text(fn.col("before.offset"), " in epoch ", fn.col("before.epoch"), " until ", _end())
    return findings(
        rows,
        Severity.WARN,
        "CONTROLLER_SILENT",
        fn.lit("quorum"),
        fn.concat(wrote, between, more),
        "see the controllers' logs of that time: was a majority of the voters away, a disk stuck, all stopped?",
    )


def deposed_findings(deposed: DataFrame) -> DataFrame:
    """Returns one finding for each epoch with records that are known to be uncommitted."""
    rows = deposed.groupBy("cluster_id", "epoch").agg(
        fn.count_distinct("offset", "digest").alias("count"),
        fn.min("offset").alias("since_offset"),
        fn.max("offset").alias("last_offset"),
        fn.min_by("timestamp", "offset").alias("since_time"),
        fn.array_join(fn.array_sort(fn.collect_set("source")), ", ").alias("sources"),
    )
    where = text("offsets ", fn.col("since_offset"), " to ", fn.col("last_offset"), " of ", fn.col("sources"))
    return findings(
        rows,
        Severity.INFO,
        "DEPOSED_RECORDS",
        text("epoch ", fn.col("epoch")),
        text(fn.col("count"), " records of epoch ", fn.col("epoch"), " were never committed: ", where),
        "nothing that was acknowledged is lost: their leader was deposed, and its clients had an error or no answer; "
        "let them ask again for what they miss",
    )


def _end() -> Column:
    """Describes what ended the silence: a new leader, or a record of the same epoch."""
    led = text(
        "controller ", fn.col("after.leader_id"), " became the active controller, in epoch ", fn.col("after.epoch")
    )
    wrote = text("offset ", fn.col("after.offset"), " in epoch ", fn.col("after.epoch"))
    return fn.when(fn.col("after.leader_id").isNotNull(), led).otherwise(wrote)
