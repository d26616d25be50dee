"""Appends trace spans to bronze, each once, from the observer's trace store and from a collector's files.

    ingest_spans(spark, tables, "/var/lib/quorate")

Trace id and span id identify a span, so a span that comes again, late, or from both sources adds nothing. Invalid spans
(a malformed id, an end before the start) go to quarantine. Spans of unknown services are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from quorate.runtime.event_loop.clock import Clock, SystemClock
from services.pipeline.bronze.claims import SPAN_CLAIM, claimed, withdraw_read
from services.pipeline.bronze.line_files import LineFile
from services.pipeline.bronze.otlp_lines import read_lines
from services.pipeline.bronze.quarantine import CLAIM, claim
from services.pipeline.bronze.span_files import SpanFile, find_spans
from services.pipeline.bronze.span_store import Store, read_stores
from services.pipeline.memory import kept
from services.pipeline.source.columns import schema_of
from services.pipeline.source.options import SETTLE_MS
from services.pipeline.tables import Growing, add

__all__ = ["CLUSTER", "SPANS", "SPAN_FILES", "SpanCounts", "ingest_spans"]

SPANS: Final = "bronze/spans"
SPAN_FILES: Final = "bronze/span_files"
"""The table of span files that were read to their end; one that has not changed since is not opened again."""
CLUSTER: Final = "kraft.cluster.id"
"""The attribute of a span or its resource that names the cluster; Quorate's own spans do not have it."""

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
    """How many spans and claims a run added, how many claims it withdrew, and which files end in an incomplete line."""

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
    """Appends what is new at `source` to bronze/spans; a second run adds nothing.

    `source` is a file, a directory, a glob, or the URL of a database. A span's cluster id is its attribute
    `kraft.cluster.id`; else `cluster_id`; else that of meta.properties near the file; else the name of the folder or
    database. Silver uses the cluster whose log has the trace instead. The last line of a file that was modified within
    `settle_ms` may be incomplete and is not damage. Raises FileNotFoundError if nothing is there, and OSError for a
    database that cannot be read.
    """
    files = _unread(find_spans(source, cluster_id=cluster_id), tables)
    if not files:
        return SpanCounts(0, 0)
    by_ms = clock.wall_ms() - settle_ms
    lines = [
        LineFile(file.path, file.cluster_id, file.size, file.may_grow(by_ms)) for file in files if not file.is_store
    ]
    with kept(_judged(_read(spark, files, lines))) as (judged,):
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
    open_ended = {*about["waiting"], *(line.path for line in lines if line.may_grow)}
    _note_read(spark, [file for file in files if file.path not in open_ended], tables)
    return SpanCounts(spans, damaged, withdrawn, tuple(sorted(about["waiting"])))


def _unread(files: list[SpanFile], tables: Growing) -> list[SpanFile]:
    """Selects files that are new or changed, and those with claims that may concern an older version."""
    read = tables.read(SPAN_FILES)
    if read is None or tables.read(SPANS) is None:
        return files
    seen = {tuple(row) for row in read.select(*_VERSION).collect()}
    times = Counter(path for _, path, _, _ in seen)
    # Only reading the file again can show whether a claim about its shorter version still holds.
    doubtful = {path for path in claimed(tables) if times[path] > 1}
    return [file for file in files if file.version not in seen or file.is_in_use or file.path in doubtful]


def _note_read(spark: SparkSession, files: list[SpanFile], tables: Growing) -> None:
    """Notes that these files were read, after their rows are in the tables."""
    new = [file.version for file in files if not file.is_in_use]
    if new:
        rows = spark.createDataFrame(new, ", ".join(f"{name} {kind}" for name, kind in _VERSION.items()))
        tables.append(SPAN_FILES, rows.coalesce(1), partition_by=("cluster_id",))


def _read(spark: SparkSession, files: Sequence[SpanFile], lines: Sequence[LineFile]) -> DataFrame:
    """Reads all files as one DataFrame: times as text, attributes as maps, `_corrupt` and `raw` if unreadable."""
    stores = [Store(file.path, file.cluster_id, file.url) for file in files if file.is_store]
    of_stores = _of_stores(read_stores(spark, stores))
    return of_stores.unionByName(read_lines(spark, lines)) if lines else of_stores


def _of_stores(rows: DataFrame) -> DataFrame:
    attributes = fn.from_json("attributes", _TEXTS, {"mode": "PERMISSIVE"})
    nothing = {name: fn.lit(None).cast(kind) for name, kind in (("resource", _TEXTS), ("raw", "binary"))}
    return rows.withColumns({"attributes": attributes, "is_open": fn.lit(False), **nothing})


def _judged(rows: DataFrame) -> DataFrame:
    """Adds `_corrupt` to rows that are not valid spans, and converts all rows to the table's columns."""
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
    checked = typed.withColumns({"raw": fn.when(why.isNotNull(), raw), "_corrupt": why})
    named_clusters = (fn.nullif(fn.col(name)[CLUSTER], fn.lit("")) for name in ("attributes", "resource"))
    of = fn.coalesce(*named_clusters, fn.col("cluster_id"))
    moment = fn.timestamp_micros(fn.expr("start div 1000"))
    return checked.withColumns(
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
    """Returns why a row is not a valid span by the rules of W3C and OTLP; null if it is valid."""
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
    reason = fn.lit(None).cast("string")
    for is_so, words in reversed(faults):
        reason = fn.when(is_so, fn.concat(named, fn.lit(": "), words)).otherwise(reason)
    return reason


def _is_no_id(name: str, digits: int) -> Column:
    return ~fn.col(name).rlike(f"^(?!0*$)[0-9a-f]{{{digits}}}$")


def _quoted(name: str) -> Column:
    return fn.concat(fn.lit("'"), fn.coalesce(fn.substring(name, 1, 40), fn.lit("")), fn.lit("'"))


def _add_spans(tables: Growing, rows: DataFrame, days: tuple[str, str]) -> int:
    first = Window.partitionBy(*_KEY).orderBy("start_ns", "source")
    once = rows.withColumn("place", fn.row_number().over(first)).where("place = 1").select(*_COLUMNS)
    there = tables.read(SPANS)
    if there is not None:
        # A span's date never changes, so only the same days are compared.
        same = there.where(fn.col("date").between(*days))
        once = once.join(same.select(*_KEY), list(_KEY), "left_anti")
    return add(tables, SPANS, once, partition_by=("cluster_id", "date"))


def _add_damaged(spark: SparkSession, tables: Growing, rows: DataFrame) -> int:
    """Appends claims with the columns that quarantine has for records; most of these are null for spans."""
    claims = rows.select(*CLAIM, "raw", "timestamp").withColumn("kind", fn.lit("span"))
    return claim(tables, spark.createDataFrame([], schema_of(())).unionByName(claims, allowMissingColumns=True))
