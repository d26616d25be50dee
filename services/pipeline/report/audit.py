"""The audit section of the report: the latest changes of each kind as sentences in order, with failures highlighted.

One outage changes thousands of partitions. Each kind of change has its share of the rows, so that what people did is
never crowded out by what followed from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, table
from services.pipeline.report.intervals import ms
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Note, Part, Words, code
from services.pipeline.report.times import moment

__all__ = ["audit_table", "read_audit"]

_GRAVE: Final = "(is fenced|leader [0-9]+ → none|unclean|ISR [0-9,]+ → none)"
_MILD: Final = "( enters controlled shutdown| becomes the active controller |is unregistered|is removed)"
"""Patterns in sentences of `gold/audit_timeline`, behind the subject, that mark a failure or a notable change."""
_CREATED: Final = "^ is created"
_MOVED: Final = "(^|;) (replicas|adding|removing) "
_CONFIGURED: Final = "^ [^ ]+: "
"""Patterns in the same sentences of what is asked for: else a sentence is of the kind of its subject, a partition."""


def read_audit(audit: DataFrame, most: int) -> ShownRows[Row]:
    """Collects the latest sentences of each kind, as many of one as of another where there are that many.

    They are ordered by time; those of one cluster are in the order of their offsets. `look` is the CSS class: `grave`,
    `mild`, or empty; `rank` the place among the changes of its kind, 1 for the latest one.
    """
    look = fn.when(fn.col("rest").rlike(_GRAVE), "grave").when(fn.col("rest").rlike(_MILD), "mild").otherwise("")
    rest = fn.expr("substring(sentence, length(subject) + 1)")
    latest = (fn.desc("time"), fn.desc("cluster_id"), fn.desc("offset"), fn.desc("sentence"))
    rank = fn.row_number().over(Window.partitionBy(_kind()).orderBy(*latest))
    ranked = audit.withColumn("rest", rest).withColumn("rank", rank).where(fn.col("rank") <= most)
    selected = (
        ranked.orderBy("rank", *latest)
        .limit(most)
        .select(
            "cluster_id",
            "offset",
            ms("time").alias("ms"),
            _short("subject"),
            _short("sentence"),
            "trace_id",
            look.alias("look"),
            "rank",
        )
    )
    return ShownRows(_in_order(selected.collect()), audit.count())


def audit_table(sentences: ShownRows[Row], limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds the table of sentences, with a cluster column if there are several clusters."""
    shown = ShownRows(_of_each_kind(sentences.rows, limits.sentences), sentences.total)
    columns: list[Column[Row]] = [
        Column("time (UTC)", lambda row: Words(moment(row.ms), element="time"), "time"),
        Column("offset", lambda row: f"{row.offset:,}", "number"),
        Column("what changed", _sentence_cell, "prose"),
        Column("trace", lambda row: code(row.trace_id) if row.trace_id else None),
    ]
    if clusters > 1:
        columns.insert(2, Column("cluster", lambda row: code(row.cluster_id), "time"))
    note = Note(shown.words("of each kind the latest,", "changes") + "; search with the browser (Ctrl-F)")
    only = "only failures, shutdowns, removals, elections of an active controller"
    return [note, table(shown.rows, columns, _row_look, only=only)]


def _kind() -> SparkColumn:
    """Returns what a sentence is about, a topic or a partition …, and whether it is created, moved or configured."""
    rest = fn.col("rest")
    asked = fn.when(rest.rlike(_CREATED), 1).when(rest.rlike(_MOVED), 2).when(rest.rlike(_CONFIGURED), 3).otherwise(0)
    return fn.struct(fn.substring_index("subject", " ", 1), asked)


def _of_each_kind(rows: Sequence[Row], most: int) -> list[Row]:
    """Returns at most so many of the rows, the latest of each kind, in their order."""
    first = sorted(range(len(rows)), key=lambda at: (rows[at].rank, -at))[:most]
    return [rows[at] for at in sorted(first)]


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Orders sentences of a cluster by offset, and among clusters by the latest time that each has reached."""
    reached: dict[str, int] = {}
    placed = []
    for row in sorted(rows, key=lambda row: (row.offset, row.sentence)):
        reached[row.cluster_id] = max(row.ms, reached.get(row.cluster_id, row.ms))
        placed.append((reached[row.cluster_id], row))
    placed.sort(key=lambda each: (each[0], each[1].cluster_id))
    return [row for _, row in placed]


def _row_look(row: Row) -> str:
    return "is-grave" if row.look else ""


def _sentence_cell(row: Row) -> Words:
    return Words(row.sentence.removeprefix(row.subject), row.look, subject=row.subject)


def _short(name: str) -> SparkColumn:
    cut = fn.concat(fn.substring(name, 1, TEXT_MAX), fn.lit("…"))
    return fn.when(fn.length(name) > TEXT_MAX, cut).otherwise(fn.col(name)).alias(name)
