"""The command `quorate pipeline what-if`: prints the consequences of losing brokers or racks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.nouns import NodeId, Offset
from services.pipeline.gold.what_if import WhatIf, what_if
from services.pipeline.silver.image import SILVER
from services.pipeline.tables import Tables

__all__ = ["consequences", "only_cluster"]

SHOWN_MAX: Final = 50
"""Most brokers and most partitions that are printed."""
_COUNTS: Final = (
    ("offline", "offline"),
    ("under_min_isr", "under min ISR"),
)


def consequences(
    tables: Tables,
    cluster_id: str | None,
    *,
    lost_brokers: Sequence[NodeId],
    lost_racks: Sequence[str],
    at_offset: Offset | None,
    prefer: bool,
    min_isr: int,
) -> Iterator[str]:
    """Yields the lines: counts before and after, each broker's leaderships, and the partitions that go offline.

    `cluster_id` may be None if there is only one cluster. Raises LookupError for unknown clusters, brokers and racks.
    """
    found = what_if(
        tables,
        only_cluster(tables) if cluster_id is None else cluster_id,
        lost_brokers=lost_brokers,
        lost_racks=lost_racks,
        at_offset=at_offset,
        prefer=prefer,
        min_isr=min_isr,
    )
    yield from _summary(found.summary)
    yield from _brokers(found)
    yield from _offline(found.partitions)


def only_cluster(tables: Tables) -> str:
    """Returns the only cluster's id. Raises LookupError if there is none or several, naming some."""
    events = tables.read(f"{SILVER}/events")
    if events is None:
        raise LookupError("there is no silver to ask: run silver before")
    ids = [row[0] for row in events.select("cluster_id").distinct().orderBy("cluster_id").limit(SHOWN_MAX).collect()]
    if len(ids) != 1:
        raise LookupError(f"there are several clusters; say which with --cluster-id: {', '.join(ids)}")
    return str(ids[0])


def _summary(summary: DataFrame) -> Iterator[str]:
    for row in summary.collect():
        lost = ", ".join(str(each) for each in row["lost_brokers"])
        yield f"cluster {row['cluster_id']} as of offset {row['as_of_offset']}, without broker {lost}"
        yield f"  {row['partitions']} partitions, {row['brokers_left']} brokers left"
        for name, words in _COUNTS:
            yield f"  {words}: {row[name]} → {row[f'{name}_after']}"
        yield f"  leaders that move: {row['leader_moves']}"
        yield f"  unclean elections: {row['unclean_elections']}"
        yield f"  with more replicas than brokers are left: {row['without_enough_brokers']}"


def _brokers(found: WhatIf) -> Iterator[str]:
    yield from _titled("brokers", found.brokers, ("cluster_id", "broker_id"), _broker)


def _broker(row: Any) -> str:  # Any: a Row's columns
    state = "lost" if row["lost"] else "fenced" if row["fenced"] else f"rack {row['rack']}" if row["rack"] else "serves"
    leads = f"leads {row['leaders']} → {row['leaders_after']}"
    return f"  broker {row['broker_id']} ({state}): {leads}, in ISRs {row['isr_members']} → {row['isr_members_after']}"


def _offline(partitions: DataFrame) -> Iterator[str]:
    lost = partitions.where("offline_after and not offline")
    yield from _titled("partitions that go offline", lost, ("topic", "partition_id"), _partition)


def _partition(row: Any) -> str:  # Any: a Row's columns
    return (
        f"  {row['topic']}-{row['partition_id']}: replicas {row['replicas']}, ISR {row['isr']}, led by {row['leader']}"
    )


def _titled(title: str, rows: DataFrame, order: Sequence[str], shown: Any) -> Iterator[str]:  # Any: a Row's line
    total = rows.count()
    taken = rows.orderBy(*(fn.col(name) for name in order)).limit(SHOWN_MAX).collect()
    if taken:
        yield title if len(taken) == total else f"{title}: the first {len(taken)} of {total}"
    for row in taken:
        yield shown(row)
