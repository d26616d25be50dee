"""The placement section of the report: which brokers and racks exceed a fair share, and which topics violate racks."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.report.cells import Column, bar, count, table
from services.pipeline.report.limits import TEXT_MAX, ReportLimits, ShownRows
from services.pipeline.report.parts import Heading, Note, Part, Words, code

__all__ = ["placement_tables", "read_placement"]

SCOPES: Final = ("broker", "rack", "topic")
_COLUMNS: Final = ("cluster_id", "scope", "replicas", "leaders", "fair_replicas", "fair_leaders", "rack_violations")


def read_placement(skew: DataFrame, most: int) -> dict[str, ShownRows[Row]]:
    """Collects the brokers and racks farthest from their fair share, and the topics with most rack violations.

    Returns them by scope.
    """
    found = {}
    for scope in SCOPES:
        of_scope = skew.where(fn.col("scope") == scope)
        off = [fn.abs(fn.coalesce(name, fn.lit(0.0))) for name in ("replica_skew", "leader_skew")]
        order = [fn.coalesce("rack_violations", fn.lit(0)).desc(), fn.greatest(*off).desc()]
        if scope == "topic":
            of_scope = of_scope.where("rack_violations > 0")
        total = of_scope.count()
        rows = of_scope.orderBy(*order, "cluster_id", "subject").limit(most)
        short = [fn.substring(name, 1, TEXT_MAX).alias(name) for name in ("subject", "rack", "state")]
        found[scope] = ShownRows(rows.select(*_COLUMNS, *short).collect(), total)
    return found


def placement_tables(shares: dict[str, ShownRows[Row]], limits: ReportLimits, clusters: int) -> list[Part]:
    """Builds a table of placement for each scope (broker, rack, topic) that has rows."""
    parts: list[Part] = []
    for scope, all_of_it in shares.items():
        shown = all_of_it.first(limits.rows)
        if scope == "topic" and shown.rows:
            words = shown.words("the worst", "topics with partitions on fewer racks than there are for them")
            parts.append(Note(words))
        elif shown.rows:
            parts.append(
                Heading(f"{scope.capitalize()}s", shown.words("the most uneven", f"{scope}s at the log's end"))
            )
        if shown.rows:
            parts.append(table(shown.rows, _columns(scope, shown, clusters)))
    return parts


def _columns(scope: str, shown: ShownRows[Row], clusters: int) -> list[Column[Row]]:
    replicas, leaders = (max(row[name] for row in shown.rows) for name in ("replicas", "leaders"))
    columns: list[Column[Row]] = [Column(scope, lambda row: code(row.subject))]
    if clusters > 1:
        columns.append(Column("cluster", lambda row: code(row.cluster_id), "time"))
    if scope == "broker":
        columns.append(Column("rack", lambda row: row.rack or ""))
        columns.append(Column("state", _state))
    columns += [
        Column("replicas", lambda row: bar(row.replicas, replicas, f"{row.replicas:,}", "serving"), "bar load"),
        Column("± fair share of replicas", lambda row: _off(row.replicas, row.fair_replicas), "number"),
        Column("leaders", lambda row: bar(row.leaders, leaders, f"{row.leaders:,}", "serving"), "bar load"),
        Column("± fair share of leaders", lambda row: _off(row.leaders, row.fair_leaders), "number"),
    ]
    if scope == "topic":
        columns.append(Column("rack violations", lambda row: count(row.rack_violations or 0), "number grave"))
    return columns


def _state(row: Row) -> Words | None:
    return Words(row.state, "" if row.state == "active" else "low") if row.state else None


def _off(count: int, fair: float | None) -> Words | None:
    """Formats the difference between a broker's count and its fair share, as in "+1.5"; None without a fair share."""
    if fair is None:
        return None
    off = count - fair
    return Words(f"{off:+.1f}", "low" if abs(off) >= 1 else "")
