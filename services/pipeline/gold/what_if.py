"""What-if analysis: simulates the loss of brokers or racks and finds new leaders, offline partitions, small ISRs.

The controller fences one broker after another; `quorate.what_if` does the same with the controller's own commands, in a
Python worker, on the cluster's state. A controlled shutdown of a broker has the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.controller.configs.settings import ControllerSettings
from quorate.metadata.partitions import Partition, led_uncleanly
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.what_if import lose
from quorate.what_if.min_isrs import MinIsrs
from services.pipeline.gold.clusters import Cluster, clusters, rows_of_clusters
from services.pipeline.memory import shortened
from services.pipeline.silver.image import HISTORIES, SILVER
from services.pipeline.silver.present import MIN_ISR, MIN_ISR_DEFAULT, Present, present
from services.pipeline.tables import Computed, Tables

__all__ = ["WhatIf", "what_if"]

TABLE_ROWS: Final = 1 << 16
"""Rows of one table that a worker returns."""
_IDS: Final = pa.list_(pa.int32())
_STATE: Final = {
    **dict.fromkeys(("replicas", "isr", "adding_replicas", "removing_replicas", "elr", "last_known_elr"), _IDS),
    **dict.fromkeys(("leader", "leader_recovery_state"), pa.int32()),
}
"""The fields of a partition that an election reads and writes; their values afterwards are `…_after`."""
_FLAGS: Final = (
    "offline",
    "offline_after",
    "under_min_isr",
    "under_min_isr_after",
    "leader_moves",
    "unclean_election",
)
_SCHEMA: Final = pa.schema(
    {
        **dict.fromkeys(("cluster_id", "topic", "topic_id"), pa.string()),
        "partition_id": pa.int32(),
        **_STATE,
        **{f"{name}_after": kind for name, kind in _STATE.items()},
        **dict.fromkeys(("min_isr", "min_isr_after"), pa.int32()),
        **dict.fromkeys(_FLAGS, pa.bool_()),
    }
)


class WhatIf(NamedTuple):
    """The consequences of a loss, as three tables.

    `partitions` has each partition before and after (`…_after`), with `min_isr` as its leader has it (KIP-226) and
    flags such as `offline_after` and `unclean_election`. `brokers` has each broker before and after: the partitions
    that it leads, the ISRs with it, and the replicas that it holds. `summary` is one row of counts.
    """

    partitions: DataFrame
    brokers: DataFrame
    summary: DataFrame


def what_if(
    tables: Tables,
    cluster_id: str,
    *,
    lost_brokers: Sequence[NodeId] = (),
    lost_racks: Sequence[str] = (),
    at_offset: Offset | None = None,
    prefer: bool = False,
    min_isr: int = MIN_ISR_DEFAULT,
) -> WhatIf:
    """Simulates the loss of brokers, in this order, then of racks' brokers by id, as of an offset or now.

    With `prefer`, preferred leaders are elected afterwards, like `kafka-leader-election --election-type preferred`
    (KIP-460). `min_isr` is assumed if no record sets it. Raises LookupError for a negative offset, without silver, for
    an unknown cluster, broker or rack, and if nothing is lost.
    """
    if at_offset is not None and at_offset < 0:
        raise LookupError(f"offset {at_offset} is negative; offsets begin at 0")
    now = _cluster(tables, cluster_id, at_offset)
    lost, fenced = _lost(now, _name(cluster_id, at_offset), lost_brokers, lost_racks)
    # Fencing a broker that is already fenced changes nothing.
    out = [each for each in lost if each not in fenced]
    settings = ControllerSettings(static_configs={MIN_ISR: str(min_isr)})

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for cluster in clusters(batches):
            yield from _after(cluster, out, settings, prefer=prefer)

    partitions = shortened(Computed(rows_of_clusters(now), compute, _SCHEMA).frame())
    return WhatIf(partitions, _loads(partitions, now, lost), _summary(partitions, now, lost))


def _cluster(tables: Tables, cluster_id: str, at_offset: Offset | None) -> Present:
    found = {name: tables.read(f"{SILVER}/{name}") for name in (*HISTORIES, "events")}
    silver = {
        name: table.where(fn.col("cluster_id") == cluster_id) for name, table in found.items() if table is not None
    }
    if len(silver) < len(found):
        raise LookupError("there is no silver to ask: run silver before")
    return present(silver, at_offset)


def _name(cluster_id: str, at_offset: Offset | None) -> str:
    return f"cluster {cluster_id!r}" + ("" if at_offset is None else f" as of offset {at_offset}")


def _lost(
    now: Present, cluster: str, brokers: Sequence[NodeId], racks: Sequence[str]
) -> tuple[list[NodeId], set[NodeId]]:
    """Returns the ids of the brokers to lose, in the order of their loss, and the ids of all brokers fenced already.

    The brokers to lose are `brokers` as given, then those of `racks` by id, each once. Raises LookupError for an
    unknown cluster, broker or rack, and if nothing is lost.
    """
    if not now.at.take(1):
        raise LookupError(f"there is no {cluster}")
    if not brokers and not racks:
        raise LookupError("nothing is lost: name brokers or racks")
    known = {row["broker_id"]: row for row in now.brokers.select("broker_id", "rack", "fenced").collect()}
    for broker_id in brokers:
        if broker_id not in known:
            raise LookupError(f"broker {broker_id} is none of {cluster}, which has {sorted(known) or 'none'}")
    for rack in racks:
        if rack not in {row["rack"] for row in known.values()}:
            there = sorted({row["rack"] for row in known.values()} - {None})
            raise LookupError(f"rack {rack!r} is none of {cluster}, which has {there or 'none'}")
    in_racks = sorted(broker_id for broker_id, row in known.items() if row["rack"] in racks)
    return list(dict.fromkeys((*brokers, *in_racks))), {each for each, row in known.items() if row["fenced"]}


def _after(
    cluster: Cluster, lost: Sequence[NodeId], settings: ControllerSettings, *, prefer: bool
) -> Iterator[pa.Table]:
    """Yields each partition of a cluster before and after the loss."""
    topics = cluster.state.topics
    before = [(each.topic, each.partition_id, each.partition) for each in topics.all()]
    least = MinIsrs(cluster.state, settings).least
    lose(
        cluster.state,
        brokers=lost,
        settings=settings,
        next_offset=cluster.end.offset,
        with_preferred_leaders=prefer,
    )
    after = (each.partition for each in topics.all())
    rows = (
        (
            cluster.id,
            topic.name,
            uuid_text(topic.id),
            partition_id,
            *(getattr(was, name) for name in _STATE),
            *(getattr(will, name) for name in _STATE),
            *_consequences(was, will, least(topic.name, was), least(topic.name, will)),
        )
        for (topic, partition_id, was), will in zip(before, after, strict=True)
    )
    while some := list(islice(rows, TABLE_ROWS)):
        yield pa.table(list(map(list, zip(*some, strict=True))), schema=_SCHEMA)


def _consequences(
    was: Partition, will: Partition, min_isr: int, min_isr_after: int
) -> tuple[int, int, bool, bool, bool, bool, bool, bool]:
    """Returns both limits, and the flags for what is and what has changed, in the order of the schema."""
    both = was.has_leader and will.has_leader
    moves = was.leader != will.leader
    return (
        min_isr,
        min_isr_after,
        not was.has_leader,
        not will.has_leader,
        not was.has_leader or len(was.isr) < min_isr,
        not will.has_leader or len(will.isr) < min_isr_after,
        moves and both,
        will.has_leader and led_uncleanly(was, will),
    )


def _loads(partitions: DataFrame, now: Present, lost: Sequence[NodeId]) -> DataFrame:
    """Counts what each broker has before and after; `replicas_to_move` are the replicas of a lost broker."""
    named = fn.concat("replicas", "isr", "isr_after", fn.array("leader", "leader_after"))
    spread = partitions.withColumn("broker_id", fn.explode(fn.array_distinct(named)))
    led, led_after = (fn.col(name) == fn.col("broker_id") for name in ("leader", "leader_after"))
    counts = {
        "leaders": led,
        "leaders_after": led_after,
        "leaders_gained": led_after & ~led,
        "leaders_lost": led & ~led_after,
        "isr_members": fn.array_contains("isr", fn.col("broker_id")),
        "isr_members_after": fn.array_contains("isr_after", fn.col("broker_id")),
        "replicas": fn.array_contains("replicas", fn.col("broker_id")),
    }
    held = spread.groupBy("cluster_id", "broker_id")
    counted = held.agg(*(fn.sum(flag.cast("int")).alias(name) for name, flag in counts.items()))
    known = now.brokers.select("cluster_id", "broker_id", "rack", "fenced")
    rows = known.join(counted, ["cluster_id", "broker_id"], "left").fillna(0, list(counts))
    rows = rows.withColumn("lost", fn.col("broker_id").isin(list(lost)))
    return rows.withColumn("replicas_to_move", fn.when(fn.col("lost"), fn.col("replicas")).otherwise(0))


def _summary(partitions: DataFrame, now: Present, lost: Sequence[NodeId]) -> DataFrame:
    """Counts the partitions by consequence, and those with more replicas than there are brokers left."""
    left = now.brokers.where(~fn.col("broker_id").isin(list(lost)) & ~fn.col("fenced")).groupBy("cluster_id")
    rows = partitions.join(now.at, "cluster_id")
    rows = rows.join(left.agg(fn.count("*").alias("brokers_left")), "cluster_id", "left").fillna(0, ["brokers_left"])
    hit = fn.arrays_overlap("replicas", fn.array(*(fn.lit(each) for each in lost)))
    counts = {
        "partitions": fn.lit(True),
        "offline": fn.col("offline"),
        "offline_after": fn.col("offline_after"),
        "under_min_isr": fn.col("under_min_isr"),
        "under_min_isr_after": fn.col("under_min_isr_after"),
        "leader_moves": fn.col("leader_moves"),
        "unclean_elections": fn.col("unclean_election"),
        "without_enough_brokers": hit & (fn.size("replicas") > fn.col("brokers_left")),
    }
    found = rows.groupBy("cluster_id", "as_of_offset", "as_of_time", "brokers_left")
    return found.agg(*(fn.sum(each.cast("int")).alias(name) for name, each in counts.items())).withColumn(
        "lost_brokers", fn.array(*(fn.lit(each) for each in lost))
    )
