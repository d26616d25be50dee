"""The report's first section: present problems by cause, and the story that led to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, table
from services.pipeline.report.intervals import latest, ms
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Heading, Note, Part, Words, code
from services.pipeline.report.times import moment

__all__ = ["Cause", "Incident", "Turn", "incident_parts", "read_incident"]

_LOOKS: Final = {"bad": "grave", "good": "good", "plain": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A row of `gold/causes`; `since_ms` is in ms since 1970, None if not known."""

    cluster_id: str
    severity: str
    partitions: int
    sentence: str
    advice: str
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A row of `gold/story`: one event; `ms` is its time in ms since 1970."""

    cluster_id: str
    offset: int
    ms: int
    look: str
    sentence: str
    total: int
    """Number of events of this cluster, shown or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The most severe causes, and the latest events of the clusters that have charts."""

    causes: ShownRows[Cause]
    turns: Sequence[Turn]


def read_incident(
    causes: DataFrame | None, story: DataFrame | None, clusters: Sequence[str], limits: ReportLimits
) -> Incident | None:
    """Collects causes and events; None if gold lacks one of the tables."""
    if causes is None or story is None:
        return None
    short = [fn.substring(name, 1, TEXT_MAX).alias(name) for name in ("sentence", "advice")]
    order = (fn.col("severity") != "error", fn.desc("partitions"), "cluster_id", "sentence")
    selected = causes.select(
        "cluster_id", "severity", "partitions", *short, fn.unix_millis("since_time").alias("since_ms")
    )
    rows = [Cause(**row.asDict()) for row in selected.orderBy(*order).limit(limits.rows).collect()]
    own = story.where(fn.col("cluster_id").isin(list(clusters)))
    last = latest(own, ["cluster_id"], limits.sentences, by="offset")
    sentence = fn.substring("sentence", 1, TEXT_MAX).alias("sentence")
    turns = last.select("cluster_id", "offset", ms("time").alias("ms"), "look", sentence, "total")
    found = [Turn(**row.asDict()) for row in turns.orderBy("offset", "ms", "look", "sentence").collect()]
    # Clusters are ordered as everywhere in the report: the worst first.
    found.sort(key=lambda turn: clusters.index(turn.cluster_id))
    return Incident(causes=ShownRows(rows, causes.count()), turns=found)


def incident_parts(incident: Incident | None, limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds the table of causes, then a table of events for each cluster."""
    if incident is None:
        return [Note("There is no gold/causes or no gold/story: run gold.")]
    stories = [
        _story([turn for turn in incident.turns if turn.cluster_id == cluster_id], limits, clusters)
        for cluster_id in dict.fromkeys(turn.cluster_id for turn in incident.turns)
    ]
    return [*_causes(incident.causes, limits, clusters), *(part for story in stories for part in story)]


def _causes(causes: ShownRows[Cause], limits: ReportLimits, clusters: int) -> list[Part]:
    if not causes.total:
        return [Note("As the log ends, every partition has a leader and all its replicas in sync.", "good")]
    shown = causes.first(limits.rows)
    columns: list[Column[Cause]] = [
        Column("what is wrong, and why", lambda row: Words(row.sentence, _grave(row)), "prose"),
        Column("what to do", lambda row: row.advice, "prose"),
        Column("since (UTC)", lambda row: "" if row.since_ms is None else moment(row.since_ms)[:19], "time"),
    ]
    if clusters > 1:
        columns.insert(0, Column("cluster", lambda row: code(row.cluster_id), "time"))
    return [Heading("As the log ends", shown.words("the gravest", "causes")), table(shown.rows, columns)]


def _grave(cause: Cause) -> str:
    return "grave" if cause.severity == "error" else ""


def _story(turns: Sequence[Turn], limits: ReportLimits, clusters: int) -> list[Part]:
    shown = ShownRows(turns[-limits.sentences :], turns[0].total)
    columns: list[Column[Turn]] = [
        Column("time (UTC)", lambda row: Words(moment(row.ms), element="time"), "time"),
        Column("offset", lambda row: f"{row.offset:,}", "number"),
        Column("what happened", lambda row: Words(row.sentence, _LOOKS[row.look]), "prose"),
    ]
    of, cluster_id = ("What happened to cluster", turns[0].cluster_id) if clusters > 1 else ("What happened", "")
    heading = Heading(of, shown.words("the latest", "turns") + ", in order", cluster_id)
    return [heading, table(shown.rows, columns, "long")]
