"""Keeps what is known to be committed, and tells apart the records that count from those of deposed leaders.

Rows of bronze never change, and a record that is read before a majority of voters has it becomes committed later. So
what is known has a table of its own, which only grows: for an epoch, offsets of which every record is committed.
`quorate.pipeline.commitment` has the rule by which this is found, and what follows from it about other records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.nouns import Epoch, Offset
from quorate.pipeline.commitment import COMMITTED, UNKNOWN, Commitment, EpochRange
from quorate.pipeline.log_files import LOG_KIND
from services.pipeline.bronze.quarantine import claim
from services.pipeline.source.columns import schema_of
from services.pipeline.source.commit_column import COMMIT
from services.pipeline.tables import Growing

__all__ = [
    "KNOWN",
    "EpochLimits",
    "Known",
    "committed_offsets",
    "epoch_limits",
    "known",
    "known_in",
    "note",
    "note_ranges",
    "with_commit",
]

Known = Mapping[str, Commitment]
"""The records known to be committed, by cluster id."""
KNOWN: Final = "bronze/committed"
_NOTHING: Final = Commitment()
_KEY: Final = ("cluster_id", "epoch")
_SCHEMA: Final = "cluster_id string, epoch int, start_offset bigint, end_offset bigint"


class EpochLimits(NamedTuple):
    """An epoch of which not all records count: those from `low` to `end` (exclusive) do.

    Those below `low` or from `high` on contradict a committed record, and are uncommitted. `end` is `high`, or where a
    later epoch begins, if that is before: of records about which nothing is known, a later epoch's count.
    """

    cluster_id: str
    epoch: Epoch
    low: Offset
    high: Offset
    end: Offset


def committed_offsets(rows: DataFrame) -> DataFrame:
    """Returns a row of the table KNOWN for each committed record of a log, from rows of the source `kraft`."""
    committed = rows.where((fn.col("kind") == LOG_KIND) & (fn.col(COMMIT) == COMMITTED))
    return committed.select(*_KEY, fn.col("offset").alias("start_offset"), (fn.col("offset") + 1).alias("end_offset"))


def note(tables: Growing, rows: DataFrame) -> int:
    """Appends to KNOWN the offsets that the rows (from the source `kraft`) show to be committed, by `note_ranges`.

    Returns how many rows quarantine gets, as these offsets contradict what is known.
    """
    return note_ranges(rows.sparkSession, tables, _ranges(committed_offsets(rows)))


def note_ranges(spark: SparkSession, tables: Growing, found: Sequence[tuple[str, Epoch, Offset, Offset]]) -> int:
    """Appends ranges of committed offsets that were not known before: cluster, epoch, first offset, end (exclusive).

    Ranges that contradict what is known are of another cluster with the same id: of this cluster id nothing is
    appended, and quarantine gets a row that says so. Returns how many of these rows are new.
    """
    before = known(tables) if found else {}
    refused = {each[0]: why for each in found if (why := _contradiction(before.get(each[0], _NOTHING), *each))}
    new = []
    for cluster_id, epoch, start, end in found:
        if cluster_id in refused:
            continue
        there = [each for each in before.get(cluster_id, _NOTHING).epochs if each.epoch == epoch]
        if not there or start < there[0].start or end > there[0].end:
            new.append((cluster_id, epoch, start, end))
    if new:
        one_file = spark.createDataFrame(new, _SCHEMA).coalesce(1)
        tables.append(KNOWN, one_file, partition_by=("cluster_id",))
    if not refused:
        return 0
    rows = [{"cluster_id": each, "source": KNOWN, "kind": LOG_KIND, "_corrupt": why} for each, why in refused.items()]
    return claim(tables, spark.createDataFrame(rows, schema_of(())))


def _contradiction(before: Commitment, cluster_id: str, epoch: Epoch, start: Offset, end: Offset) -> str | None:
    """Returns why one log cannot have this range and those before it; None if it can."""
    for each in before.epochs:
        if each.end > start if each.epoch < epoch else each.epoch > epoch and each.start < end:
            return (
                f"two clusters under the id {cluster_id}: offsets from {start} on of epoch {epoch} are committed, and "
                f"of epoch {each.epoch} those from {each.start} on were committed before"
            )
    return None


def known(tables: Growing) -> Known:
    """Returns what is known to be committed, by cluster."""
    there = tables.read(KNOWN)
    return {} if there is None else known_in(there)


def known_in(committed: DataFrame) -> Known:
    """Returns what is known to be committed, by cluster, from rows of the table KNOWN; an epoch may have several."""
    by_cluster: dict[str, list[EpochRange]] = defaultdict(list)
    for cluster_id, epoch, start, end in _ranges(committed):
        by_cluster[cluster_id].append(EpochRange(epoch, start, end))
    return {cluster_id: Commitment(tuple(sorted(each))) for cluster_id, each in by_cluster.items()}


def _ranges(committed: DataFrame) -> list[tuple[str, Epoch, Offset, Offset]]:
    found = committed.groupBy(*_KEY).agg(fn.min("start_offset"), fn.max("end_offset"))
    return [(row[0], row[1], row[2], row[3]) for row in found.collect()]


def with_commit(log: DataFrame, committed: Known) -> DataFrame:
    """Adds the column COMMIT, `committed` or `unknown`, to records of which none is uncommitted (`records.settled`)."""
    ends = [(cluster_id, each.epoch, each.end) for cluster_id, one in committed.items() for each in one.epochs]
    if not ends:
        return log.withColumn(COMMIT, fn.lit(UNKNOWN))
    known_ends = log.sparkSession.createDataFrame(ends, "cluster_id string, epoch int, committed_end bigint")
    state = fn.when(fn.col("offset") < fn.col("committed_end"), COMMITTED).otherwise(UNKNOWN)
    return log.join(fn.broadcast(known_ends), list(_KEY), "left").withColumn(COMMIT, state).drop("committed_end")


def epoch_limits(epochs: Iterable[tuple[str, Epoch, Offset, Offset]], committed: Known) -> Iterator[EpochLimits]:
    """Yields the epochs that have records that do not count, each with the offsets that do (`low` to `end`, exclusive).

    Takes cluster, epoch, and the first and last offset (both inclusive) that any log has of the epoch. A record does
    not count if it contradicts a committed one of another epoch, or if a later epoch begins at its offset or before.
    Records behind the last committed one, such as those from 90 on below, may still be committed: they count.

    >>> known = {"c": Commitment((EpochRange(1, 0, 60), EpochRange(3, 60, 90)))}
    >>> list(epoch_limits([("c", 1, 0, 70), ("c", 3, 60, 95)], known))
    [EpochLimits(cluster_id='c', epoch=1, low=0, high=60, end=60)]

    """
    for cluster_id, each in groupby(sorted(epochs, reverse=True), key=lambda one: one[0]):
        later: Offset | None = None
        for _, epoch, first, last in each:
            low, high = committed.get(cluster_id, _NOTHING).bounds(epoch)
            end = high if later is None else min(high, later)
            if first < low or last >= end:
                yield EpochLimits(cluster_id, epoch, low, high, end)
            begin = max(first, low)
            if begin < min(last + 1, high):
                later = begin if later is None else min(later, begin)
