"""Availability by day in the report: a table of the worst days of partitions, and a calendar for several days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, bar, count, table
from services.pipeline.report.lanes import LaneSegment, TimelineLane, lanes
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Note, Part, Toolbar, code
from services.pipeline.report.times import duration

__all__ = ["Calendar", "calendar", "day_table", "read_calendar", "read_days"]

_LOOKS: Final = (
    ("well", "none offline"),
    ("ill1", "up to 0.01 % of partition time"),
    ("ill2", "up to 1 %"),
    ("ill3", "more"),
)
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Each cluster's offline share of partition time by day: `dates` in order, `shares` by cluster, the worst first."""

    dates: Sequence[str]
    shares: Sequence[tuple[str, dict[str, float]]]


def read_days(availability: DataFrame, most: int) -> ShownRows[Row]:
    """Collects the worst partition days: those with offline time, time under min ISR, or unclean elections."""
    bad = availability.where("offline_seconds > 0 or under_min_isr_seconds > 0 or unclean_elections > 0")
    order = [fn.desc("offline_seconds"), fn.desc("under_min_isr_seconds"), fn.desc("unclean_elections")]
    name = fn.concat_ws("-", fn.substring("topic", 1, TEXT_MAX), fn.col("partition_id").cast("string"))
    rows = bad.orderBy(*order, "cluster_id", "topic", "partition_id", "date").limit(most)
    selected = rows.select(
        "cluster_id",
        name.alias("partition"),
        fn.col("date").cast("string").alias("date"),
        "seconds",
        "offline_seconds",
        "under_min_isr_seconds",
        "leader_changes",
        "unclean_elections",
    )
    return ShownRows(selected.collect(), bad.count())


def read_calendar(availability: DataFrame, cluster_ids: Sequence[str], limits: ReportLimits) -> Calendar:
    """Collects the offline share of each of these clusters on the latest days."""
    own = availability.where(fn.col("cluster_id").isin(list(cluster_ids)))
    each = own.groupBy("cluster_id", fn.col("date").cast("string").alias("date")).agg(
        fn.try_divide(fn.sum("offline_seconds"), fn.sum("seconds")).alias("share")
    )
    found: dict[str, dict[str, float]] = {cluster_id: {} for cluster_id in cluster_ids}
    latest = each.select("date").distinct().orderBy(fn.desc("date")).limit(limits.days)
    for row in each.join(fn.broadcast(latest), "date").orderBy("date").collect():
        found[row["cluster_id"]][row["date"]] = row["share"] or 0.0
    return Calendar(dates=sorted({date for days in found.values() for date in days}), shares=list(found.items()))


def day_table(days: ShownRows[Row], limits: ReportLimits) -> list[Part]:
    """Builds the table of the worst partition days."""
    if not days.total:
        return [Note("No partition was offline, under its min ISR, or elected uncleanly.")]
    shown = days.first(limits.rows)
    worst = max(row.offline_seconds for row in shown.rows)
    worst_under = max(row.under_min_isr_seconds for row in shown.rows)
    columns: list[Column[Row]] = [
        Column("day", lambda row: row.date, "time"),
        Column("partition", lambda row: code(row.partition)),
        Column("cluster", lambda row: code(row.cluster_id), "time"),
        Column("offline", lambda row: bar(row.offline_seconds, worst, duration(row.offline_seconds), "offline"), "bar"),
        Column(
            "under min ISR",
            lambda row: bar(row.under_min_isr_seconds, worst_under, duration(row.under_min_isr_seconds), "under"),
            "bar",
        ),
        Column("it existed for", lambda row: duration(row.seconds), "number"),
        Column("with a leader", lambda row: _percent(row.offline_seconds, row.seconds), "number"),
        Column("leader elections", lambda row: count(row.leader_changes), "number"),
        Column("unclean", lambda row: count(row.unclean_elections) if row.unclean_elections else "", "number grave"),
    ]
    note = shown.words("the worst", "partitions of a day that were offline, under min ISR, or had an unclean election")
    return [Note(note), table(shown.rows, columns)]


def calendar(days: Calendar, limits: ReportLimits) -> list[Part]:
    """Makes the availability calendar: a lane for each cluster, a box for each day; nothing for a single day."""
    dates, rows = days.dates[-limits.days :], days.shares[: limits.fleet]
    if len(dates) < 2:
        return []
    made = [
        TimelineLane(cluster_id, [_box(cluster_id, date, shares[date]) for date in dates if date in shares])
        for cluster_id, shares in rows
    ]
    period = (_midnight_ms(dates[0]), _midnight_ms(dates[-1]) + _DAY_MS)
    title = "Share of partition time offline, by cluster and day"
    return [Toolbar("calendar"), lanes(made, period, title, _LOOKS, group="calendar")]


def _box(cluster_id: str, date: str, share: float) -> LaneSegment:
    look, _ = _LOOKS[0 if not share else 1 if share < 0.0001 else 2 if share < 0.01 else 3]
    begin_ms = _midnight_ms(date)
    return LaneSegment(begin_ms, begin_ms + _DAY_MS, look, f"{cluster_id}, {date}: {100 * share:.4f} % offline")


def _midnight_ms(date: str) -> int:
    return int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()) * 1_000


def _percent(lost: float, whole: float) -> str:
    return f"{100 * (1 - lost / whole):.3f} %" if whole else ""
