"""The past for the doctor's core, made from the histories, as rows that stand beside a cluster's state (`clusters`).

A row of kind SINCE says since when a condition, `type`, of a subject, `value`, has held. The others have a JSON object,
of a history that `pasts` follows, in the order of `at_offset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.gold.skew import crowded
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.present import UNCLEAN, Present

__all__ = [
    "AT",
    "BROKER_STATE",
    "ELECTED",
    "PARTITION_PAST",
    "PLACED",
    "SCHEMA",
    "SINCE",
    "UNCLEAN_CONFIG",
    "VOTER_SET",
    "histories_told",
]

AT: Final = "at"
"""The end of the state."""
SINCE: Final = "since"
PARTITION_PAST: Final = "partition past"
BROKER_STATE: Final = "broker state"
VOTER_SET: Final = "voter set"
UNCLEAN_CONFIG: Final = "unclean config"
PLACED: Final = "placed"
"""The replicas of a partition that is on too few racks now."""
ELECTED: Final = "elected"
"""The last LeaderChange, with the voters of that election."""
SCHEMA: Final = pa.schema(
    {
        **dict.fromkeys(("cluster_id", "kind", "type", "value"), pa.string()),
        **dict.fromkeys(("at_offset", "at_ms"), pa.int64()),
    }
)


def histories_told(now: Present, history: Mapping[str, DataFrame]) -> Iterator[DataFrame]:
    """Yields rows of the past for `rows_of_clusters`: of brokers, voter sets, configs and racks.

    One row of each cluster has the last LeaderChange, with the voters of that election.
    """
    ends = ("valid_to_offset", "valid_to_ms", "end_type")
    of_broker = ("broker_id", "fenced", "in_controlled_shutdown", "rack", "log_dirs", "cordoned_log_dirs", *ends)
    yield _documents(history["broker_history"], BROKER_STATE, *of_broker)
    kept = history["kept_history"].where("kind = 'voters'")
    yield _told(kept, VOTER_SET, fn.col("payload"))
    configs = history["config_history"].where(fn.col("name") == UNCLEAN)
    yield _documents(configs, UNCLEAN_CONFIG, "resource_type", "resource_name", "value", *ends)
    partitions = history["partition_history"].where("is_first or was_replicas is not null")
    key = ["cluster_id", *KEY]
    yield _documents(partitions.join(crowded(now).select(*key), key, "left_semi"), PLACED, "topic", *KEY, "replicas")
    elected = history["events"].where("type = 'LEADER_CHANGE'").groupBy("cluster_id")
    last = elected.agg(fn.max_by("payload", "offset").alias("value"))
    yield last.select("cluster_id", fn.lit(ELECTED).alias("kind"), "value")


def _documents(rows: DataFrame, kind: str, *columns: str) -> DataFrame:
    """Tells rows of a history as JSON objects; times are in ms since 1970, and fields that are null are left out."""
    made = rows.withColumn("valid_to_ms", fn.unix_millis("valid_to_time")) if "valid_to_ms" in columns else rows
    return _told(made, kind, fn.to_json(fn.struct(*columns)))


def _told(rows: DataFrame, kind: str, value: Column) -> DataFrame:
    return rows.select(
        "cluster_id",
        fn.lit(kind).alias("kind"),
        value.alias("value"),
        fn.col("valid_from_offset").alias("at_offset"),
        fn.unix_millis("valid_from_time").alias("at_ms"),
    )
