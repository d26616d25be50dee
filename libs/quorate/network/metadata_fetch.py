"""Fetch and FetchSnapshot of the metadata log as an observer sends them; of one with id -1 no leader keeps anything."""

from __future__ import annotations

from typing import Final

from kraft.api.fetch import FetchRequest
from kraft.api.fetch_snapshot import FetchSnapshotRequest
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Connection
from quorate.nouns import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NOBODY,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
)

__all__ = ["FETCH_BYTES_MAX", "UNNAMED", "check_version", "fetch_request", "fetch_snapshot_request"]

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
NO_NEWS: Final = (1 << 63) - 1
"""A high watermark that no leader's is above: the field's default."""
UNNAMED: Final = ReplicaKey(NOBODY)
"""An observer of whom no leader keeps anything."""
_BY_TOPIC_ID: Final = 13
"""The version of Fetch since which topics have ids in it. KIP-516."""
_BY_REPLICA_STATE: Final = 15
"""The version since which it says in a structure of its own who fetches. KIP-903."""


def check_version(connection: Connection, replica: ReplicaKey = UNNAMED) -> None:
    """Raises ApiError(UNSUPPORTED_VERSION) if the node is too old to be asked for the metadata log by this replica."""
    version = connection.version_of(FetchRequest)
    least, what_for = (_BY_TOPIC_ID, "topic ids") if replica == UNNAMED else (_BY_REPLICA_STATE, "an observer's id")
    if version < least:
        what = f"the node supports Fetch up to version {version}; version {least} is needed, for {what_for}"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, what)


def fetch_request(
    cluster_id: str | None,
    *,
    leader_epoch: Epoch,
    offset: Offset,
    last_epoch: Epoch,
    high_watermark: Offset = NO_NEWS,
    max_wait_ms: int = 0,
    max_bytes: int = FETCH_BYTES_MAX,
    replica: ReplicaKey = UNNAMED,
) -> FetchRequest:
    """Returns a Fetch of the metadata log from `offset` on, with `last_epoch`, the epoch of the record before it.

    By that epoch the leader finds a divergence. It holds the Fetch for `max_wait_ms` while it has no news. A high
    watermark above `high_watermark` is news, too. KIP-595, KIP-1166.
    """
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=replica.directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=FetchRequest.ReplicaState(replica.id),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=(topic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def fetch_snapshot_request(
    cluster_id: str | None,
    wanted: OffsetAndEpoch,
    *,
    leader_epoch: Epoch,
    position: int,
    replica: ReplicaKey = UNNAMED,
) -> FetchSnapshotRequest:
    """Returns a FetchSnapshot for `FETCH_BYTES_MAX` bytes at most, from byte `position` of the checkpoint. KIP-630."""
    topic = FetchSnapshotRequest.TopicSnapshot
    partition = topic.PartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=wanted.offset, epoch=wanted.epoch),
        position=position,
        replica_directory_id=replica.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=replica.id,
        max_bytes=FETCH_BYTES_MAX,
        topics=(topic(name=METADATA_TOPIC, partitions=(partition,)),),
    )
