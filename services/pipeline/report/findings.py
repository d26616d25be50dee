"""The findings section of the report: the doctor's findings by kind, errors first, each with advice.

Of each kind the first ones are shown and the others folded, so that no kind is hidden behind another one's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, table
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Folded, Heading, Note, Part, Tally, Words, code
from services.pipeline.report.times import moment

__all__ = ["Findings", "findings_table", "read_findings"]

_OPEN_MAX: Final = 3
"""Most findings of one code that are not folded."""
_SEVERITIES: Final = {"error": "error", "warn": "warning", "info": "information"}
_LOOKS: Final = {"error": "grave", "warn": "low"}
_COUNTS_MAX: Final = 100
"""Most kinds of findings that are counted; there are a few dozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The counts by code, errors first, and of each code the findings that have held for longest.

    A count has `severity`, `code`, `count` and `clusters`; the others are rows of `gold/fleet_doctor`, with `since_ms`
    in ms since 1970, None if not known.
    """

    counts: Sequence[Row]
    rows: Sequence[Row]

    @property
    def total(self) -> int:
        """Number of findings, shown or not."""
        return sum(each["count"] for each in self.counts)

    @property
    def errors(self) -> int:
        """Number of findings that are errors, shown or not."""
        return sum(each["count"] for each in self.counts if each.severity == "error")


def read_findings(doctor: DataFrame, most: int) -> Findings:
    """Collects the counts and at most `most` findings of each code."""
    rank = fn.when(fn.col("severity") == "error", 0).when(fn.col("severity") == "warn", 1).otherwise(2)
    kinds = doctor.groupBy(rank.alias("rank"), "severity", "code").agg(
        fn.count("*").alias("count"), fn.count_distinct("cluster_id").alias("clusters")
    )
    counts = kinds.orderBy("rank", fn.desc("count"), "code").limit(_COUNTS_MAX).drop("rank").collect()
    longest = Window.partitionBy("code").orderBy(fn.asc_nulls_last("since_time"), "cluster_id", "subject")
    short = [fn.substring(name, 1, TEXT_MAX).alias(name) for name in ("subject", "sentence", "advice")]
    placed = doctor.withColumn("place", fn.row_number().over(longest)).where(fn.col("place") <= most)
    since = fn.unix_millis("since_time").alias("since_ms")
    rows = placed.orderBy(rank, "code", "place").select("cluster_id", "severity", "code", *short, since).collect()
    return Findings(counts=counts, rows=rows)


def findings_table(findings: Findings, limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds the counts by code, and for each code a table of its findings, the longest-lasting ones first."""
    if not findings.total:
        return [Note("The doctor found nothing.", "good")]
    parts: list[Part] = [Tally([(each["count"], each.code) for each in findings.counts])]
    for count in findings.counts[: limits.rows]:
        own = [row for row in findings.rows if row.code == count.code][: limits.each]
        columns = _columns(clusters)
        shown = ShownRows(own, count["count"]).words("the longest-lasting", "findings")
        parts += [Heading(count.code, f"{_SEVERITIES[count.severity]}, {shown}"), table(own[:_OPEN_MAX], columns)]
        if rest := own[_OPEN_MAX:]:
            parts.append(Folded(f"{len(rest):,} more of {count.code}: show", [table(rest, columns)]))
    return parts


def _columns(clusters: int) -> list[Column[Row]]:
    columns: list[Column[Row]] = [
        Column("who", lambda row: Words(row.subject, _LOOKS.get(row.severity, ""), "b")),
        Column("what", lambda row: row.sentence, "prose"),
        Column("what to do", lambda row: row.advice, "prose"),
        Column("since (UTC)", lambda row: "" if row.since_ms is None else moment(row.since_ms), "time"),
    ]
    if clusters > 1:
        columns.insert(0, Column("cluster", lambda row: code(row.cluster_id), "time"))
    return columns
