"""Bronze: every span once, from the observer's trace store and from a collector's files.

    ingest_spans(spark, tables, "/var/lib/quorate")

A span is known by trace id and span id, so what comes again, late, or by both ways adds nothing. What no span can be
(an id that is none, an end before the start) goes to quarantine. Of unknown services all is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from quorate.runtime.clock import Clock, SystemClock
from services.pipeline.bronze.claims import SPAN_CLAIM, claimed, withdraw_read
from services.pipeline.bronze.line_files import LineFile
from services.pipeline.bronze.otlp_lines import read_lines
from services.pipeline.bronze.quarantine import CLAIM, claim
from services.pipeline.bronze.span_files import SpanFile, find_spans
from services.pipeline.bronze.span_store import Store, read_stores
from services.pipeline.source.columns import SCHEMA as RECORD_SCHEMA
from services.pipeline.source.options import SETTLE_MS
from services.pipeline.tables import Growing, add

__all__ = ["CLUSTER", "SPANS", "SPAN_FILES", "SpanCounts", "ingest_spans"]

SPANS: Final = "bronze/spans"
SPAN_FILES: Final = "bronze/span_files"
"""The files that have been read to their end: one that has not changed since is not opened again."""
CLUSTER: Final = "kraft.cluster.id"
"""The attribute of a span, or of its resource, that says which cluster it is of; ours do not say it."""

_KEY: Final = ("trace_id", "span_id")
_COLUMNS: Final = (
    "cluster_id",
    "source",
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "service",
    "instance",
    "start_ns",
    "end_ns",
    "timestamp",
    "error",
    "attributes",
    "resource",
    "date",
)
_VERSION: Final = {"cluster_id": "string", "source": "string", "size": "bigint", "modified_ns": "bigint"}
_TEXTS: Final = "map<string, string>"
_SOUND: Final = "_corrupt is null"
_DAMAGED: Final = "_corrupt is not null and not is_open"
_WAITING: Final = "_corrupt is not null and is_open"
CLOCK: Final = SystemClock()


class SpanCounts(NamedTuple):
    """How many rows a run added, how many of quarantine were read by now, and which files end in half a line."""

    spans: int
    quarantined: int
    withdrawn: int = 0
    waiting: tuple[str, ...] = ()


def ingest_spans(
    spark: SparkSession,
    tables: Growing,
    source: str,
    *,
    cluster_id: str | None = None,
    settle_ms: int = SETTLE_MS,
    clock: Clock = CLOCK,
) -> SpanCounts:
    """Add what is new at `source` to bronze/spans. Run again, it adds nothing.

    It is a file, a directory, a glob, or the URL of a database. Whose a span is its attribute `kraft.cluster.id` says;
    else `cluster_id`; else meta.properties near the file; else the folder's name, or the database's. Silver goes by the
    log that has the trace. Until a file has stood still for `settle_ms` its last line may be half written, and is no
    damage. Raises FileNotFoundError where there is nothing, OSError for a database that cannot be read.
    """
    files = _unread(find_spans(source, cluster_id=cluster_id), tables)
    if not files:
        return SpanCounts(0, 0)
    by_ms = clock.wall_ms() - settle_ms
    lines = [
        LineFile(file.path, file.cluster_id, file.size, file.may_grow(by_ms)) for file in files if not file.is_store
    ]
    judged = _judged(_read(spark, files, lines)).persist()
    try:
        about = judged.agg(
            fn.count_if(fn.expr(_SOUND)).alias("spans"),
            fn.count_if(fn.expr(_DAMAGED)).alias("damaged"),
            fn.min("date").alias("first"),
            fn.max("date").alias("last"),
            fn.collect_set(fn.when(fn.expr(_WAITING), fn.col("source"))).alias("waiting"),
        ).collect()[0]
        days = about["first"], about["last"]
        spans = _add_spans(tables, judged.where(_SOUND), days) if about["spans"] else 0
        damaged = _add_damaged(spark, tables, judged.where(_DAMAGED)) if about["damaged"] else 0
        withdrawn = withdraw_read(spark, tables, [file.path for file in files], lines, judged.where(_DAMAGED))
    finally:
        judged.unpersist()
    open_ended = {*about["waiting"], *(line.path for line in lines if line.may_grow)}
    _note_read(spark, [file for file in files if file.path not in open_ended], tables)
    return SpanCounts(spans, damaged, withdrawn, tuple(sorted(about["waiting"])))


def _unread(files: list[SpanFile], tables: Growing) -> list[SpanFile]:
    """The files that have changed since they were read, or never were; and those of which too much may be claimed."""
    read = tables.read(SPAN_FILES)
    if read is None or tables.read(SPANS) is None:
        return files
    seen = {tuple(row) for row in read.select(*_VERSION).collect()}
    times = Counter(path for _, path, _, _ in seen)
    # What was said of a file when it was shorter may be known for untrue only when it is read again.
    doubtful = {path for path in claimed(tables) if times[path] > 1}
    return [file for file in files if file.version not in seen or file.is_in_use or file.path in doubtful]


def _note_read(spark: SparkSession, files: list[SpanFile], tables: Growing) -> None:
    """Remember that these have been read, once what they hold is in its tables."""
    new = [file.version for file in files if not file.is_in_use]
    if new:
        rows = spark.createDataFrame(new, ", ".join(f"{name} {kind}" for name, kind in _VERSION.items()))
        tables.append(SPAN_FILES, rows.coalesce(1), partition_by=("cluster_id",))


def _read(spark: SparkSession, files: Sequence[SpanFile], lines: Sequence[LineFile]) -> DataFrame:
    """All as one: times as text, attributes as maps; `_corrupt` and `raw` where something could not be read."""
    stores = [Store(file.path, file.cluster_id, file.url) for file in files if file.is_store]
    of_stores = _of_stores(read_stores(spark, stores))
    return of_stores.unionByName(read_lines(spark, lines)) if lines else of_stores


def _of_stores(rows: DataFrame) -> DataFrame:
    attributes = fn.from_json("attributes", _TEXTS, {"mode": "PERMISSIVE"})
    nothing = {name: fn.lit(None).cast(kind) for name, kind in (("resource", _TEXTS), ("raw", "binary"))}
    return rows.withColumns({"attributes": attributes, "is_open": fn.lit(False), **nothing})


def _judged(rows: DataFrame) -> DataFrame:
    """With `_corrupt` for what no span can be, and the columns of the table for the others."""
    start, end = (fn.col(name).try_cast("bigint") for name in ("start_ns", "end_ns"))
    typed = rows.withColumns(
        {
            **{name: fn.lower(fn.coalesce(name, fn.lit(""))) for name in (*_KEY, "parent_span_id")},
            "start": start,
            "end": end,
        }
    )
    why = fn.coalesce("_corrupt", _fault())
    raw = fn.coalesce("raw", fn.encode(fn.to_json(fn.struct(*rows.columns)), "UTF-8"))
    said = typed.withColumns({"raw": fn.when(why.isNotNull(), raw), "_corrupt": why})
    said_of = (fn.nullif(fn.col(name)[CLUSTER], fn.lit("")) for name in ("attributes", "resource"))
    of = fn.coalesce(*said_of, fn.col("cluster_id"))
    moment = fn.timestamp_micros(fn.expr("start div 1000"))
    return said.withColumns(
        {
            "cluster_id": of,
            "parent_span_id": fn.nullif("parent_span_id", fn.lit("")),
            "start_ns": fn.col("start"),
            "end_ns": fn.col("end"),
            "timestamp": moment,
            "date": fn.date_format(moment, "yyyy-MM-dd"),
        }
    ).select(*_COLUMNS, "is_open", "raw", "_corrupt")


def _fault() -> Column:
    """Why a row is no span, as W3C and OTLP have it; null if it is one."""
    named = fn.concat_ws(" ", fn.lit(SPAN_CLAIM), _quoted("span_id"), fn.lit("of trace"), _quoted("trace_id"))
    faults = (
        (_is_no_id("trace_id", 32), fn.lit("its trace id is not 32 hexadecimal digits, or all zero")),
        (_is_no_id("span_id", 16), fn.lit("its id is not 16 hexadecimal digits, or all zero")),
        (
            (fn.col("parent_span_id") != "") & _is_no_id("parent_span_id", 16),
            fn.concat(fn.lit("its parent "), _quoted("parent_span_id"), fn.lit(" is no span's id")),
        ),
        (
            fn.coalesce((fn.col("start") <= 0) | (fn.col("start") > fn.col("end")), fn.lit(True)),
            fn.concat_ws(" ", fn.lit("it is from"), _quoted("start_ns"), fn.lit("to"), _quoted("end_ns"), fn.lit("ns")),
        ),
        (fn.col("name").isNull(), fn.lit("it has no name")),
    )
    told = fn.lit(None).cast("string")
    for is_so, words in reversed(faults):
        told = fn.when(is_so, fn.concat(named, fn.lit(": "), words)).otherwise(told)
    return told


def _is_no_id(name: str, digits: int) -> Column:
    return ~fn.col(name).rlike(f"^(?!0*$)[0-9a-f]{{{digits}}}$")


def _quoted(name: str) -> Column:
    return fn.concat(fn.lit("'"), fn.coalesce(fn.substring(name, 1, 40), fn.lit("")), fn.lit("'"))


def _add_spans(tables: Growing, rows: DataFrame, days: tuple[str, str]) -> int:
    first = Window.partitionBy(*_KEY).orderBy("start_ns", "source")
    once = rows.withColumn("place", fn.row_number().over(first)).where("place = 1").select(*_COLUMNS)
    there = tables.read(SPANS)
    if there is not None:
        # A span is always of the same day: of the others nothing is read.
        same = there.where(fn.col("date").between(*days))
        once = once.join(same.select(*_KEY), list(_KEY), "left_anti")
    return add(tables, SPANS, once, partition_by=("cluster_id", "date"))


def _add_damaged(spark: SparkSession, tables: Growing, rows: DataFrame) -> int:
    """In the columns that quarantine has for records: most mean nothing here."""
    told = rows.select(*CLAIM, "raw", "timestamp").withColumn("kind", fn.lit("span"))
    return claim(tables, spark.createDataFrame([], RECORD_SCHEMA).unionByName(told, allowMissingColumns=True))
