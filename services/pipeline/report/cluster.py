"""The charts of one cluster on one time axis: the active controller, its brokers, partition health, and partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.gold.availability import partition_spans
from services.pipeline.memory import kept
from services.pipeline.report.areas import levels
from services.pipeline.report.brokers import broker_lanes, fencings, read_brokers
from services.pipeline.report.health import Bucket, level_steps, read_buckets
from services.pipeline.report.intervals import log_ends
from services.pipeline.report.lanes import lanes, leader_looks
from services.pipeline.report.limits import ReportLimits, ShownRows
from services.pipeline.report.partitions import chosen, partition_lanes, read_partitions
from services.pipeline.report.parts import Heading, Note, Part, Toolbar
from services.pipeline.report.quorum import quorum_lane, read_epochs, read_silences
from services.pipeline.report.times import duration, moment, set_back
from services.pipeline.silver.present import MIN_ISR_DEFAULT

__all__ = ["Drawn", "cluster_parts", "read_clusters"]

T = TypeVar("T")
_FENCING: Final = ("fencing", "a broker is fenced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The data for one cluster's charts: epochs, silences, states of brokers and partitions, partition counts."""

    cluster: Row
    epochs: Sequence[Row]
    silences: Sequence[Row]
    brokers: Sequence[Row]
    partitions: Sequence[Row]
    buckets: Sequence[Bucket]


def read_clusters(
    clusters: Sequence[Row], silver: Mapping[str, DataFrame], availability: DataFrame, limits: ReportLimits
) -> list[Drawn]:
    """Reads the data for the charts of these clusters, and of no others."""
    ids = [each.cluster_id for each in clusters]
    own = {name: frame.where(fn.col("cluster_id").isin(ids)) for name, frame in silver.items()}
    ends = log_ends(own["events"])
    least = max((each.assumed_min_isr for each in clusters), default=0) or MIN_ISR_DEFAULT
    spans = partition_spans(own["partition_history"], own["config_history"], ends, min_isr=least)
    with kept(spans) as (spans,):
        places = chosen(availability.where(fn.col("cluster_id").isin(ids)), limits.partitions)
        partitions = _by_cluster(read_partitions(spans, places, limits.changes), lambda row: row.cluster_id)
        buckets = _by_cluster(read_buckets(spans, ends), lambda row: row.cluster_id)
    epochs = _by_cluster(read_epochs(own["events"], limits.epochs), lambda row: row.cluster_id)
    silent = _by_cluster(read_silences(own["events"], limits.epochs), lambda row: row.cluster_id)
    brokers = _by_cluster(read_brokers(own["broker_history"], ends, limits), lambda row: row.cluster_id)
    return [
        Drawn(
            cluster=each,
            epochs=epochs.get(each.cluster_id, []),
            silences=silent.get(each.cluster_id, []),
            brokers=brokers.get(each.cluster_id, []),
            partitions=partitions.get(each.cluster_id, []),
            buckets=buckets.get(each.cluster_id, []),
        )
        for each in clusters
    ]


def cluster_parts(whole: Drawn, limits: ReportLimits) -> list[Part]:
    """Makes one cluster's charts, each with a heading; they zoom together."""
    drawn = _within(whole, limits)
    cluster = drawn.cluster
    lasted = duration((cluster.end_ms - cluster.begin_ms) / 1_000)
    parts: list[Part] = [
        Heading("Cluster", code=cluster.cluster_id, level=2),
        Note(f"{moment(cluster.begin_ms)} to {moment(cluster.end_ms)} UTC, {lasted}"),
        *_of_clocks(drawn.epochs),
    ]
    if drawn.epochs or drawn.brokers or drawn.partitions:
        parts.append(Toolbar(_group(drawn)))
    marks = fencings(drawn.brokers)
    if drawn.epochs:
        leaders = sorted({epoch.leader for epoch in drawn.epochs})
        looks = [*leader_looks(leaders, "controller"), ("silent", "no controller wrote"), _FENCING]
        lane = quorum_lane(drawn.epochs, drawn.silences, cluster.end_ms)
        title = "Active controller by epoch"
        parts += [
            Heading("Active controller", _some(len(drawn.epochs), drawn.epochs[0].total, "latest", "epochs")),
            _last_epoch(drawn.epochs[-1], cluster.end_ms),
            lanes([lane], _period(drawn), title, looks, group=_group(drawn), marks=marks),
        ]
    if drawn.brokers:
        count = len({state.broker_id for state in drawn.brokers})
        looks = [("serving", "serves"), ("leaving", "in controlled shutdown"), ("fenced", "fenced"), _FENCING]
        rows = broker_lanes(drawn.brokers)
        parts += [
            Heading(
                "Brokers",
                _some(count, drawn.brokers[0].of, "most unsteady", "brokers that were registered at any time"),
            ),
            lanes(rows, _period(drawn), "States of the brokers", looks, group=_group(drawn), marks=marks),
        ]
    return [*parts, *_partition_parts(drawn)]


def _of_clocks(epochs: Sequence[Row]) -> list[Note]:
    """Says how times that go back are drawn, if some do."""
    back_ms = set_back(each for epoch in epochs for each in (epoch.begin_ms, epoch.last_ms))
    if not back_ms:
        return []
    behind = f"A new active controller's clock was up to {duration(back_ms / 1_000)} behind the previous one's."
    drawn = "A change of a broker or partition whose time is before its previous change is drawn at the later time."
    return [Note(f"{behind} Its epoch is drawn over the end of the previous epoch. {drawn}")]


def _group(drawn: Drawn) -> str:
    return f"cluster {drawn.cluster.cluster_id}"


def _period(drawn: Drawn) -> tuple[int, int]:
    """Returns the period of a cluster's charts in ms since 1970; it is never empty."""
    return drawn.cluster.begin_ms, max(drawn.cluster.end_ms, drawn.cluster.begin_ms + 1)


def _last_epoch(epoch: Row, end_ms: int) -> Note:
    """Returns a note that names the last active controller, whose interval may be too short to be visible."""
    led = "its LeaderChange is the log's last record" if epoch.begin_ms == end_ms else f"since {moment(epoch.begin_ms)}"
    return Note(f"At the end: controller {epoch.leader} in epoch {epoch.epoch}, {led}.")


def _within(drawn: Drawn, limits: ReportLimits) -> Drawn:
    """Limits a cluster's chart data further, as if it had been read with these limits."""
    places = sorted({row.place for row in drawn.partitions})[: limits.partitions]
    ids = sorted({row.broker_id for row in drawn.brokers})[: limits.brokers]
    of_places = [[row for row in drawn.partitions if row.place == place] for place in places]
    of_ids = [[row for row in drawn.brokers if row.broker_id == broker_id] for broker_id in ids]
    return replace(
        drawn,
        epochs=drawn.epochs[-limits.epochs :],
        silences=drawn.silences[-limits.epochs :],
        partitions=[row for rows in of_places for row in rows[-limits.changes :]],
        brokers=[row for rows in of_ids for row in rows[-limits.changes :]],
    )


def _partition_parts(drawn: Drawn) -> list[Part]:
    if not drawn.partitions:
        return [Note("No partition was there for any time.")]
    count = len({state.place for state in drawn.partitions})
    leaders = sorted({state.leader for state in drawn.partitions if not state.offline})
    looks = [*leader_looks(leaders, "leader"), ("under", "under min ISR"), ("offline", "offline"), _FENCING]
    title = "Leaders and ISR sizes of partitions over time"
    rows, marks = partition_lanes(drawn.partitions), fencings(drawn.brokers)
    return [
        *_health_parts(drawn),
        Heading(
            "Leaders and ISRs", _some(count, drawn.partitions[0].of, "worst", "partitions that existed at any time")
        ),
        Note("Colour: the leader; red: no leader. Height: the share of replicas in the ISR; a line: none is in it."),
        lanes(rows, _period(drawn), title, looks, group=_group(drawn), marks=marks),
    ]


def _health_parts(drawn: Drawn) -> list[Part]:
    heading = Heading("Unhealthy partitions", "how many at once; the maximum of each interval")
    if not drawn.buckets:
        return [heading, Note("None at any time: ISRs were whole, partitions had leaders.")]
    steps = level_steps(drawn.buckets, drawn.cluster.end_ms)
    looks = [("short", "under-replicated"), ("under", "under min ISR, offline or not"), ("offline", "offline")]
    title = "Counts of unhealthy partitions over time"
    return [heading, levels(steps, looks, _period(drawn), title, group=_group(drawn))]


def _some(count: int, total: int, kind: str, what: str) -> str:
    return ShownRows(range(count), total).words(f"the {kind}", what)


def _by_cluster(rows: Sequence[T], cluster_of: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for row in rows:
        found.setdefault(cluster_of(row), []).append(row)
    return found
