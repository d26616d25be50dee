"""The broker churn table of the report: how often each broker left ISRs, lost leaderships, and was fenced."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.gold.churn import COUNTS
from services.pipeline.report.cells import Column, bar, count, table
from services.pipeline.report.limits import ReportLimits, ShownRows
from services.pipeline.report.parts import Bar, Note, Part, code

__all__ = ["BrokerChurn", "churn_table", "read_churn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChurn:
    """A broker's churn counts, summed over all days."""

    cluster_id: str
    broker_id: int
    isr_shrinks: int
    isr_expands: int
    leaderships_gained: int
    leaderships_lost: int
    fenced: int
    unfenced: int
    days: int
    """Number of days with any of these changes."""


def read_churn(churn: DataFrame, most: int) -> ShownRows[BrokerChurn]:
    """Collects the brokers with the most ISR exits, lost leaderships and fencings together."""
    sums = [fn.sum(name).alias(name) for name in COUNTS]
    each = churn.groupBy("cluster_id", "broker_id").agg(*sums, fn.count_distinct("date").alias("days"))
    unsteady = fn.col("isr_shrinks") + fn.col("leaderships_lost") + fn.col("fenced")
    rows = each.orderBy(unsteady.desc(), "cluster_id", "broker_id").limit(most).collect()
    return ShownRows([BrokerChurn(**row.asDict()) for row in rows], each.count())


def churn_table(brokers: ShownRows[BrokerChurn], limits: ReportLimits) -> list[Part]:
    """Builds the table; the broker with the most changes comes first."""
    if not brokers.total:
        return [Note("No broker left or joined an ISR, won or lost a leadership, or was fenced.")]
    shown = brokers.first(limits.rows)

    def counted(heading: str, name: str, look: str) -> Column[BrokerChurn]:
        most = max(getattr(row, name) for row in shown.rows)

        def cell(row: BrokerChurn) -> Bar:
            count: int = getattr(row, name)
            return bar(count, most, f"{count:,}", look)

        return Column(heading, cell, "bar slim")

    columns: list[Column[BrokerChurn]] = [
        Column("broker", lambda row: f"{row.broker_id}", "number"),
        Column("cluster", lambda row: code(row.cluster_id), "time"),
        counted("left an ISR", "isr_shrinks", "under"),
        counted("joined an ISR", "isr_expands", "serving"),
        counted("leaderships lost", "leaderships_lost", "under"),
        counted("leaderships won", "leaderships_gained", "serving"),
        counted("fenced", "fenced", "offline"),
        counted("unfenced", "unfenced", "serving"),
        Column("days", lambda row: count(row.days), "number"),
    ]
    lost, won = (sum(getattr(row, name) for row in shown.rows) for name in ("leaderships_lost", "leaderships_gained"))
    note = (
        f"{shown.words('the most unsteady', 'brokers with changes of ISRs, leaderships or fencing')}. "
        f"They lost {lost:,} leaderships and won {won:,}. "
        "When a partition goes offline, its leader loses it and no broker wins it; a first leader is not counted."
    )
    return [Note(note), table(shown.rows, columns)]
