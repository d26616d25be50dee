"""Verifies the replay: compares the state rebuilt from the log with each checkpoint at the checkpoint's offset.

The log's records and each checkpoint's records go through the same window functions that make silver, separately; the
two states are then joined by cluster, kind and key. Each difference is a row, so an empty result proves the replay.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.bronze import RECORDS, SNAPSHOTS, Known, known, settled, whole_snapshots
from services.pipeline.silver.events import reach, snapshot_events
from services.pipeline.silver.image import HISTORIES, SILVER, histories, image_history
from services.pipeline.silver.validity import as_of
from services.pipeline.tables import Tables

__all__ = ["Replays", "checkpoints", "differences", "verify_replay"]

VERIFY: Final = "verify"
COMPARED: Final = "compared"
_ZK_NONE: Final = '{"zkMigrationState":0}'
"""Kafka 4.4 no longer writes this state to checkpoints, so this value counts as absent on both sides."""
_KEY: Final = ("cluster_id", "fingerprint", "snapshot_offset", "kind", "key")


class Replays(NamedTuple):
    """The results: `checkpoints` has the verdict on each checkpoint, `differences` has a row for each difference."""

    checkpoints: DataFrame
    differences: DataFrame


def verify_replay(tables: Tables) -> Replays:
    """Compares silver with every complete checkpoint in bronze, and writes the results to the tables of VERIFY.

    Raises LookupError if either is missing.
    """
    records, snapshots = tables.read(RECORDS), tables.read(SNAPSHOTS)
    silver = {name: tables.read(f"{SILVER}/{name}") for name in HISTORIES}
    there = {name: history for name, history in silver.items() if history is not None}
    if records is None or snapshots is None or len(there) < len(silver):
        raise LookupError("to verify, there have to be records, checkpoints and silver: run ingest and silver before")
    whole = whole_snapshots(snapshots)
    found = tables.keep(f"{VERIFY}/checkpoints", checkpoints(records, whole, known(tables)))
    said = histories(_alone(whole, found), tables, VERIFY)
    differing = differences(image_history(there), image_history(said), found)
    return Replays(found, tables.keep(f"{VERIFY}/differences", differing))


def checkpoints(records: DataFrame, snapshots: DataFrame, committed: Known) -> DataFrame:
    """Lists each complete checkpoint with its `verdict`: `compared`, `base` of the replay, or why not compared."""
    far = reach(settled(records, committed), snapshots)
    named = snapshots.groupBy("cluster_id", "fingerprint", "snapshot_offset", "snapshot_epoch")
    each = named.agg(fn.min("source").alias("source")).join(fn.broadcast(far), "cluster_id", "left")
    verdict = (
        fn.when(fn.col("base_offset").isNull(), "not compared: the log has no base")
        .when(fn.col("fingerprint").eqNullSafe(fn.col("base_fingerprint")) & (fn.col("base_offset") > 0), "base")
        .when(fn.col("snapshot_offset") < fn.col("base_offset"), "not compared: it is before the log's base")
        .when(fn.col("snapshot_offset") == 0, "not compared: it is what a format left, and no state")
        .when(fn.col("snapshot_offset") > fn.col("end_offset"), "not compared: the log does not reach it")
        .otherwise(COMPARED)
    )
    return each.select(
        "cluster_id", "fingerprint", "snapshot_offset", "snapshot_epoch", "source", verdict.alias("verdict")
    )


def differences(replayed: DataFrame, said: DataFrame, found: DataFrame) -> DataFrame:
    """Joins both states and returns the rows that differ: `replayed` and `checkpoint`, null if a side has none.

    In `said` each checkpoint is a cluster of its own, named by its fingerprint.
    """
    wanted = fn.broadcast(_compared(found))
    checkpoint = said.withColumnRenamed("cluster_id", "fingerprint").join(wanted, "fingerprint")
    log = as_of(replayed.join(wanted, "cluster_id"), fn.col("snapshot_offset"))
    both = _side(log, "replayed").join(_side(checkpoint, "checkpoint"), list(_KEY), "full_outer")
    return both.where(~fn.col("replayed").eqNullSafe(fn.col("checkpoint")))


def _side(rows: DataFrame, name: str) -> DataFrame:
    """Returns the rows to join: the columns of `_KEY`, and the value in a column named `name`.

    An unknown record has no key: its bytes (base64) are both its key and its value. Empty ZkMigrationState is left out.
    """
    unknown = fn.col("kind") == "unknown"
    key = fn.when(unknown, fn.base64("raw")).otherwise(fn.col("key"))
    kept = rows.where(~fn.col("value").eqNullSafe(_ZK_NONE)).withColumn("key", key)
    value = fn.when(unknown, fn.base64("raw")).otherwise(fn.col("value"))
    return kept.withColumn(name, value).select(*_KEY, name)


def _alone(snapshots: DataFrame, found: DataFrame) -> DataFrame:
    """Returns the events of each checkpoint to compare, as a cluster of its own that is named by its fingerprint."""
    wanted = fn.broadcast(_compared(found).select("cluster_id", "fingerprint"))
    events = snapshot_events(snapshots.join(wanted, ["cluster_id", "fingerprint"]))
    return events.withColumn("cluster_id", fn.col("fingerprint"))


def _compared(found: DataFrame) -> DataFrame:
    return found.where(fn.col("verdict") == COMPARED).select("cluster_id", "fingerprint", "snapshot_offset")
