"""The story of each cluster: its main events in order, without those of single partitions, and how it then stood.

It has registrations, restarts, fencings and shutdowns of brokers and controllers, log directories that went offline or
were cordoned, changes of the voters and of min.insync.replicas, active controllers, periods without one, and at each
moment how many partitions of which topics lost or regained a leader, came under min.insync.replicas or out of it, or
were given a leader that may lack records (`story_partitions`, `story_nodes`).

The order is that of the offsets: times go back where an active controller's clock is behind the one before (`clocks`).
Each row has the counts of `conditions` after its moment: the same that the report's plot shows for that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.gold.availability import ends_of, partition_spans
from services.pipeline.gold.clocks import back_count, with_set_backs
from services.pipeline.gold.doctor_rules import DoctorLimits
from services.pipeline.gold.story_nodes import (
    active_controllers,
    broker_events,
    controller_events,
    silence_events,
    voter_events,
)
from services.pipeline.gold.story_partitions import changes_of_counts, min_isr_events, partition_events, turned

__all__ = ["COLUMNS", "COUNTS", "story"]

COUNTS: Final = {"offline": "offline", "under_min_isr": "under_min_isr", "short": "under_replicated"}
"""The table's column for each of `conditions.CONDITIONS`: how many partitions are so after the event's moment."""
COLUMNS: Final = ("cluster_id", "offset", "time", "look", "sentence", *COUNTS.values())
"""The table's columns; `look` is `bad`, `good` or `plain`."""


def story(
    silver: Mapping[str, DataFrame], *, limits: DoctorLimits | None = None, spans: DataFrame | None = None
) -> DataFrame:
    """Computes the main events of each cluster, one row each, with columns COLUMNS.

    The records of the base checkpoint are not events. `spans` are those of partitions, if the caller has them already;
    those where no condition begins or ends may be missing.
    """
    limits, events = limits or DoctorLimits(), silver["events"]
    if spans is None:
        spans = partition_spans(
            silver["partition_history"], silver["config_history"], ends_of(events), min_isr=limits.min_isr
        )
    spans = with_set_backs(spans, events)
    turns = turned(spans)
    rows = [
        partition_events(turns),
        min_isr_events(silver["config_history"], silver["topic_history"], turns),
        broker_events(silver["broker_history"]),
        controller_events(silver["kept_history"]),
        voter_events(silver["kept_history"]),
        active_controllers(events),
        silence_events(events, limits),
    ]
    bases = events.where("is_base").select("cluster_id", "offset").distinct()
    every = reduce(DataFrame.unionByName, rows)
    told = every.join(fn.broadcast(bases), ["cluster_id", "offset"], "left_anti")
    placed = with_set_backs(told, events).withColumn("back_count", back_count("offset"))
    return _with_counts(placed, changes_of_counts(spans)).select(*COLUMNS)


def _with_counts(told: DataFrame, changes: DataFrame) -> DataFrame:
    """Adds to each event the sums of the changes until its moment; changes of the same moment are included."""
    of_moment = Window.partitionBy("cluster_id", "back_count", "time")
    until = Window.partitionBy("cluster_id").orderBy("at")
    both = told.withColumn("is_event", fn.lit(True)).unionByName(changes, allowMissingColumns=True)
    both = both.withColumn("at", fn.min("offset").over(of_moment))
    sums = [fn.coalesce(fn.sum(name).over(until), fn.lit(0)).alias(column) for name, column in COUNTS.items()]
    return both.select(*told.columns, "is_event", *sums).where("is_event")
