"""The commit SLO: commit latencies for each hour, the slowest follower, and the gaps that elections cause.

A write counts in the hour in which it began. Failed writes, and those whose request or commit has no span, have no
duration and are left out of the percentiles. An election gap is the time from an epoch's last record to the
LeaderChange of the next epoch, by the log's timestamps, and counts in the hour in which it ends. Each leader has its
own clock: if the new one's is behind, the gap is 0, and `clock_behind_ms` is the difference. An idle quorum writes a
NoOpRecord at intervals (KIP-835), so a gap may begin up to one interval too early.

Percentiles use `percentile_approx`: the result is always a measured duration, memory is bounded, and the rank error is
at most 1 in ACCURACY, so with fewer writes than that it is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.gold.clocks import epochs
from services.pipeline.silver.write_path import SCHEMA, WRITE_PATH

__all__ = ["ACCURACY", "OBJECTIVE_MS", "commit_slo"]

OBJECTIVE_MS: Final = 100
"""The objective for the time from the request to the commit, in ms, on the active controller's clock."""
ACCURACY: Final = 10_000
_HOUR: Final = ("cluster_id", "hour")
_MEASURED: Final = {
    "request_to_committed": "request_to_committed_us",
    "appended_to_committed": "appended_to_committed_us",
}


def commit_slo(silver: Mapping[str, DataFrame], *, objective_ms: int = OBJECTIVE_MS) -> DataFrame:
    """Computes one row for each cluster and hour (UTC) with writes or elections; durations in µs, gaps in ms.

    Without the table `write_path` it has only the election gaps.
    """
    events = silver["events"]
    writes = silver[WRITE_PATH] if WRITE_PATH in silver else events.sparkSession.createDataFrame([], SCHEMA)
    writes = writes.withColumn("hour", _hour(fn.col("began_at")))
    rows = _latencies(writes, objective_ms).join(_followers(writes), list(_HOUR), "left")
    rows = rows.join(_applies(writes), list(_HOUR), "left").join(_gaps(events), list(_HOUR), "full_outer")
    counts = ("writes", "whole_writes", "failed_writes", "election_count")
    return rows.withColumns({name: fn.coalesce(name, fn.lit(0)) for name in counts})


def _latencies(writes: DataFrame, objective_ms: int) -> DataFrame:
    measured = fn.count("request_to_committed_us")
    within = fn.count_if(fn.col("request_to_committed_us") <= objective_ms * 1000)
    return writes.groupBy(*_HOUR).agg(
        fn.count("*").alias("writes"),
        fn.count_if("is_whole").alias("whole_writes"),
        fn.count("error").alias("failed_writes"),
        *(each for name, column in _MEASURED.items() for each in _percentiles(name, fn.col(column))),
        fn.lit(objective_ms).alias("objective_ms"),
        fn.try_divide(within, measured).alias("within_objective"),
    )


def _followers(writes: DataFrame) -> DataFrame:
    """Finds the follower that was last for most writes, with that share, and its p99 delay after the leader's flush."""
    each = writes.select(*_HOUR, "trace_id", "base_offset", fn.explode("voters").alias("voter"))
    each = each.where("not voter.is_leader and voter.after_leader_us is not null")
    of_write = Window.partitionBy(*_HOUR, "trace_id", "base_offset")
    last = fn.max(fn.struct("voter.after_leader_us", "voter.node_id")).over(of_write)["node_id"]
    ranked = each.withColumn("was_last", fn.col("voter.node_id") == last)
    nodes = ranked.groupBy(*_HOUR, "voter.node_id").agg(
        fn.count_if("was_last").alias("times"),
        fn.percentile_approx("voter.after_leader_us", 0.99, ACCURACY).alias("p99"),
    )
    slowest = fn.max(fn.struct("times", "p99", "node_id"))
    return (
        nodes.groupBy(*_HOUR)
        .agg(slowest.alias("slowest"), fn.sum("times").alias("all"))
        .select(
            *_HOUR,
            fn.col("slowest.node_id").alias("slowest_follower"),
            (fn.col("slowest.times") / fn.col("all")).alias("slowest_follower_share"),
            fn.col("slowest.p99").alias("slowest_follower_p99_us"),
        )
    )


def _applies(writes: DataFrame) -> DataFrame:
    """Computes percentiles from the commit to the apply of each replica, except the writer, which applies earlier."""
    each = writes.select(*_HOUR, fn.explode("applies").alias("apply"))
    return each.groupBy(*_HOUR).agg(*_percentiles("committed_to_applied", fn.col("apply.after_commit_us")))


def _gaps(events: DataFrame) -> DataFrame:
    """Computes the elections of each hour: their number, the longest and total gap, and each with its epochs."""
    gaps = epochs(events).where("from_epoch is not null")
    gap_ms = fn.unix_millis("begin") - fn.unix_millis("ended")
    one = fn.struct(
        fn.col("begin").alias("at"),
        "from_epoch",
        fn.col("epoch").alias("to_epoch"),
        "leader_id",
        fn.greatest(gap_ms, fn.lit(0)).alias("gap_ms"),
        fn.col("back_ms").alias("clock_behind_ms"),
    )
    hours = gaps.withColumn("gap", one).groupBy("cluster_id", _hour(fn.col("begin")).alias("hour"))
    return hours.agg(
        fn.count("*").alias("election_count"),
        fn.max("gap.gap_ms").alias("election_gap_ms_max"),
        fn.sum("gap.gap_ms").alias("election_gap_ms_sum"),
        fn.array_sort(fn.collect_list("gap")).alias("election_gaps"),
    )


def _percentiles(name: str, of: Column) -> tuple[Column, ...]:
    shares: dict[str, Any] = {"p50": 0.5, "p99": 0.99}  # Any, because pyspark's stubs declare it so
    return tuple(
        fn.percentile_approx(of, share, ACCURACY).alias(f"{name}_{called}_us") for called, share in shares.items()
    )


def _hour(moment: Column) -> Column:
    return fn.date_trunc("hour", moment)
