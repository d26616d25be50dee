"""The commit latency section of the report: the time of each step, a histogram, the slowest hours, election gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.gold.commit_slo import ACCURACY
from services.pipeline.report.areas import LogBin, histogram
from services.pipeline.report.cells import Column, bar, count, table
from services.pipeline.report.limits import ReportLimits, ShownRows
from services.pipeline.report.parts import Bar, Heading, Note, Part, Table, Toolbar, code
from services.pipeline.report.times import duration, moment

__all__ = ["Latency", "latency_parts", "read_latency"]

WHOLE: Final = "request_to_committed_us"
STAGES: Final[Mapping[str, str]] = {
    "request_to_decided_us": "request → decided",
    "decided_to_appended_us": "decided → append begins at the leader",
    "appended_to_flushed_us": "append → on the leader's disk",
    "flushed_to_committed_us": "leader's disk → committed: a majority has it",
    WHOLE: "request → committed, all in all",
}
PER_TENFOLD: Final = 8
"""Bins of the histogram for each factor of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The data of the commit latency section; without spans it has only the election gaps.

    A stage is a step of the write path: its name, and the percentiles p50 and p99, None if no write has this duration.
    Times are in µs unless the name says ms. If a gap's `clock_behind_ms`, the least by which the new leader's clock is
    behind, is not 0, the length of the gap is not known.
    """

    writes: int
    failed: int
    stages: Sequence[tuple[str, int | None, int | None]]
    spread: Mapping[int, int]
    """Number of writes by bin: key k counts those of 10^(k / PER_TENFOLD) µs up to the next bin."""
    hours: ShownRows[Row]
    gaps: ShownRows[Row]


def read_latency(slo: DataFrame, write_path: DataFrame | None, limits: ReportLimits) -> Latency:
    """Collects the data of the commit latency section; `write_path` is None if there are no spans."""
    hours, gaps = _hours(slo, limits.rows), _gaps(slo, limits.rows)
    if write_path is None:
        return Latency(writes=0, failed=0, stages=(), spread={}, hours=hours, gaps=gaps)
    quantiles: list[Any] = [0.5, 0.99]  # Any, because pyspark's stubs declare it so
    measured = [fn.percentile_approx(name, quantiles, ACCURACY).alias(name) for name in STAGES]
    counted = (fn.count("*").alias("writes"), fn.count("error").alias("failed"))
    row = write_path.agg(*counted, *measured).collect()[0]
    stages = [(words, *(row[name] or (None, None))) for name, words in STAGES.items()]
    step = fn.floor(fn.log10(fn.greatest(WHOLE, fn.lit(1))) * PER_TENFOLD)
    found = write_path.where(f"{WHOLE} is not null").groupBy(step.cast("int").alias("step")).count().collect()
    spread = {each["step"]: each["count"] for each in found}
    return Latency(writes=row["writes"], failed=row["failed"], stages=stages, spread=spread, hours=hours, gaps=gaps)


def latency_parts(latency: Latency, limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds the charts and tables of the commit latency section for which there is data."""
    if not latency.writes:
        words = (
            "No traces (spans) were ingested, so the duration of writes is not known; the log's timestamps tell for how"
            " long nothing was written around an election."
        )
        return [Note(words), *_gap_table(latency.gaps, limits, clusters)]
    failed = f"; {latency.failed:,} failed" if latency.failed else ""
    parts: list[Part] = [Note(f"{latency.writes:,} writes were traced{failed}."), _stage_table(latency.stages)]
    if latency.spread:
        parts.append(Heading("Writes by how long they took", "from the request to the commit"))
        title = "Count of writes by time from request to commit"
        parts.append(Toolbar("latency"))
        parts.append(histogram(_bins(latency.spread), title, group="latency"))
    return [*parts, *_hour_table(latency.hours, limits, clusters), *_gap_table(latency.gaps, limits, clusters)]


def _hours(slo: DataFrame, most: int) -> ShownRows[Row]:
    measured = slo.where("request_to_committed_p99_us is not null")
    rows = measured.orderBy(fn.desc("request_to_committed_p99_us"), "cluster_id", "hour").limit(most)
    selected = rows.select(
        "cluster_id",
        fn.unix_millis("hour").alias("hour_ms"),
        "writes",
        "failed_writes",
        fn.col("request_to_committed_p50_us").alias("p50_us"),
        fn.col("request_to_committed_p99_us").alias("p99_us"),
        fn.col("committed_to_applied_p99_us").alias("applied_p99_us"),
        "within_objective",
        "objective_ms",
        "slowest_follower",
        "slowest_follower_p99_us",
    )
    return ShownRows(selected.collect(), measured.count())


def _gaps(slo: DataFrame, most: int) -> ShownRows[Row]:
    each = slo.select("cluster_id", fn.explode("election_gaps").alias("gap"))
    selected = each.select(
        "cluster_id",
        fn.unix_millis("gap.at").alias("at_ms"),
        "gap.from_epoch",
        "gap.to_epoch",
        "gap.leader_id",
        "gap.gap_ms",
        "gap.clock_behind_ms",
    )
    rows = selected.orderBy(fn.desc("gap_ms"), "cluster_id", "to_epoch").limit(most).collect()
    return ShownRows(rows, each.count())


def _stage_table(stages: Sequence[tuple[str, int | None, int | None]]) -> Table:
    most = max((p99 or 0 for _, _, p99 in stages), default=0)
    columns: list[Column[tuple[str, int | None, int | None]]] = [
        Column("stretch", lambda row: row[0]),
        Column("median", lambda row: _bar(row[1], most, "serving"), "bar"),
        Column("99 of 100 within", lambda row: _bar(row[2], most, "under"), "bar"),
    ]
    return table(stages, columns)


def _bar(us: int | None, most: int, look: str) -> Bar:
    return bar(us or 0, most, _us(us), look)


def _us(us: int | None) -> str:
    return "unknown" if us is None else duration(us / 1_000_000)


def _bins(spread: Mapping[int, int]) -> list[LogBin]:
    """Makes the bins from the first to the last that has a write.

    >>> _bins({3 * PER_TENFOLD: 5})[0].begin
    0.001
    """
    steps = range(min(spread), max(spread) + 1)
    return [LogBin(spread.get(step, 0), _at(step), _at(step + 1)) for step in steps]


def _at(step: int) -> float:
    """Returns the lower bound of a bin in seconds."""
    return math.pow(10, step / PER_TENFOLD) / 1_000_000


def _hour_table(hours: ShownRows[Row], limits: ReportLimits, clusters: int) -> list[Part]:
    shown = hours.first(limits.rows)
    most = max((row.p99_us for row in shown.rows), default=0)
    columns: list[Column[Row]] = [
        Column("hour (UTC)", lambda row: moment(row.hour_ms)[:16], "time"),
        Column("writes", lambda row: count(row.writes), "number"),
        Column("failed", lambda row: count(row.failed_writes) if row.failed_writes else "", "number grave"),
        Column("median", lambda row: _bar(row.p50_us, most, "serving"), "bar"),
        Column("p99", lambda row: _bar(row.p99_us, most, "under"), "bar"),
        Column("commit → apply p99", lambda row: _us(row.applied_p99_us), "number"),
        Column("in the objective", lambda row: f"{100 * row.within_objective:.2f} %", "number"),
        Column("slowest follower", _slowest, "number"),
    ]
    if clusters > 1:
        columns.insert(1, Column("cluster", lambda row: code(row.cluster_id), "time"))
    objective = f", objective {shown.rows[0].objective_ms} ms" if shown.rows else ""
    return [Heading("By hour", shown.words("the slowest", "hours") + objective), table(shown.rows, columns)]


def _slowest(row: Row) -> str:
    if row.slowest_follower is None:
        return ""
    return f"node {row.slowest_follower}, p99 {_us(row.slowest_follower_p99_us)} after the leader"


def _gap(row: Row, most: int) -> Bar | str:
    if row.clock_behind_ms:
        return (
            f"not known: the new active controller's clock is at least {duration(row.clock_behind_ms / 1_000)} behind"
        )
    return bar(row.gap_ms, most, duration(row.gap_ms / 1_000), "under")


def _gap_table(gaps: ShownRows[Row], limits: ReportLimits, clusters: int) -> list[Part]:
    if not gaps.total:
        return [Note("No election: one epoch from the first record to the last.")]
    shown = gaps.first(limits.rows)
    most = max(row.gap_ms for row in shown.rows)
    columns: list[Column[Row]] = [
        Column("until (UTC)", lambda row: moment(row.at_ms), "time"),
        Column("epochs", lambda row: f"{row.from_epoch} → {row.to_epoch}", "number"),
        Column("new active controller", lambda row: "" if row.leader_id is None else f"{row.leader_id}"),
        Column("nothing was written for", lambda row: _gap(row, most), "bar"),
    ]
    if clusters > 1:
        columns.insert(1, Column("cluster", lambda row: code(row.cluster_id), "time"))
    heading = Heading("Elections of an active controller", shown.words("the longest", "times between epochs"))
    return [heading, table(shown.rows, columns)]
