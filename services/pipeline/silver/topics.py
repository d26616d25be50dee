"""Topic and config histories. The removal of a topic also ends its partitions and its configs."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.configs import TOPIC
from quorate.records import ConfigRecord, RemoveTopicRecord, TopicRecord
from services.pipeline.frames import parsed
from services.pipeline.silver.validity import SPAN, by_key, ended

__all__ = ["config_history", "topic_history"]

_CONFIG: Final = ("resource_type", "resource_name", "name")
_AT: Final = ("cluster_id", "offset", "timestamp", "type", "trace_id")


def topic_history(events: DataFrame) -> DataFrame:
    """Builds one row for each topic, from its TopicRecord to its RemoveTopicRecord."""
    rows = parsed(events, TopicRecord, RemoveTopicRecord)
    rows = rows.select(*_AT, fn.col("r.topicId").alias("topic_id"), fn.col("r.name").alias("name"))
    spans = ended(rows, by_key(["topic_id"]), fn.col("type") == "REMOVE_TOPIC_RECORD")
    return spans.select("cluster_id", "topic_id", "name", *SPAN)


def config_history(events: DataFrame, topics: DataFrame) -> DataFrame:
    """Builds one row for each value of each config. A null value ends it, and so does the removal of its topic."""
    rows = parsed(events, ConfigRecord).select(
        *_AT,
        fn.col("r.resourceType").alias("resource_type"),
        fn.col("r.resourceName").alias("resource_name"),
        fn.col("r.name").alias("name"),
        fn.col("r.value").alias("value"),
    )
    gone = topics.where("valid_to_offset is not null").alias("topic")
    named = rows.where(fn.col("resource_type") == TOPIC).groupBy("cluster_id", *_CONFIG)
    born = named.agg(fn.min("offset").alias("born")).alias("config")
    of_topic = fn.expr("topic.cluster_id = config.cluster_id and topic.name = config.resource_name")
    ends = born.join(gone, of_topic & fn.expr("config.born < topic.valid_to_offset")).select(
        fn.col("config.cluster_id").alias("cluster_id"),
        fn.col("valid_to_offset").alias("offset"),
        fn.col("valid_to_time").alias("timestamp"),
        fn.lit("REMOVE_TOPIC_RECORD").alias("type"),
        fn.col("end_trace_id").alias("trace_id"),
        *(fn.col(f"config.{name}").alias(name) for name in _CONFIG),
        fn.lit(None).cast("string").alias("value"),
    )
    spans = ended(rows.unionByName(ends), by_key(_CONFIG), fn.col("value").isNull())
    return spans.select("cluster_id", *_CONFIG, "value", *SPAN)
