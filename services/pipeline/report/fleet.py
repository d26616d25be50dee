"""The fleet at a glance: what there is, how it fared, and whether the numbers can be trusted; then every cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, bar, table
from services.pipeline.report.limits import Limits, Shown
from services.pipeline.report.markup import Html, joined, tag
from services.pipeline.report.stretches import log_ends, ms
from services.pipeline.report.times import duration, moment

__all__ = ["Cluster", "Fleet", "cluster_table", "read_fleet", "tiles", "unavailability"]

_SUMS: Final = ("seconds", "offline_seconds", "under_min_isr_seconds", "leader_changes", "unclean_elections")
_COUNTS: Final = ("records", "brokers", "fenced", "partitions", "offline", "epochs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster's sums. Seconds are of partitions: two partitions offline for a minute are 120."""

    cluster_id: str
    begin_ms: int
    end_ms: int
    end_offset: int
    records: int
    brokers: int
    fenced: int
    partitions: int
    """As the log ends; so are `brokers`, and of both those that are `fenced` and `offline`."""
    offline: int
    epochs: int
    """How often the quorum elected a leader."""
    seconds: float
    offline_seconds: float
    under_min_isr_seconds: float
    leader_changes: int
    unclean_elections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All of it as one, and its clusters, the worst first."""

    whole: Cluster
    clusters: Shown[Cluster]


def read_fleet(
    events: DataFrame, partitions: DataFrame, brokers: DataFrame, availability: DataFrame, most: int
) -> Fleet:
    """The sums of the fleet and of its `most` worst clusters. Raises LookupError for a fleet without a record."""
    clusters = _clusters(events, partitions, brokers, availability).persist()
    try:
        sums = [fn.sum(name).alias(name) for name in (*_COUNTS, *_SUMS)]
        ends = [fn.min("begin_ms").alias("begin_ms"), fn.max("end_ms").alias("end_ms"), fn.sum("end_offset")]
        whole = clusters.agg(fn.lit("").alias("cluster_id"), *ends[:2], ends[2].alias("end_offset"), *sums).collect()[0]
        total = clusters.count()
        order = [fn.desc(name) for name in ("offline_seconds", "under_min_isr_seconds", "leader_changes")]
        rows = clusters.orderBy(*order, "cluster_id").limit(most).collect()
    finally:
        clusters.unpersist()
    if not total:
        raise LookupError("silver holds no record of any cluster: there is nothing to report")
    return Fleet(whole=Cluster(**whole.asDict()), clusters=Shown([Cluster(**row.asDict()) for row in rows], total))


def tiles(fleet: Fleet) -> Html:
    """The numbers that are looked at first."""
    whole, clusters = fleet.whole, fleet.clusters.total
    unclean, offline = whole.unclean_elections, whole.offline_seconds
    told = [
        ("availability", _percent(unavailability(whole)), "grave" if offline else "good", "of partition time"),
        ("offline", duration(offline), "grave" if offline else "good", "time without a leader"),
        (
            "under min ISR",
            duration(whole.under_min_isr_seconds),
            _look(whole.under_min_isr_seconds),
            "time, of partitions",
        ),
        ("unclean elections", f"{unclean:,}", "grave" if unclean else "good", "records may be lost"),
        ("leader changes", _short(whole.leader_changes), "", "of partitions"),
        ("quorum epochs", _short(whole.epochs), "", "controllers elected"),
        ("partitions", _short(whole.partitions), "", f"{whole.offline:,} offline at the end"),
        ("brokers", _short(whole.brokers), "", f"{whole.fenced:,} fenced at the end"),
        ("records", _short(whole.records), "", f"of {clusters:,} cluster{'' if clusters == 1 else 's'}"),
    ]
    boxes = [
        tag("div", tag("small", name), tag("strong", value), tag("span", note), class_=f"tile {look}".strip())
        for name, value, look, note in told
    ]
    return tag("div", *boxes, class_="tiles")


def cluster_table(fleet: Fleet, limits: Limits) -> Html:
    """The clusters, the worst first."""
    shown = fleet.clusters.first(limits.fleet)
    most = max((row.offline_seconds for row in shown.rows), default=0)
    most_under = max((row.under_min_isr_seconds for row in shown.rows), default=0)
    columns: list[Column[Cluster]] = [
        Column("cluster", lambda row: tag("code", row.cluster_id), "time"),
        Column("availability", lambda row: _percent(unavailability(row)), "number"),
        Column("offline", lambda row: bar(row.offline_seconds, most, duration(row.offline_seconds), "offline"), "bar"),
        Column(
            "under min ISR",
            lambda row: bar(row.under_min_isr_seconds, most_under, duration(row.under_min_isr_seconds), "under"),
            "bar",
        ),
        Column("unclean", lambda row: f"{row.unclean_elections:,}", "number"),
        Column("leader changes", lambda row: f"{row.leader_changes:,}", "number"),
        Column("epochs", lambda row: f"{row.epochs:,}", "number"),
        Column("partitions", lambda row: f"{row.partitions:,}", "number"),
        Column("brokers", lambda row: f"{row.brokers:,}", "number"),
        Column("log until (UTC)", lambda row: moment(row.end_ms)[:19], "time"),
        Column("offset", lambda row: f"{row.end_offset:,}", "number"),
    ]
    return joined((tag("p", shown.words("the worst", "clusters"), class_="note"), table(shown.rows, columns)))


def unavailability(cluster: Cluster) -> float:
    """The share of time without a leader."""
    return cluster.offline_seconds / cluster.seconds if cluster.seconds else 0.0


def _clusters(events: DataFrame, partitions: DataFrame, brokers: DataFrame, availability: DataFrame) -> DataFrame:
    now = "valid_to_offset is null"
    counted = events.groupBy("cluster_id").agg(
        fn.count("*").alias("records"),
        (fn.max("offset") + 1).alias("end_offset"),
        fn.sum((fn.col("type") == "LEADER_CHANGE").cast("int")).alias("epochs"),
    )
    parts = [
        log_ends(events).select(
            "cluster_id", ms("log_begin_time").alias("begin_ms"), ms("log_end_time").alias("end_ms")
        ),
        counted,
        _there(brokers.where(now), "brokers", "fenced", fn.col("fenced")),
        _there(partitions.where(now), "partitions", "offline", fn.col("leader") < 0),
        availability.groupBy("cluster_id").agg(*(fn.sum(name).alias(name) for name in _SUMS)),
    ]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.join(part, "cluster_id", "left")
    return rows.na.fill(0)


def _there(rows: DataFrame, name: str, flag: str, holds: SparkColumn) -> DataFrame:
    return rows.groupBy("cluster_id").agg(fn.count("*").alias(name), fn.sum(holds.cast("int")).alias(flag))


def _short(count: int) -> str:
    """
    >>> [_short(each) for each in (9_999_999, 12_345_678, 1_000_000_000)]
    ['9,999,999', '12.3 M', '1,000.0 M']
    """
    return f"{count:,}" if count < 10**7 else f"{count / 10**6:,.1f} M"


def _look(seconds: float) -> str:
    return "low" if seconds else "good"


def _percent(share_lost: float) -> str:
    """
    >>> [_percent(each) for each in (0, 0.5, 0.0001234, 0.00000001)]
    ['100 %', '50.000 %', '99.988 %', '99.9999 %']
    """
    if not share_lost:
        return "100 %"
    kept = 100 * (1 - share_lost)
    return f"{kept:.3f} %" if kept < 99.999 else f"{min(kept, 99.9999):.4f} %"
