"""What the histories tell the doctor's core of the past, as rows that stand beside a cluster's state (`examined`).

The columns are `kind`, `type`, `value`, `at_offset` and `at_ms` beside `cluster_id`. A row of kind SINCE says since
when a condition, `type`, of a subject, `value`, has held; the others have a JSON object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.doctor import Condition

__all__ = ["AT", "BROKER_PAST", "ELECTED", "PARTITION_PAST", "SINCE", "documents", "moments", "since_row"]

AT: Final = "at"
"""The end of the state."""
SINCE: Final = "since"
PARTITION_PAST: Final = "partition past"
BROKER_PAST: Final = "broker past"
ELECTED: Final = "elected"
"""The last LeaderChange, with the voters of that election."""


def moments(rows: DataFrame, subject: Column, since: Mapping[Condition, str]) -> DataFrame:
    """Tells since when conditions of the rows' subjects have held: columns of structs of `offset` and `time`."""
    found = (
        fn.when(fn.col(f"{name}.offset").isNotNull(), _moment(condition, fn.col(f"{name}.offset"), f"{name}.time"))
        for condition, name in since.items()
    )
    told = fn.inline(fn.array_compact(fn.array(*found)))
    return rows.select("cluster_id", fn.lit(SINCE).alias("kind"), subject.alias("value"), told)


def since_row(rows: DataFrame, subject: Column, condition: Condition = Condition.THERE) -> DataFrame:
    """Tells since when a condition of the rows' subjects has held, by `since_offset` and `since_time`."""
    told = _moment(condition, fn.col("since_offset"), "since_time")
    rows = rows.where("since_offset is not null").select("cluster_id", subject.alias("value"), told.alias("told"))
    return rows.select("cluster_id", fn.lit(SINCE).alias("kind"), "value", "told.*")


def documents(rows: DataFrame, kind: str, value: Column) -> DataFrame:
    """Tells JSON objects of one kind; fields that are null are left out."""
    return rows.select("cluster_id", fn.lit(kind).alias("kind"), value.alias("value"))


def _moment(condition: Condition, offset: Column, time: str) -> Column:
    return fn.struct(
        fn.lit(condition.value).alias("type"), offset.alias("at_offset"), fn.unix_millis(time).alias("at_ms")
    )
