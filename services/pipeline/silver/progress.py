"""Progress marks of silver: what each cluster was built from, so that a run rebuilds only clusters with new records.

A cluster can be rebuilt alone if its old events are unchanged and new ones follow: then each table replaces only its
partition. If old events have changed (a tail was truncated, two clusters have one id, an older checkpoint was added),
everything is rebuilt; the marks are deleted before that. The marks are always written last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.nouns import Offset
from quorate.pipeline.commitment import Commitment
from services.pipeline.tables import Tables

__all__ = [
    "NOTHING",
    "PROGRESS",
    "SilverProgress",
    "Sum",
    "bronze_sums",
    "event_marks",
    "has_only_grown",
    "marks",
    "note",
]

PROGRESS: Final = "silver/progress"
LAYOUT: Final = 5
"""Version of silver's layout; raise it when silver is built differently, and everything is rebuilt."""
_COLUMNS: Final = ("layout", "bronze_rows", "bronze_parity", "end_offset", "event_rows", "event_parity")
_SCHEMA: Final = ", ".join(("cluster_id string", *(f"{name} bigint" for name in _COLUMNS)))


class Sum(NamedTuple):
    """A fingerprint of a set of rows: their number and the exclusive-or of their hashes, independent of order."""

    rows: int
    parity: int


class SilverProgress(NamedTuple):
    """A cluster's mark: the fingerprint of its bronze rows and of its events, which end at `end_offset` (exclusive)."""

    bronze: Sum
    end_offset: Offset
    events: Sum


NOTHING: Final = (0, Sum(0, 0))
"""The event mark of a cluster without events."""


def bronze_sums(records: DataFrame, snapshots: DataFrame | None, committed: Mapping[str, Commitment]) -> dict[str, Sum]:
    """Computes each cluster's fingerprint over the rows of its logs and checkpoints, and what is known to be committed.

    Payloads are not read.
    """
    every = records.select("cluster_id", fn.xxhash64("offset", "epoch", "digest").alias("hash"))
    if snapshots is not None:
        named = snapshots.select("cluster_id", fn.xxhash64("fingerprint", "offset").alias("hash"))
        every = every.unionByName(named)
    found = every.groupBy("cluster_id").agg(fn.count("*").alias("rows"), fn.bit_xor("hash").alias("parity"))
    sums = {row["cluster_id"]: Sum(row["rows"], row["parity"]) for row in found.collect()}
    return {name: Sum(sum_.rows, sum_.parity ^ _hash(committed.get(name))) for name, sum_ in sums.items()}


def event_marks(counted: DataFrame) -> dict[str, tuple[Offset, Sum]]:
    """Computes the end offset (exclusive) and the fingerprint of each cluster's events."""
    what = fn.xxhash64("offset", "epoch", "type")
    found = counted.groupBy("cluster_id").agg(
        (fn.max("offset") + 1).alias("end"), fn.count("*").alias("rows"), fn.bit_xor(what).alias("parity")
    )
    return {row["cluster_id"]: (row["end"], Sum(row["rows"], row["parity"])) for row in found.collect()}


def has_only_grown(counted: DataFrame, before: Mapping[str, SilverProgress]) -> bool:
    """Returns whether each known cluster's events below its old end offset are unchanged."""
    if not before:
        return True
    spark = counted.sparkSession
    ends = [(cluster_id, mark.end_offset) for cluster_id, mark in before.items()]
    old = fn.broadcast(spark.createDataFrame(ends, "cluster_id string, old_end bigint"))
    below = counted.join(old, "cluster_id").where("offset < old_end")
    found = {cluster_id: sum_ for cluster_id, (_, sum_) in event_marks(below).items()}
    return all(found.get(cluster_id) == mark.events for cluster_id, mark in before.items() if mark.events.rows)


def marks(tables: Tables) -> dict[str, SilverProgress]:
    """Reads the marks by cluster; none if silver was never built, has another LAYOUT, or was not built to its end."""
    noted = tables.read(PROGRESS)
    if noted is None:
        return {}
    rows = noted.where(fn.col("layout") == LAYOUT).select("cluster_id", *_COLUMNS).collect()
    return {row[0]: SilverProgress(Sum(row[2], row[3]), row[4], Sum(row[5], row[6])) for row in rows}


def note(spark: SparkSession, tables: Tables, made: Mapping[str, SilverProgress]) -> None:
    """Writes the marks; an empty mapping deletes them, so that the next run rebuilds everything."""
    rows = [
        (cluster_id, LAYOUT, *mark.bronze, mark.end_offset, *mark.events) for cluster_id, mark in sorted(made.items())
    ]
    tables.keep(PROGRESS, spark.createDataFrame(rows, _SCHEMA))


def _hash(known: Commitment | None) -> int:
    """Returns 63 bits that change with what is known to be committed."""
    text = repr([tuple(each) for each in known.epochs] if known else ())
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
