"""Availability by day in the report: a table of the worst days of partitions, and a calendar for several days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, bar, table
from services.pipeline.report.lanes import LABEL_LETTERS, LEFT, RIGHT, picture
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.markup import Html, joined, tag
from services.pipeline.report.times import duration

__all__ = ["Calendar", "Day", "calendar", "day_table", "read_calendar", "read_days"]

_SQUARE: Final = 17.0
_LOOKS: Final = ("well", "ill1", "ill2", "ill3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The availability of one partition on one day (UTC)."""

    cluster_id: str
    partition: str
    date: str
    seconds: float
    offline_seconds: float
    under_min_isr_seconds: float
    leader_changes: int
    unclean_elections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Each cluster's offline share of partition time by day: `dates` in order, `shares` by cluster, the worst first."""

    dates: Sequence[str]
    shares: Sequence[tuple[str, dict[str, float]]]


def read_days(availability: DataFrame, most: int) -> ShownRows[Day]:
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
    return ShownRows([Day(**row.asDict()) for row in selected.collect()], bad.count())


def read_calendar(availability: DataFrame, cluster_ids: Sequence[str], limits: ReportLimits) -> Calendar:
    """Collects the offline share of each of these clusters on the latest days."""
    own = availability.where(fn.col("cluster_id").isin(list(cluster_ids)))
    each = own.groupBy("cluster_id", fn.col("date").cast("string").alias("date")).agg(
        (fn.sum("offline_seconds") / fn.sum("seconds")).alias("share")
    )
    found: dict[str, dict[str, float]] = {cluster_id: {} for cluster_id in cluster_ids}
    latest = each.select("date").distinct().orderBy(fn.desc("date")).limit(limits.days)
    for row in each.join(fn.broadcast(latest), "date").orderBy("date").collect():
        found[row["cluster_id"]][row["date"]] = row["share"] or 0.0
    return Calendar(dates=sorted({date for days in found.values() for date in days}), shares=list(found.items()))


def day_table(days: ShownRows[Day], limits: ReportLimits) -> Html:
    """Builds the table of the worst partition days."""
    if not days.total:
        return tag("p", "No partition was offline, under its min ISR, or elected uncleanly.", class_="note")
    shown = days.first(limits.rows)
    worst = max(row.offline_seconds for row in shown.rows)
    worst_under = max(row.under_min_isr_seconds for row in shown.rows)
    columns: list[Column[Day]] = [
        Column("day", lambda row: row.date),
        Column("partition", lambda row: tag("code", row.partition)),
        Column("cluster", lambda row: tag("code", row.cluster_id), "time"),
        Column("offline", lambda row: bar(row.offline_seconds, worst, duration(row.offline_seconds), "offline"), "bar"),
        Column(
            "under min ISR",
            lambda row: bar(row.under_min_isr_seconds, worst_under, duration(row.under_min_isr_seconds), "under"),
            "bar",
        ),
        Column("of", lambda row: duration(row.seconds), "number"),
        Column("available", lambda row: _percent(row.offline_seconds, row.seconds), "number"),
        Column("leader changes", lambda row: f"{row.leader_changes:,}", "number"),
        Column("unclean", lambda row: f"{row.unclean_elections:,}" if row.unclean_elections else "", "number grave"),
    ]
    note = shown.words("the worst", "days of a partition with an event")
    return joined((tag("p", note, class_="note"), table(shown.rows, columns)))


def calendar(days: Calendar, limits: ReportLimits) -> Html:
    """Draws the availability calendar: a square for each cluster and day; returns nothing for a single day."""
    dates, rows = days.dates[-limits.days :], days.shares[: limits.fleet]
    if len(dates) < 2:
        return joined(())
    wide = min((RIGHT - LEFT) / len(dates), 3 * _SQUARE)
    drawn = []
    for number, (cluster_id, shares) in enumerate(rows):
        y = number * (_SQUARE + 3)
        label = cluster_id if len(cluster_id) <= LABEL_LETTERS else f"{cluster_id[: LABEL_LETTERS - 1]}…"
        drawn.append(tag("text", tag("title", cluster_id), label, class_="label", x=LEFT - 10, y=y + _SQUARE - 4))
        for place, date in enumerate(dates):
            if date in shares:
                drawn.append(_square(cluster_id, date, shares[date], LEFT + place * wide, y, wide - 2))
    foot = len(rows) * (_SQUARE + 3) + 14
    for place in sorted({0, len(dates) - 1}):
        at = LEFT + (place + 0.5) * wide
        anchor = "start" if place == 0 else "end"
        drawn.append(tag("text", dates[place], class_="tick", x=at, y=foot, text_anchor=anchor))
    words = ("none offline", "up to 0.01 % of partition time", "up to 1 %", "more")
    legend = [tag("span", tag("i", class_=look), meaning) for look, meaning in zip(_LOOKS, words, strict=True)]
    drawn_days = picture(foot + 6, "Share of partition time offline, by cluster and day", *drawn)
    return joined((tag("p", *legend, class_="legend"), drawn_days))


def _square(cluster_id: str, date: str, share: float, x: float, y: float, wide: float) -> Html:
    look = _LOOKS[0 if not share else 1 if share < 0.0001 else 2 if share < 0.01 else 3]
    title = tag("title", f"{cluster_id}, {date}: {100 * share:.4f} % offline")
    return tag("rect", title, class_=look, x=x, y=y, width=max(wide, 1.0), height=_SQUARE)


def _percent(lost: float, whole: float) -> str:
    return f"{100 * (1 - lost / whole):.3f} %" if whole else ""
