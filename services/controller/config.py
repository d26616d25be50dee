"""What a controller has to be told. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quorate.runtime.config import setting
from quorate.runtime.kinds import Endpoint, Listener, endpoint, integer, list_of, listener, milliseconds, path, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one controller."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "The id of this node: that of the quorum node beside it.")
    listeners: Listener = setting("listeners", listener(), "Where admins, brokers and other controllers reach it.")
    quorum: Endpoint = setting("quorum.endpoint", endpoint(), "The quorum node beside it.")
    placers: tuple[Endpoint, ...] = setting(
        "placer.endpoints", list_of(endpoint()), "Placers; the first that answers is asked."
    )
    metadata_log_dir: Path = setting(
        "metadata.log.dir", path(), "The formatted directory, for its bootstrap.checkpoint and its meta.properties."
    )
    num_partitions: int = setting(
        "num.partitions", integer(1, 2**31 - 1), "Partitions of a topic that does not say how many.", default=1
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        integer(1, 32767),
        "Replicas of a topic that does not say how many.",
        default=1,
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas", integer(1, 2**31 - 1), "The default of the topic config of this name.", default=1
    )
    idle_interval_ms: int = setting(
        "metadata.max.idle.interval.ms",
        milliseconds(0),
        "How long the log may be silent before a NoOpRecord is written; 0 for never.",
        default=500,
    )
    bytes_between_snapshots: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        size(1),
        "A snapshot is made when so much of the log lies behind the last one.",
        default=20 << 20,
    )
    snapshot_interval_ms: int = setting(
        "metadata.log.max.snapshot.interval.ms",
        milliseconds(0, None),
        "A snapshot is made so long after the last one if the log has gone on; 0 for never.",
        default=3600 * 1000,
    )
