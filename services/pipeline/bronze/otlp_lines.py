"""Reads the files of an OpenTelemetry collector's file exporter: OTLP as JSON, one export a line, parsed by Spark.

In OTLP/JSON (protocol 1.x) ids are hexadecimal, times are ns as text, and each value names its own type. Events and
links of a span are not kept. Lines of logs and metrics, which a collector may write into the same file, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from services.pipeline.bronze.line_files import LineFile, read_line_files

__all__ = ["LINE_CLAIM", "attribute_map", "read_lines", "text_lines"]

LINE_CLAIM: Final = "a line of "
"""The first words of a quarantine claim about a damaged line."""
SHOWN_MAX: Final = 60
"""How many characters of a damaged line its quarantine claim quotes."""

# Values are read as text, whether numbers are quoted or not; lists and maps are kept as JSON.
_PAIR: Final = (
    "struct<key: string, value: struct<stringValue: string, boolValue: string, intValue: string, doubleValue: string, "
    "bytesValue: string, arrayValue: string, kvlistValue: string>>"
)
_SPAN: Final = (
    "struct<traceId: string, spanId: string, parentSpanId: string, name: string, startTimeUnixNano: string, "
    f"endTimeUnixNano: string, attributes: array<{_PAIR}>, status: struct<code: string>>"
)
_LINE: Final = (
    f"resourceSpans array<struct<resource: struct<attributes: array<{_PAIR}>>, "
    f"scopeSpans: array<struct<spans: array<{_SPAN}>>>>>, "
    "resourceLogs string, resourceMetrics string, _malformed string"
)
_ERROR_CODES: Final = ("2", "STATUS_CODE_ERROR")


def read_lines(spark: SparkSession, files: Iterable[LineFile]) -> DataFrame:
    """Reads the spans of these files with their cluster ids: all fields as text, attributes and resource as maps.

    A line that is not an export of spans becomes a row with `_corrupt`, which quotes how the line begins; `is_open` is
    set if the line may still be completed.
    """
    lines = text_lines(spark, files)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_malformed"}
    parsed = lines.withColumn("export", fn.from_json("text", _LINE, options))
    other = fn.coalesce("export.resourceLogs", "export.resourceMetrics").isNotNull()
    is_sound = fn.col("export._malformed").isNull() & (fn.col("export.resourceSpans").isNotNull() | other)
    # The condition may be null; such a line is damaged and must not be filtered out.
    judged = parsed.withColumn("is_sound", fn.coalesce(is_sound, fn.lit(False)))
    return _spans(judged.where("is_sound")).unionByName(
        _damaged(judged.where("not is_sound")), allowMissingColumns=True
    )


def text_lines(spark: SparkSession, files: Iterable[LineFile]) -> DataFrame:
    """Reads the lines that are not blank, as bytes and as `text`, and the reports of files that could not be read."""
    lines = read_line_files(spark, files)
    text = fn.rtrim(fn.col("value").cast("string"), fn.lit("\r"))
    return lines.withColumn("text", text).where((fn.trim("text") != "") | fn.col("_corrupt").isNotNull())


def attribute_map(pairs: Column) -> Column:
    """Converts OTLP key-value pairs to a map of text; if a key occurs twice, the last value is kept."""

    def is_last(pair: Column, at: Column) -> Column:
        behind = fn.slice(pairs, at + 2, fn.size(pairs))
        return pair["key"].isNotNull() & ~fn.exists(behind, lambda other: other["key"] == pair["key"])

    once = fn.filter(pairs, is_last)
    return fn.map_from_entries(fn.transform(once, lambda pair: fn.struct(pair["key"], _text(pair["value"]))))


def _text(value: Column) -> Column:
    kinds = ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue")
    return fn.coalesce(*(value[kind] for kind in kinds), fn.lit(""))


def _spans(lines: DataFrame) -> DataFrame:
    resources = lines.select("source", "cluster_id", "is_open", fn.explode("export.resourceSpans").alias("one"))
    scopes = resources.select(
        "source",
        "cluster_id",
        "is_open",
        attribute_map(fn.col("one.resource.attributes")).alias("resource"),
        fn.explode("one.scopeSpans").alias("scope"),
    )
    spans = scopes.select("source", "cluster_id", "is_open", "resource", fn.explode("scope.spans").alias("span"))
    return spans.select(
        "source",
        "cluster_id",
        "is_open",
        "resource",
        fn.col("span.traceId").alias("trace_id"),
        fn.col("span.spanId").alias("span_id"),
        fn.col("span.parentSpanId").alias("parent_span_id"),
        fn.col("span.name").alias("name"),
        fn.col("resource")["service.name"].alias("service"),
        fn.col("resource")["service.instance.id"].alias("instance"),
        fn.col("span.startTimeUnixNano").alias("start_ns"),
        fn.col("span.endTimeUnixNano").alias("end_ns"),
        fn.coalesce(fn.col("span.status.code").isin(*_ERROR_CODES), fn.lit(False)).alias("error"),
        attribute_map(fn.col("span.attributes")).alias("attributes"),
    )


def _damaged(lines: DataFrame) -> DataFrame:
    what = fn.when(fn.col("export._malformed").isNull(), "has no resourceSpans").otherwise("is no OTLP export in JSON")
    shown = fn.substring("text", 1, SHOWN_MAX)
    # The digest distinguishes two damaged lines that begin alike.
    claim = fn.format_string(
        LINE_CLAIM + "%d bytes (md5 %s) %s: %s", fn.octet_length("text"), fn.md5("text"), what, shown
    )
    why = fn.coalesce("_corrupt", claim)
    return lines.select("source", "cluster_id", "is_open", why.alias("_corrupt"), fn.col("value").alias("raw"))
