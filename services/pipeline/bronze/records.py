"""Appends the records of logs and checkpoints to bronze, each once and unchanged, and damage to quarantine.

Nothing is dropped: two voters may have written different records at one offset, and both are kept; `divided` selects
those of the log, and those that are known to be uncommitted (`committed`). Cluster, offset, epoch and content identify
a record, so a file that is read again, late, or from another replica adds nothing. Rows of files that share no offset
with others are appended directly; only the others are compared row by row.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from quorate.pipeline.log_files import CHECKPOINT_KIND, LOG_KIND
from services.pipeline.bronze.committed import EpochLimits, Known, epoch_limits, note
from services.pipeline.bronze.extents import OffsetExtent, bounds, extents, gathered, overlapping
from services.pipeline.bronze.quarantine import claim
from services.pipeline.bronze.staged import CONTENT, SHARED, SNAPSHOT
from services.pipeline.memory import kept
from services.pipeline.tables import Growing, add

__all__ = [
    "BY",
    "RECORDS",
    "RECORD_KEY",
    "SNAPSHOTS",
    "SNAPSHOT_KEY",
    "Divided",
    "RowCounts",
    "Sifted",
    "add_new",
    "conflicts",
    "divided",
    "doubles",
    "ingest",
    "mixed_sources",
    "settled",
    "sift",
    "whole_snapshots",
]

RECORDS: Final = "bronze/records"
SNAPSHOTS: Final = "bronze/snapshots"

NOTHING_KNOWN: Final[Known] = {}
_SHARED: Final = ("cluster_id", *SHARED)
RECORD_KEY: Final = ("cluster_id", "offset", "epoch", "digest")
SNAPSHOT_KEY: Final = ("cluster_id", "fingerprint", "offset")
BY: Final = ("cluster_id", "date")


class RowCounts(NamedTuple):
    """How many rows a run added to each table; `withdrawn` is that of claims in quarantine that are over."""

    records: int
    snapshots: int
    quarantined: int
    withdrawn: int = 0


class Sifted(NamedTuple):
    """Rows of the source `kraft`, split by target table: log records, checkpoint records, damage for quarantine."""

    records: DataFrame
    snapshots: DataFrame
    quarantine: DataFrame


def ingest(rows: DataFrame, tables: Growing) -> RowCounts:
    """Appends what is new in `rows` (from the source `kraft`, PERMISSIVE) to the tables; a second run adds nothing.

    The rows are cached for this, unless the caller has persisted them.
    """
    if rows.storageLevel.useMemory or rows.storageLevel.useDisk:
        return _add(tables, rows)
    with kept(rows) as (own,):
        return _add(tables, own)


def _add(tables: Growing, rows: DataFrame) -> RowCounts:
    found = sift(rows)
    contradictions = note(tables, rows)
    return RowCounts(
        records=_add_files(tables, RECORDS, found.records, RECORD_KEY),
        snapshots=_add_files(tables, SNAPSHOTS, found.snapshots, SNAPSHOT_KEY),
        quarantined=contradictions + claim(tables, found.quarantine),
    )


def sift(rows: DataFrame) -> Sifted:
    """Splits `rows` (from the source `kraft`, PERMISSIVE) by target table; duplicates are not removed here."""
    sound = rows.where(fn.col("_corrupt").isNull())
    # xxhash64 skips nulls, so whether a column is null is hashed as well.
    digest = fn.xxhash64(*(part for name in CONTENT for part in (fn.col(name), fn.col(name).isNull())))
    dated = sound.withColumn("digest", digest).withColumn("date", fn.date_format("timestamp", "yyyy-MM-dd"))
    records = dated.where(fn.col("kind") == LOG_KIND).select(*_SHARED, "digest", "date")
    snapshots = dated.where(fn.col("kind") == CHECKPOINT_KIND)
    snapshots = snapshots.select(*SNAPSHOT, *_SHARED, "date")
    damaged = rows.where(fn.col("_corrupt").isNotNull())
    return Sifted(records, snapshots, damaged)


class Divided(NamedTuple):
    """Records of logs: those that count, one an offset, and those that are known to be uncommitted."""

    settled: DataFrame
    deposed: DataFrame


def settled(records: DataFrame, committed: Known = NOTHING_KNOWN) -> DataFrame:
    """Selects one record for each offset: those of the log after all elections, from whichever replica they were read.

    An uncommitted record is not in the log. Of records about which nothing is known, one is not in the log if a later
    epoch begins at or before its offset: it was truncated, or will be (KIP-595). An offset with two contents in one
    epoch (`conflicts`) is left out, because nobody can say which is right; so the log has a gap there. If the extents
    of the files show none of this, the rows are returned as they are. `committed` is what `committed.known` returns.
    """
    return divided(records, committed).settled


def divided(records: DataFrame, committed: Known) -> Divided:
    """Returns the records that count (`settled` says which), and those that are known to be uncommitted."""
    found = _looked_over(records, committed)
    limited = _with_limits(records, found.cuts)
    deposed = limited.where("offset < low or offset >= high").select(records.columns)
    kept = records
    if found.cuts:
        kept = limited.where("end is null or offset >= low and offset < end").select(records.columns)
    contested = _contested(kept, found.suspects)
    if contested:
        is_contested = fn.col("cluster_id").isin(contested)
        kept = kept.where(~is_contested).unionByName(_one_an_offset(kept.where(is_contested)))
    return Divided(kept, deposed)


class _Look(NamedTuple):
    """Findings from files' extents: epochs with records that do not count, clusters that may have an offset twice."""

    cuts: list[EpochLimits]
    suspects: list[str]


def _looked_over(records: DataFrame, committed: Known) -> _Look:
    with kept(records.groupBy("cluster_id", "epoch", "source").agg(*bounds())) as (pieces,):
        epochs = pieces.groupBy("cluster_id", "epoch").agg(fn.min("first"), fn.max("last"))
        found = list(epoch_limits(map(tuple, epochs.collect()), committed))
        every = gathered(pieces)
    doubtful = overlapping(every).union(each for each in every if not each.is_whole)
    return _Look(found, sorted({each.cluster_id for each in found}.union(each.cluster_id for each in doubtful)))


def _with_limits(records: DataFrame, cuts: list[EpochLimits]) -> DataFrame:
    """Adds to each record the limits of its epoch, null if all records of the epoch count."""
    limits = records.sparkSession.createDataFrame(
        cuts, "cluster_id string, epoch int, low bigint, high bigint, end bigint"
    )
    return records.join(fn.broadcast(limits), ["cluster_id", "epoch"], "left")


def _contested(records: DataFrame, suspects: list[str]) -> list[str]:
    """Returns the clusters with two records at one offset; only clusters with overlapping extents are searched."""
    if not suspects:
        return []
    counts = records.where(fn.col("cluster_id").isin(suspects)).groupBy("cluster_id", "offset").count()
    return [row["cluster_id"] for row in counts.where("count > 1").select("cluster_id").distinct().collect()]


def _read_whole(records: DataFrame) -> DataFrame:
    """Leaves out what an earlier release could not read whole (`raw`), where a later one has read the same record.

    A record's digest is of what was decoded, so both are there; that they are one record, type, version and time say.
    """
    one = Window.partitionBy("cluster_id", "offset", "epoch", "timestamp", "is_control", "api_key", "version")
    both = records.withColumn("is_known", fn.max(fn.col("raw").isNull()).over(one))
    return both.where("raw is null or not is_known").drop("is_known")


def _one_an_offset(records: DataFrame) -> DataFrame:
    records = _read_whole(records)
    one = Window.partitionBy("cluster_id", "offset")
    contents = {"least": fn.min("digest").over(one), "most": fn.max("digest").over(one)}
    same = records.withColumns(contents).where("least = most").drop("least", "most")
    return same.withColumn("place", fn.row_number().over(one.orderBy("source"))).where("place = 1").drop("place")


def conflicts(records: DataFrame) -> DataFrame:
    """Returns the offsets with several contents in one epoch: two clusters that share an id."""
    suspects = fn.col("cluster_id").isin(_looked_over(records, NOTHING_KNOWN).suspects)
    found = (
        _read_whole(records.where(suspects))
        .groupBy("cluster_id", "offset", "epoch")
        .agg(fn.count_distinct("digest").alias("contents"), fn.array_sort(fn.collect_set("source")).alias("sources"))
    )
    return found.where("contents > 1")


def doubles(records: DataFrame) -> DataFrame:
    """Returns a row for each cluster of which the table has records more than once.

    `doubled` is how many rows are too many, `first` the lowest offset of one.
    No job makes them alone: two wrote at once where nothing locks (`locks`).
    """
    suspects = fn.col("cluster_id").isin(_looked_over(records, NOTHING_KNOWN).suspects)
    again = records.where(suspects).groupBy(*RECORD_KEY).agg((fn.count("*") - 1).alias("more")).where("more > 0")
    return again.groupBy("cluster_id").agg(fn.sum("more").alias("doubled"), fn.min("offset").alias("first"))


def whole_snapshots(snapshots: DataFrame) -> DataFrame:
    """Selects the rows of complete checkpoints: every record from SNAPSHOT_HEADER to SNAPSHOT_FOOTER is there."""
    ends = snapshots.groupBy("cluster_id", "fingerprint").agg(
        fn.count("*").alias("found"),
        fn.max("offset").alias("last"),
        fn.min_by("type", "offset").alias("begins"),
        fn.max_by("type", "offset").alias("ends"),
    )
    whole = ends.where("found = last + 1 and begins = 'SNAPSHOT_HEADER' and ends = 'SNAPSHOT_FOOTER'")
    return snapshots.join(fn.broadcast(whole.select("cluster_id", "fingerprint")), ["cluster_id", "fingerprint"])


def _add_files(tables: Growing, name: str, rows: DataFrame, key: tuple[str, ...]) -> int:
    """Appends the new rows of these files; returns how many."""
    every = extents(rows)
    there = tables.read(name) if every else None
    sources = mixed_sources(every, there)
    is_mixed = fn.col("source").isin(sorted(sources))
    count = sum(each.rows for each in every if each.source not in sources)
    if count:
        tables.append(name, rows.where(~is_mixed) if sources else rows, partition_by=BY)
    return count + (add_new(tables, name, rows.where(is_mixed), there, key) if sources else 0)


def mixed_sources(every: list[OffsetExtent], there: DataFrame | None) -> set[str]:
    """Returns which of the files with these extents may share a row with another one, or with the table `there`."""
    return {each.source for each in overlapping(every) | _known(every, there)}


def _known(every: list[OffsetExtent], there: DataFrame | None) -> set[OffsetExtent]:
    """Returns the extents that overlap the extents of rows in the table."""
    if there is None:
        return set()
    near = there.where(fn.col("cluster_id").isin(sorted({each.cluster_id for each in every})))
    near = near.where(fn.col("offset").between(min(each.first for each in every), max(each.last for each in every)))
    lying = {each.owner: each for each in extents(near.withColumn("source", fn.lit("there")))}
    return {each for each in every if each.owner in lying and each.meets(lying[each.owner])}


def add_new(tables: Growing, name: str, rows: DataFrame, there: DataFrame | None, key: tuple[str, ...]) -> int:
    """Appends each row once, without those that the table `there` has already; returns how many."""
    return add(tables, name, _new(rows, there, key), partition_by=BY)


def _new(rows: DataFrame, there: DataFrame | None, key: tuple[str, ...]) -> DataFrame:
    first = Window.partitionBy(*key).orderBy("source")
    once = rows.withColumn("place", fn.row_number().over(first)).where("place = 1").drop("place")
    return once if there is None else once.join(there.select(*key), list(key), "left_anti").select(rows.columns)
