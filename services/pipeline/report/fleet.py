"""The report's key figures for the whole fleet, and the table of its clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.memory import kept
from services.pipeline.report.cells import Column, bar, count, table
from services.pipeline.report.findings import Findings
from services.pipeline.report.intervals import log_ends, ms
from services.pipeline.report.limits import ReportLimits, ShownRows
from services.pipeline.report.parts import Note, Part, code
from services.pipeline.report.times import duration, moment

__all__ = ["Fleet", "Tile", "cluster_table", "read_fleet", "tiles", "unavailability"]

_SUMS: Final = (
    "seconds",
    "offline_seconds",
    "under_min_isr_seconds",
    "min_isr_assumed_seconds",
    "leader_changes",
    "unclean_elections",
)
_COUNTS: Final = ("records", "brokers", "fenced", "partitions", "offline", "under_min_isr", "epochs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The sums of the whole fleet, and its clusters, the worst first.

    Seconds are partition seconds: two partitions offline for a minute are 120. `min_isr_assumed_seconds` are those in
    which no record set min.insync.replicas and `assumed_min_isr` was used. `records` are those of the log, without
    those of a checkpoint; `epochs` the elections of an active controller; `partitions` and `brokers` are counted at the
    log's end, and so are those `offline`, `under_min_isr` and `fenced`. `end_offset` of the fleet is the highest: a sum
    of offsets may be no bigint, and means nothing.
    """

    whole: Row
    clusters: ShownRows[Row]


def read_fleet(
    events: DataFrame, partitions: DataFrame, brokers: DataFrame, availability: DataFrame, most: int
) -> Fleet:
    """Returns the totals over all clusters, and the totals of the `most` clusters with the longest unavailability.

    Raises LookupError if there is no record.
    """
    with kept(_clusters(events, partitions, brokers, availability)) as (clusters,):
        sums = [fn.sum(name).alias(name) for name in (*_COUNTS, *_SUMS)]
        sums.append(fn.max("assumed_min_isr").alias("assumed_min_isr"))
        ends = [fn.min("begin_ms").alias("begin_ms"), fn.max("end_ms").alias("end_ms"), fn.max("end_offset")]
        whole = clusters.agg(fn.lit("").alias("cluster_id"), *ends[:2], ends[2].alias("end_offset"), *sums).collect()[0]
        total = clusters.count()
        order = [fn.desc(name) for name in ("offline_seconds", "under_min_isr_seconds", "leader_changes")]
        rows = clusters.orderBy(*order, "cluster_id").limit(most).collect()
    if not total:
        raise LookupError("silver holds no record of any cluster: there is nothing to report")
    return Fleet(whole=whole, clusters=ShownRows(rows, total))


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure at the top of the page; `look` is its CSS class."""

    name: str
    value: str
    look: str
    note: str


def tiles(fleet: Fleet, findings: Findings) -> list[Tile]:
    """Returns the key figures of all clusters."""
    whole, clusters = fleet.whole, fleet.clusters.total
    unclean, offline = whole.unclean_elections, whole.offline_seconds
    figures = [
        ("availability", _percent(unavailability(whole)), _worst(whole, "grave" if offline else "good"), _of(whole)),
        ("offline", duration(offline), "grave" if offline else "good", "partition time without a leader"),
        (
            "under min ISR",
            duration(whole.under_min_isr_seconds),
            _worst(whole, _look(whole.under_min_isr_seconds)),
            _min_isr_note(whole),
        ),
        ("unclean elections", f"{unclean:,}", "grave" if unclean else "good", "records may be lost"),
        ("leader elections", _short(whole.leader_changes), "", "of partitions, without each one's first leader"),
        ("controller elections", _short(whole.epochs), "", "epochs with an active controller, the first included"),
        ("partitions", _short(whole.partitions), "", f"at the end; {whole.offline:,} of them offline"),
        ("brokers", _short(whole.brokers), "", f"registered at the end; {whole.fenced:,} fenced"),
        ("records", _short(whole.records), "", f"of {clusters:,} cluster{'' if clusters == 1 else 's'}"),
        _findings_tile(findings),
    ]
    return [Tile(*figure) for figure in figures]


def cluster_table(fleet: Fleet, limits: ReportLimits) -> list[Part]:
    """Builds the table of the fleet's clusters, the worst first."""
    shown = fleet.clusters.first(limits.fleet)
    most = max((row.offline_seconds for row in shown.rows), default=0)
    most_under = max((row.under_min_isr_seconds for row in shown.rows), default=0)
    columns: list[Column[Row]] = [
        Column("cluster", lambda row: code(row.cluster_id), "time"),
        Column("availability", lambda row: _percent(unavailability(row)), "number"),
        Column("offline", lambda row: bar(row.offline_seconds, most, duration(row.offline_seconds), "offline"), "bar"),
        Column(
            "under min ISR",
            lambda row: bar(row.under_min_isr_seconds, most_under, duration(row.under_min_isr_seconds), "under"),
            "bar",
        ),
        Column("unclean", lambda row: count(row.unclean_elections), "number"),
        Column("leader elections", lambda row: count(row.leader_changes), "number"),
        Column("controller elections", lambda row: count(row.epochs), "number"),
        Column("partitions", lambda row: count(row.partitions), "number"),
        Column("brokers", lambda row: count(row.brokers), "number"),
        Column("log until (UTC)", lambda row: moment(row.end_ms), "time"),
        Column("offset", lambda row: f"{row.end_offset:,}", "number"),
    ]
    return [Note(shown.words("the worst", "clusters")), table(shown.rows, columns)]


def _findings_tile(findings: Findings) -> tuple[str, str, str, str]:
    look = "grave" if findings.errors else "low" if findings.total else "good"
    return "findings", _short(findings.total), look, f"{findings.errors:,} of them errors"


def unavailability(cluster: Row) -> float | None:
    """Returns the share of partition time without a leader; None if there was no partition time."""
    return cluster.offline_seconds / cluster.seconds if cluster.seconds else None


def _worst(cluster: Row, look: str) -> str:
    """Returns the CSS class of a key figure, or none if there was no partition time to judge."""
    return look if cluster.seconds else ""


def _of(cluster: Row) -> str:
    return "of partition time, with a leader" if cluster.seconds else "no partition was there"


def _min_isr_note(cluster: Row) -> str:
    count = cluster.under_min_isr
    at_end = f"; {count:,} partition{'' if count == 1 else 's'} at the log's end"
    if not cluster.min_isr_assumed_seconds:
        return f"partition time, offline or not{at_end}"
    which = "for all" if cluster.min_isr_assumed_seconds >= cluster.seconds else "for part"
    assumed = f"of that time is in no record; {cluster.assumed_min_isr} is assumed (--min-isr)"
    return f"partition time{at_end}; min.insync.replicas {which} {assumed}"


def _clusters(events: DataFrame, partitions: DataFrame, brokers: DataFrame, availability: DataFrame) -> DataFrame:
    now = "valid_to_offset is null"
    counted = events.groupBy("cluster_id").agg(
        fn.count_if(~fn.col("is_base")).alias("records"),
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
        availability.groupBy("cluster_id").agg(
            *(fn.sum(name).alias(name) for name in _SUMS),
            fn.count_if("ends_under_min_isr").alias("under_min_isr"),
            fn.max("assumed_min_isr").alias("assumed_min_isr"),
        ),
    ]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.join(part, "cluster_id", "left")
    return rows.na.fill(0)


def _there(rows: DataFrame, name: str, flag: str, holds: SparkColumn) -> DataFrame:
    return rows.groupBy("cluster_id").agg(fn.count("*").alias(name), fn.sum(holds.cast("int")).alias(flag))


def _short(count: int) -> str:
    """Formats a count; counts from ten million on are in millions.

    >>> [_short(each) for each in (9_999_999, 12_345_678, 1_000_000_000)]
    ['9,999,999', '12.3 M', '1,000.0 M']
    """
    return f"{count:,}" if count < 10**7 else f"{count / 10**6:,.1f} M"


def _look(seconds: float) -> str:
    return "low" if seconds else "good"


def _percent(share_lost: float | None) -> str:
    """Formats the share that is not lost as a percentage; – for None.

    >>> [_percent(each) for each in (None, 0, 0.5, 0.0001234, 0.00000001)]
    ['–', '100 %', '50.000 %', '99.988 %', '99.9999 %']
    """
    if share_lost is None:
        return "–"
    if not share_lost:
        return "100 %"
    kept = 100 * (1 - share_lost)
    return f"{kept:.3f} %" if kept < 99.999 else f"{min(kept, 99.9999):.4f} %"
