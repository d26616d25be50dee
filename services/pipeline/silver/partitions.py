"""Partition histories: Spark brings the records of each partition together, Python workers make states of them.

JSON payloads are shuffled as they are, and parsed by the workers: rows of lists cost the JVM many times more to hand
over than text does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.silver.partition_arrays import SCHEMA, histories
from services.pipeline.silver.stated import CLEAR, KEY, OF_PARTITIONS, OF_TOPICS, ROWS
from services.pipeline.tables import Computed

__all__ = ["KEY", "partition_history"]

TASK_ROWS: Final = 1 << 18
"""About how many records a task holds in memory; its worker then takes some 400 MB."""
PARTS: Final = 16
"""Into how many tasks, at most, the partitions of one topic go; each gets the topic's own records."""


def partition_history(events: DataFrame, rest: DataFrame, *, task_rows: int = TASK_ROWS) -> Computed:
    """Returns a row for each state of each partition, with its topic's name, in the columns of SCHEMA.

    `rest` has at least those of the events that are not about single partitions. `was_…` columns hold previous values
    of changed fields; `is_first` marks a state without a previous one. A task gets about `task_rows` records, which are
    counted now, by a Spark job; the rows are computed when they are needed.
    """
    own = events.where(fn.col("type").isin(*OF_PARTITIONS))
    tasks = max(1, -(-own.count() // task_rows))
    part = fn.pmod(fn.regexp_extract("payload", '"partitionId":(-?[0-9]+)', 1).cast("int"), fn.lit(PARTS))
    topics = rest.where(fn.col("type").isin(*OF_TOPICS) & (fn.col("type") != CLEAR))
    clears = rest.where(fn.col("type") == CLEAR)
    tasks_of_topic = fn.array_distinct(fn.array(*(_task(fn.lit(each), tasks) for each in range(PARTS))))
    rows = [
        own.withColumn("task", _task(part, tasks)),
        topics.withColumn("task", fn.explode(tasks_of_topic)),
        clears.withColumn("task", fn.explode(fn.sequence(fn.lit(0), fn.lit(tasks - 1)))),
    ]
    every = reduce(DataFrame.unionByName, (each.select(*ROWS, "task") for each in rows))
    return Computed(every.repartitionById(tasks, "task").drop("task"), _histories, SCHEMA)


def _histories(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    rows = list(batches)
    if rows:
        yield histories(pa.Table.from_batches(rows))


def _task(part: Column, tasks: int) -> Column:
    """Returns the task that gets these records; a quote within JSON text is escaped, so the pattern finds the field."""
    topic_id = fn.regexp_extract("payload", '"topicId":"([^"]*)"', 1)
    return fn.pmod(fn.xxhash64("cluster_id", topic_id, part), fn.lit(tasks)).cast("int")
