"""The broker churn table of the report: how often each broker left ISRs, lost leaderships, and was fenced."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.gold.churn import COUNTS
from services.pipeline.report.cells import Column, bar, count, table
from services.pipeline.report.limits import ReportLimits, ShownRows
from services.pipeline.report.parts import Bar, Note, Part, code

__all__ = ["churn_table", "read_churn"]


def read_churn(churn: DataFrame, most: int) -> ShownRows[Row]:
    """Collects the brokers with the most ISR exits, lost leaderships and fencings together.

    The counts are sums over all days; `days` is the number of days with any of these changes.
    """
    sums = [fn.sum(name).alias(name) for name in COUNTS]
    each = churn.groupBy("cluster_id", "broker_id").agg(*sums, fn.count_distinct("date").alias("days"))
    unsteady = fn.col("isr_shrinks") + fn.col("leaderships_lost") + fn.col("fenced")
    return ShownRows(each.orderBy(unsteady.desc(), "cluster_id", "broker_id").limit(most).collect(), each.count())


def churn_table(brokers: ShownRows[Row], limits: ReportLimits) -> list[Part]:
    """Builds the table; the broker with the most changes comes first."""
    if not brokers.total:
        return [Note("No broker left or joined an ISR, won or lost a leadership, or was fenced.")]
    shown = brokers.first(limits.rows)

    def counted(heading: str, name: str, look: str) -> Column[Row]:
        most = max(row[name] for row in shown.rows)

        def cell(row: Row) -> Bar:
            return bar(row[name], most, f"{row[name]:,}", look)

        return Column(heading, cell, "bar slim")

    columns: list[Column[Row]] = [
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
    lost, won = (sum(row[name] for row in shown.rows) for name in ("leaderships_lost", "leaderships_gained"))
    note = (
        f"{shown.words('the most unsteady', 'brokers with changes of ISRs, leaderships or fencing')}. "
        f"They lost {lost:,} leaderships and won {won:,}. "
        "When a partition goes offline, its leader loses it and no broker wins it; a first leader is not counted."
    )
    return [Note(note), table(shown.rows, columns)]
