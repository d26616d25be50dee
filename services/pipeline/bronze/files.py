"""Appends the records of files to bronze, like `records.ingest`, but the workers write the files that tables adopt.

They do so where tables adopt files (plain Parquet, on a file system that driver and workers have in common). The
tables have the same rows either way. A file whose rows may be in the table, or in another file, is compared with these
row by row; all others are adopted as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.pipeline.log_files import CHECKPOINT_KIND, LOG_KIND
from services.pipeline.bronze.claims import withdraw_files
from services.pipeline.bronze.committed import note_ranges
from services.pipeline.bronze.quarantine import claim
from services.pipeline.bronze.records import (
    BY,
    RECORD_KEY,
    RECORDS,
    SNAPSHOT_KEY,
    SNAPSHOTS,
    RowCounts,
    add_new,
    ingest,
    mixed_sources,
)
from services.pipeline.bronze.staged import DAMAGED, SHARED, SNAPSHOT, Staged, stage
from services.pipeline.memory import kept
from services.pipeline.source.columns import NAME, schema_of
from services.pipeline.tables import Adopting
from services.pipeline.tables.files import HadoopFiles
from services.pipeline.tables.inbox import Inbox

__all__ = ["ingest_files"]


class _Target(NamedTuple):
    """A table, and the rows that it gets."""

    table: str
    kind: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


_RECORDS = _Target(RECORDS, LOG_KIND, ("cluster_id", *SHARED, "digest", "date"), RECORD_KEY)
_SNAPSHOTS = _Target(SNAPSHOTS, CHECKPOINT_KIND, (*SNAPSHOT, "cluster_id", *SHARED, "date"), SNAPSHOT_KEY)


def ingest_files(spark: SparkSession, options: Mapping[str, str], tables: Adopting) -> RowCounts:
    """Appends to bronze the rows that are new in the files that `options` of the source `kraft` select.

    A second run adds nothing. Claims in quarantine about files that were read whole are withdrawn, if they were not
    made again. Raises the source's own errors.
    """
    inbox = tables.inbox()
    if inbox is not None:
        with inbox:
            staged = stage(spark, options, inbox.place, HadoopFiles(spark).partition)
            return _add(spark, tables, inbox, staged)
    with kept(spark.read.format(NAME).options(**options).load()) as (rows,):
        counts = ingest(rows, tables)
        read = {row["source"] for row in rows.select("source").distinct().collect()}
        made = rows.where(fn.col("_corrupt").isNotNull())
        return counts._replace(withdrawn=withdraw_files(tables, read, made))


def _add(spark: SparkSession, tables: Adopting, inbox: Inbox, staged: Staged) -> RowCounts:
    contradictions = note_ranges(spark, tables, staged.committed)
    records = _add_files(spark, tables, inbox, staged, _RECORDS)
    snapshots = _add_files(spark, tables, inbox, staged, _SNAPSHOTS)
    damaged = [f"{inbox.place}/{DAMAGED}/{each.path}" for each in staged.of(DAMAGED)]
    made = spark.read.schema(schema_of(())).parquet(*damaged) if damaged else None
    claims = 0 if made is None else claim(tables, made)
    return RowCounts(records, snapshots, contradictions + claims, withdraw_files(tables, staged.read, made))


def _add_files(spark: SparkSession, tables: Adopting, inbox: Inbox, staged: Staged, target: _Target) -> int:
    every = staged.extents.get(target.kind, [])
    if not every:
        return 0
    there = tables.read(target.table)
    sources = mixed_sources(every, there)
    files = staged.of(target.kind)
    whole = [each for each in files if sources.isdisjoint(each.sources)]
    if whole:
        inbox.adopt(target.table, target.kind, [each.path for each in whole])
    count = sum(each.rows for each in whole)
    rest = [each.path for each in files if not sources.isdisjoint(each.sources)]
    if not rest:
        return count
    place = f"{inbox.place}/{target.kind}"
    reader = spark.read.option("basePath", place)
    rows = reader.parquet(*(f"{place}/{path}" for path in rest)).select(*target.columns)
    is_mixed = fn.col("source").isin(sorted(sources))
    beside = sum(each.rows for each in every if each.source not in sources) - count
    assert beside >= 0, (beside, count)
    if beside:
        tables.append(target.table, rows.where(~is_mixed), partition_by=BY)
    mixed = rows.where(is_mixed)
    if there is not None and not _has_new(mixed, there, target.key):
        return count + beside
    return count + beside + add_new(tables, target.table, mixed, there, target.key)


def _has_new(rows: DataFrame, there: DataFrame, key: tuple[str, ...]) -> bool:
    """Returns whether any row is not in the table. This reads only the key, and a file that is read again has none."""
    return not rows.select(*key).join(there.select(*key), list(key), "left_anti").isEmpty()
