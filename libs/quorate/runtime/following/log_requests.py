"""The requests of a reader of the metadata log: Fetch and FetchSnapshot of its one partition (KIP-595, KIP-630)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.api import fetch_pb2, fetch_snapshot_pb2
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID, Epoch, NodeId, Offset, uuid_text

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""The size (bytes) of records, or of a chunk of a snapshot, that an answer may have; one batch may be larger."""

_TOPIC_ID: Final = uuid_text(METADATA_TOPIC_ID)


@dataclass(slots=True, kw_only=True)
class LogPosition:
    """A reader's identity and its position in the metadata log, as its Fetch and FetchSnapshot requests state them."""

    replica_id: NodeId
    directory_id: str
    """It tells readers of one node id, or of none, from each other, so that a node can park a fetch of each."""
    cluster_id: str | None
    epoch: Epoch = 0
    """The highest leader epoch that a node has reported."""
    fetched: Offset = 0
    """The offset after the last batch that was fetched, committed or not."""
    fetched_epoch: Epoch = 0
    """The epoch of that batch."""
    high_watermark: Offset = 0
    """The highest high watermark that a node has reported (KIP-1166)."""

    def fetch(self, *, wait_ms: int, bytes_max: int = FETCH_BYTES_MAX) -> fetch_pb2.FetchRequest:
        """Returns the Fetch request for what follows `fetched`; a server without news may hold it for `wait_ms`."""
        topic = fetch_pb2.FetchRequest.FetchTopic
        partition = topic.FetchPartition(
            partition=METADATA_PARTITION,
            current_leader_epoch=self.epoch,
            fetch_offset=self.fetched,
            last_fetched_epoch=self.fetched_epoch,
            high_watermark=self.high_watermark,
            replica_directory_id=self.directory_id,
        )
        return fetch_pb2.FetchRequest(
            cluster_id=self.cluster_id,
            replica_state=fetch_pb2.FetchRequest.ReplicaState(replica_id=self.replica_id),
            max_wait_ms=wait_ms,
            max_bytes=bytes_max,
            session_epoch=-1,
            topics=[topic(topic_id=_TOPIC_ID, partitions=[partition])],
        )

    def fetch_snapshot(
        self, wanted: fetch_pb2.FetchResponse.FetchableTopicResponse.PartitionData.SnapshotId, position: int
    ) -> fetch_snapshot_pb2.FetchSnapshotRequest:
        """Returns the FetchSnapshot for the chunk at `position` (bytes) of the snapshot `wanted`."""
        topic = fetch_snapshot_pb2.FetchSnapshotRequest.TopicSnapshot
        partition = topic.PartitionSnapshot(
            partition=METADATA_PARTITION,
            current_leader_epoch=self.epoch,
            snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=position,
        )
        return fetch_snapshot_pb2.FetchSnapshotRequest(
            cluster_id=self.cluster_id,
            replica_id=self.replica_id,
            max_bytes=FETCH_BYTES_MAX,
            topics=[topic(name=METADATA_TOPIC, partitions=[partition])],
        )
