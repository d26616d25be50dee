"""verify_replay: is the state that the log rebuilds, at every checkpoint, the one that the checkpoint has?

The log alone is replayed (from its base on), by the same windows that make silver; a checkpoint's records go through
them as a state of their own. Both are laid side by side by cluster, kind and key, in the engine. What differs is a
row; none is the proof. `image_hash` is the hash that `quorate.metadata.canonical` gives for the same offset.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.canonical import canonical
from quorate.nouns import Offset
from services.pipeline.bronze import RECORDS, SNAPSHOTS, settled, whole_snapshots
from services.pipeline.silver.events import reach, snapshot_events
from services.pipeline.silver.image import HISTORIES, SILVER, histories, image_history, state_of
from services.pipeline.silver.validity import as_of
from services.pipeline.tables import Tables

__all__ = ["Replays", "checkpoints", "differences", "image_hash", "verify_replay"]

VERIFY: Final = "verify"
COMPARED: Final = "compared"
_ZK_NONE: Final = '{"zkMigrationState":0}'
"""Kafka 4.4 drops it from checkpoints: to have none and to know of none is the same."""
_KEY: Final = ("cluster_id", "fingerprint", "snapshot_offset", "kind", "key")


class Replays(NamedTuple):
    """What was found: `checkpoints` says of each one whether it was compared, `differences` has a row for each."""

    checkpoints: DataFrame
    differences: DataFrame


def verify_replay(tables: Tables) -> Replays:
    """Compare silver with every whole checkpoint in bronze. Both must be there."""
    records, snapshots = tables.read(RECORDS), tables.read(SNAPSHOTS)
    silver = {name: tables.read(f"{SILVER}/{name}") for name in HISTORIES}
    there = {name: history for name, history in silver.items() if history is not None}
    if records is None or snapshots is None or len(there) < len(silver):
        raise LookupError("to verify, there have to be records, checkpoints and silver: run ingest and silver before")
    whole = whole_snapshots(snapshots)
    found = tables.keep(f"{VERIFY}/checkpoints", checkpoints(records, whole))
    said = histories(_alone(whole, found), tables, VERIFY)
    differing = differences(image_history(there), image_history(said), found)
    return Replays(found, tables.keep(f"{VERIFY}/differences", differing))


def checkpoints(records: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Each whole checkpoint, and `verdict`: `compared`, `base` of the replay itself, or why not."""
    far = reach(settled(records), snapshots)
    named = snapshots.groupBy("cluster_id", "fingerprint", "snapshot_offset", "snapshot_epoch")
    each = named.agg(fn.min("source").alias("source")).join(fn.broadcast(far), "cluster_id", "left")
    verdict = (
        fn.when(fn.col("base_offset").isNull(), "not compared: the log has no base")
        .when(fn.col("fingerprint").eqNullSafe(fn.col("base_fingerprint")) & (fn.col("base_offset") > 0), "base")
        .when(fn.col("snapshot_offset") < fn.col("base_offset"), "not compared: it is before the log's base")
        .when(fn.col("snapshot_offset") > fn.col("end_offset"), "not compared: the log does not reach it")
        .otherwise(COMPARED)
    )
    return each.select(
        "cluster_id", "fingerprint", "snapshot_offset", "snapshot_epoch", "source", verdict.alias("verdict")
    )


def differences(replayed: DataFrame, said: DataFrame, found: DataFrame) -> DataFrame:
    """What is not equal: `replayed` and `checkpoint` are the values of each side, null where it has none.

    `said` is the image of checkpoints as clusters of their own, by fingerprint.
    """
    wanted = fn.broadcast(_compared(found))
    checkpoint = said.withColumnRenamed("cluster_id", "fingerprint").join(wanted, "fingerprint")
    log = as_of(replayed.join(wanted, "cluster_id"), fn.col("snapshot_offset"))
    both = _side(log, "replayed").join(_side(checkpoint, "checkpoint"), list(_KEY), "full_outer")
    return both.where(~fn.col("replayed").eqNullSafe(fn.col("checkpoint")))


def image_hash(image: DataFrame, offset: Offset) -> str:
    """The canonical hash of the state at `offset` of one cluster's `image_history`. Gathers that state here."""
    return canonical(state_of(as_of(image, fn.lit(offset)).collect(), offset))


def _side(rows: DataFrame, name: str) -> DataFrame:
    """One side, by key. Unknown records have no key but what they are."""
    unknown = fn.col("kind") == "unknown"
    key = fn.when(unknown, fn.base64("raw")).otherwise(fn.col("key"))
    kept = rows.where(~fn.col("value").eqNullSafe(_ZK_NONE)).withColumn("key", key)
    value = fn.when(unknown, fn.base64("raw")).otherwise(fn.col("value"))
    return kept.withColumn(name, value).select(*_KEY, name)


def _alone(snapshots: DataFrame, found: DataFrame) -> DataFrame:
    """Each checkpoint to compare as a cluster of its own, named by its fingerprint."""
    wanted = fn.broadcast(_compared(found).select("cluster_id", "fingerprint"))
    events = snapshot_events(snapshots.join(wanted, ["cluster_id", "fingerprint"]))
    return events.withColumn("cluster_id", fn.col("fingerprint"))


def _compared(found: DataFrame) -> DataFrame:
    return found.where(fn.col("verdict") == COMPARED).select("cluster_id", "fingerprint", "snapshot_offset")
