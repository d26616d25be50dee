"""What silver is made of, cluster by cluster: so that a run makes only those again of which bronze has something new.

A cluster may be made by itself if its events have only gone on since: then no row of its histories goes, and each table
can take its new partition for the old one. If what was there has changed (a tail was truncated, two clusters have one
name, an older checkpoint has come), everything is made anew. The marks are written last, and taken away before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.nouns import Offset
from services.pipeline.tables import Tables

__all__ = ["NOTHING", "PROGRESS", "Mark", "Sum", "bronze_sums", "event_marks", "has_only_grown", "marks", "note"]

PROGRESS: Final = "silver/progress"
LAYOUT: Final = 2
"""To be raised when silver is made otherwise than before: then everything is made anew."""
_COLUMNS: Final = ("layout", "bronze_rows", "bronze_parity", "end_offset", "event_rows", "event_parity")
_SCHEMA: Final = ", ".join(("cluster_id string", *(f"{name} bigint" for name in _COLUMNS)))


class Sum(NamedTuple):
    """So many rows, and the exclusive-or of their hashes: equal for equal rows in any order, if none is there twice."""

    rows: int
    parity: int


class Mark(NamedTuple):
    """A cluster as silver has it: its rows in bronze, and its events, which end at `end_offset` (exclusive)."""

    bronze: Sum
    end_offset: Offset
    events: Sum


NOTHING: Final = (0, Sum(0, 0))
"""Of a cluster without events: where they end, and what they come to."""


def bronze_sums(records: DataFrame, snapshots: DataFrame | None) -> dict[str, Sum]:
    """Each cluster's rows of logs and checkpoints together; no payload is read."""
    every = records.select("cluster_id", fn.xxhash64("offset", "epoch", "digest").alias("hash"))
    if snapshots is not None:
        named = snapshots.select("cluster_id", fn.xxhash64("fingerprint", "offset").alias("hash"))
        every = every.unionByName(named)
    found = every.groupBy("cluster_id").agg(fn.count("*").alias("rows"), fn.bit_xor("hash").alias("parity"))
    return {row["cluster_id"]: Sum(row["rows"], row["parity"]) for row in found.collect()}


def event_marks(counted: DataFrame) -> dict[str, tuple[Offset, Sum]]:
    """Where each cluster's events end, and what they come to."""
    what = fn.xxhash64("offset", "epoch", "type")
    found = counted.groupBy("cluster_id").agg(
        (fn.max("offset") + 1).alias("end"), fn.count("*").alias("rows"), fn.bit_xor(what).alias("parity")
    )
    return {row["cluster_id"]: (row["end"], Sum(row["rows"], row["parity"])) for row in found.collect()}


def has_only_grown(counted: DataFrame, before: Mapping[str, Mark]) -> bool:
    """Do the new events of each cluster that was there begin with all that it had?"""
    if not before:
        return True
    spark = counted.sparkSession
    ends = [(cluster_id, mark.end_offset) for cluster_id, mark in before.items()]
    old = fn.broadcast(spark.createDataFrame(ends, "cluster_id string, old_end bigint"))
    below = counted.join(old, "cluster_id").where("offset < old_end")
    found = {cluster_id: sum_ for cluster_id, (_, sum_) in event_marks(below).items()}
    return all(found.get(cluster_id) == mark.events for cluster_id, mark in before.items() if mark.events.rows)


def marks(tables: Tables) -> dict[str, Mark]:
    """What was noted last; nothing if silver was never made, or not to its end."""
    noted = tables.read(PROGRESS)
    if noted is None:
        return {}
    rows = noted.where(fn.col("layout") == LAYOUT).select("cluster_id", *_COLUMNS).collect()
    return {row[0]: Mark(Sum(row[2], row[3]), row[4], Sum(row[5], row[6])) for row in rows}


def note(spark: SparkSession, tables: Tables, made: Mapping[str, Mark]) -> None:
    """Silver is this now; nothing that one could go on from, if it is nothing."""
    rows = [
        (cluster_id, LAYOUT, *mark.bronze, mark.end_offset, *mark.events) for cluster_id, mark in sorted(made.items())
    ]
    tables.keep(PROGRESS, spark.createDataFrame(rows, _SCHEMA))
