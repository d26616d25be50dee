"""The story of each cluster: its main events in order, and the offline and under-replicated partitions after each.

It has registrations, restarts, fencings (with the reason) and shutdowns of brokers and controllers, log directories
that went offline or were cordoned, changes of the voters and of min.insync.replicas, active controllers, periods
without one, and at each moment how many partitions of which topics lost or regained a leader, came under
min.insync.replicas or out of it, were given a leader that may lack records, lost members of their ELR, or began or
ended to be reassigned (`story_partitions`, `story_nodes`).

The order is that of the offsets, and of `place` among the events of one offset. Times go back where an active
controller's clock is behind the one before (`clocks`). Each row has the counts of `conditions` after its moment: the
same that the report's plot shows for that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.gold.availability import ends_of, partition_spans
from services.pipeline.gold.clocks import back_count, with_set_backs
from services.pipeline.gold.conditions import CONDITIONS
from services.pipeline.gold.story_nodes import (
    active_controllers,
    broker_events,
    controller_events,
    directory_events,
    silence_events,
    voter_events,
)
from services.pipeline.gold.story_partitions import changes_of_counts, min_isr_events, partition_events, turned
from services.pipeline.memory import shortened, united

__all__ = ["COLUMNS", "COUNTS", "story"]

COUNTS: Final = {"offline": "offline", "under_min_isr": "under_min_isr", "short": "under_replicated"}
"""The table's column for each of `conditions.CONDITIONS`: how many partitions are so after the event's moment."""
assert tuple(COUNTS) == CONDITIONS, (COUNTS, CONDITIONS)
COLUMNS: Final = ("cluster_id", "offset", "place", "time", "look", "sentence", *COUNTS.values())
"""The table's columns; `place` orders the events of one offset, causes first; `look` is `bad`, `good` or `plain`."""
_LAST: Final = 100
"""The place of what begins behind all events of its offset."""


def story(silver: Mapping[str, DataFrame], *, spans: DataFrame | None = None) -> DataFrame:
    """Computes the main events of each cluster, one row each, with columns COLUMNS.

    The records of the base checkpoint are not events. `spans` are those of partitions, if the caller has them already;
    those where no condition begins or ends may be missing.
    """
    events = silver["events"]
    if spans is None:
        spans = partition_spans(silver["partition_history"], silver["config_history"], ends_of(events))
    spans = shortened(with_set_backs(spans, events))
    turns = shortened(turned(spans))
    rows = [
        active_controllers(events),
        voter_events(silver["kept_history"]),
        controller_events(silver["kept_history"]),
        broker_events(silver["broker_history"], silver["partition_history"]),
        directory_events(silver["broker_history"]),
        min_isr_events(silver["config_history"], silver["topic_history"], turns),
    ]
    placed_rows = [each.withColumn("place", fn.lit(place)) for place, each in enumerate(rows)]
    of_partitions = partition_events(turns).withColumn("place", fn.col("place") + len(rows))
    # A silence begins behind the last record before it.
    silence = silence_events(events).withColumn("place", fn.lit(_LAST))
    bases = events.where("is_base").select("cluster_id", "offset").distinct()
    every = united([*placed_rows, of_partitions, silence])
    told = every.join(fn.broadcast(bases), ["cluster_id", "offset"], "left_anti")
    placed = with_set_backs(shortened(told), events).withColumn("back_count", back_count("offset"))
    return _with_counts(placed, shortened(changes_of_counts(spans))).select(*COLUMNS)


def _with_counts(told: DataFrame, changes: DataFrame) -> DataFrame:
    """Adds to each event the sums of the changes until its moment; changes of the same moment are included."""
    of_moment = Window.partitionBy("cluster_id", "back_count", "time")
    until = Window.partitionBy("cluster_id").orderBy("at")
    both = told.withColumn("is_event", fn.lit(True)).unionByName(changes, allowMissingColumns=True)
    both = both.withColumn("at", fn.min("offset").over(of_moment))
    sums = [fn.coalesce(fn.sum(name).over(until), fn.lit(0)).alias(column) for name, column in COUNTS.items()]
    return both.select(*told.columns, "is_event", *sums).where("is_event")
