"""The report's first section: present problems by cause, and the story that led to them.

The latest events are shown, and the earlier ones are folded above them: the page has no box that scrolls by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, count, table
from services.pipeline.report.intervals import latest, ms
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Folded, Heading, Note, Part, Words, code
from services.pipeline.report.times import moment, set_back

__all__ = ["Incident", "cause_parts", "read_incident", "story_parts"]

_OPEN_MAX: Final = 60
"""Most events of a cluster that are not folded."""
_LOOKS: Final = {"bad": "grave", "good": "good", "plain": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The most severe rows of `gold/causes`, and the latest of `gold/story` of the clusters that have charts.

    Times are in ms since 1970; `total` is the number of a cluster's events, shown or not.
    """

    causes: ShownRows[Row]
    events: Sequence[Row]


def read_incident(causes: DataFrame, story: DataFrame, clusters: Sequence[str], limits: ReportLimits) -> Incident:
    """Collects the most severe causes of all clusters, and the latest events of `clusters`, cluster by cluster.

    The events of a cluster are in the order of their offsets.
    """
    short = [fn.substring(name, 1, TEXT_MAX).alias(name) for name in ("sentence", "advice")]
    order = (fn.col("severity") != "error", fn.desc("partitions"), "cluster_id", "sentence")
    selected = causes.select(
        "cluster_id", "severity", "code", "partitions", *short, fn.unix_millis("since_time").alias("since_ms")
    )
    rows = selected.orderBy(*order).limit(limits.rows).collect()
    own = story.where(fn.col("cluster_id").isin(list(clusters)))
    ordered = own.withColumn("order", fn.struct("offset", "place", "sentence"))
    last = latest(ordered, ["cluster_id"], limits.sentences, by="order")
    sentence = fn.substring("sentence", 1, TEXT_MAX).alias("sentence")
    counts = ("offline", "under_min_isr", "under_replicated")
    events = last.select("cluster_id", "offset", ms("time").alias("ms"), "look", sentence, *counts, "total")
    # Clusters are ordered as everywhere in the report: the worst first.
    found = sorted(events.orderBy("order").collect(), key=lambda event: clusters.index(event.cluster_id))
    return Incident(causes=ShownRows(rows, causes.count()), events=found)


def story_parts(incident: Incident, limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds a table of events for each cluster."""
    stories = [
        _story([event for event in incident.events if event.cluster_id == cluster_id], limits, clusters)
        for cluster_id in dict.fromkeys(event.cluster_id for event in incident.events)
    ]
    return [part for story in stories for part in story]


def cause_parts(incident: Incident, limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds the table of causes, or a note if there are none."""
    if not incident.causes.total:
        return [Note("As the log ends, every partition has a leader and all its replicas in sync.", "good")]
    shown = incident.causes.first(limits.rows)
    columns: list[Column[Row]] = [
        Column("what is wrong, and why", lambda row: Words(row.sentence, _grave(row)), "prose"),
        Column("what to do", lambda row: row.advice, "prose"),
        Column("since (UTC)", lambda row: "" if row.since_ms is None else moment(row.since_ms), "time"),
    ]
    if clusters > 1:
        columns.insert(0, Column("cluster", lambda row: code(row.cluster_id), "time"))
    return [
        Heading("As the log ends", shown.words("the worst", "groups of partitions") + ", by harm and cause"),
        table(shown.rows, columns),
    ]


def _grave(cause: Row) -> str:
    return "grave" if cause.severity == "error" else ""


def _story(events: Sequence[Row], limits: ReportLimits, clusters: int) -> list[Part]:
    shown = ShownRows(events[-limits.sentences :], events[0].total)
    columns: list[Column[Row]] = [
        Column("time (UTC)", lambda row: Words(moment(row.ms), element="time"), "time"),
        Column("offset", lambda row: f"{row.offset:,}", "number"),
        Column("what happened", lambda row: Words(row.sentence, _LOOKS[row.look]), "prose"),
        Column("offline then", lambda row: count(row.offline), "number"),
        Column("under min ISR then", lambda row: count(row.under_min_isr), "number"),
        Column("under-replicated then", lambda row: count(row.under_replicated), "number"),
    ]
    of, cluster_id = ("What happened to cluster", events[0].cluster_id) if clusters > 1 else ("What happened", "")
    heading = Heading(of, shown.words("the latest", "events") + ", in order", cluster_id)
    note = Note(
        "Lines with the same time were written together by the active controller, in order of offsets. The numbers"
        " count partitions after all events of that time; a partition that is offline is also under min ISR."
        + _of_clocks(shown.rows)
    )
    earlier, latest_events = shown.rows[:-_OPEN_MAX], shown.rows[-_OPEN_MAX:]
    folded = [Folded(_earlier(earlier), [table(earlier, columns)])] if earlier else []
    return [heading, note, *folded, table(latest_events, columns)]


def _of_clocks(events: Sequence[Row]) -> str:
    """Says that times go back, if they do."""
    if not set_back(event.ms for event in events):
        return ""
    return (
        " Events are in the order of the log. Their times are from the active controllers' clocks, and go back where a"
        " new controller's clock is behind the previous one's; the event of its election says by how much."
    )


def _earlier(events: Sequence[Row]) -> str:
    bad = sum(event.look == "bad" for event in events)
    return f"{len(events):,} earlier events from {moment(events[0].ms)} on, {bad:,} of them bad: show"
