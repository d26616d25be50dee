"""The findings section of the report: the fleet doctor's findings, errors first, each with advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, table
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Note, Part, Tally, Words, code
from services.pipeline.report.times import moment

__all__ = ["Count", "DoctorFinding", "Findings", "findings_table", "read_findings"]

_LOOKS: Final = {"error": "grave", "warn": "low"}
_COUNTS_MAX: Final = 100
"""Most kinds of findings that are counted; there are a few dozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """A row of `gold/fleet_doctor`; `since_ms` is in ms since 1970, None if not known."""

    cluster_id: str
    severity: str
    code: str
    subject: str
    sentence: str
    advice: str
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of findings of one code, and of clusters that have them."""

    severity: str
    code: str
    count: int
    clusters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The counts by code, and the most severe findings."""

    counts: Sequence[Count]
    rows: ShownRows[DoctorFinding]


def read_findings(doctor: DataFrame | None, most: int) -> Findings | None:
    """Collects counts and the most severe findings; None if the table does not exist."""
    if doctor is None:
        return None
    rank = fn.when(fn.col("severity") == "error", 0).when(fn.col("severity") == "warn", 1).otherwise(2)
    kinds = doctor.groupBy(rank.alias("rank"), "severity", "code").agg(
        fn.count("*").alias("count"), fn.count_distinct("cluster_id").alias("clusters")
    )
    counts = kinds.orderBy("rank", fn.desc("count"), "code").limit(_COUNTS_MAX).drop("rank").collect()
    short = [fn.substring(name, 1, TEXT_MAX).alias(name) for name in ("subject", "sentence", "advice")]
    rows = doctor.orderBy(rank, "since_time", "cluster_id", "code", "subject").limit(most)
    selected = rows.select("cluster_id", "severity", "code", *short, fn.unix_millis("since_time").alias("since_ms"))
    return Findings(
        counts=[Count(**row.asDict()) for row in counts],
        rows=ShownRows(
            [DoctorFinding(**row.asDict()) for row in selected.collect()], sum(row["count"] for row in counts)
        ),
    )


def findings_table(findings: Findings | None, limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds the counts by code and the table of the most severe findings."""
    if findings is None:
        return [Note("There is no gold/fleet_doctor: run gold.")]
    if not findings.rows.total:
        return [Note("The fleet doctor found nothing.", "good")]
    shown = findings.rows.first(limits.rows)
    columns: list[Column[DoctorFinding]] = [
        Column("severity", lambda row: Words(row.severity, _LOOKS.get(row.severity, ""), "b"), "time"),
        Column("who", lambda row: Words(row.subject, element="b")),
        Column("what", lambda row: row.sentence, "prose"),
        Column("what to do", lambda row: row.advice, "prose"),
        Column("since (UTC)", lambda row: "" if row.since_ms is None else moment(row.since_ms)[:19], "time"),
    ]
    if clusters > 1:
        columns.insert(1, Column("cluster", lambda row: code(row.cluster_id), "time"))
    return [
        Tally([(each.count, each.code) for each in findings.counts]),
        Note(shown.words("the gravest", "findings")),
        table(shown.rows, columns, "long"),
    ]
