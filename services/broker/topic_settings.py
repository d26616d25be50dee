"""The settings of a topic's logs by its configs: effective values of the metadata log, by Kafka's names and
defaults."""

from __future__ import annotations

from typing import Final

from quorate.controller.configs.topic import CONFIGS, MIN_INSYNC_REPLICAS, effective
from quorate.controller.configs.values import items, whole
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.partition_log.produced import Limits, TimestampType
from quorate.partition_log.settings import LogSettings

__all__ = ["log_settings", "min_insync_replicas"]

NO_STATIC: Final = dict[str, str]()
"""The broker's own file has no topic defaults yet."""


def log_settings(state: ClusterState, topic: str) -> LogSettings:
    """Returns the settings of a topic's logs."""
    return LogSettings(
        limits=Limits(
            max_message_bytes=_whole(state, topic, "max.message.bytes"),
            segment_bytes=_whole(state, topic, "segment.bytes"),
            timestamp_type=TimestampType(_value(state, topic, "message.timestamp.type")),
            timestamp_before_max_ms=_whole(state, topic, "message.timestamp.before.max.ms"),
            timestamp_after_max_ms=_whole(state, topic, "message.timestamp.after.max.ms"),
        ),
        segment_ms=_whole(state, topic, "segment.ms"),
        retention_ms=_whole(state, topic, "retention.ms"),
        retention_bytes=_whole(state, topic, "retention.bytes"),
        index_interval_bytes=_whole(state, topic, "index.interval.bytes"),
        flush_messages=_whole(state, topic, "flush.messages"),
        deletes="delete" in items(_value(state, topic, "cleanup.policy")),
    )


def min_insync_replicas(state: ClusterState, topic: str) -> int:
    """Returns the topic's `min.insync.replicas`; it may exceed the number of replicas."""
    return _whole(state, topic, MIN_INSYNC_REPLICAS)


def _whole(state: ClusterState, topic: str, config: str) -> int:
    return whole(_value(state, topic, config))


def _value(state: ClusterState, topic: str, config: str) -> str:
    of_topic = state.configs.of(TOPIC, topic)
    return effective(CONFIGS[config], topic=of_topic, configs=state.configs, static=NO_STATIC).value
