"""DescribeQuorum (55): who leads, and how far each replica is."""

from __future__ import annotations

from typing import Any, Final

from kraft.api.describe_quorum_pb2 import DescribeQuorumResponse
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, uuid_text
from quorate.raft.progress import ReplicaState
from quorate.raft.roles import Leader
from services.quorum.driver import Driver
from services.quorum.translate import Endpoints

UNKNOWN: Final = -1
LISTENER: Final = "CONTROLLER"


def describe_quorum(driver: Driver, endpoints: Endpoints) -> DescribeQuorumResponse:
    """DescribeQuorum v2 as the leader answers it; NOT_LEADER_OR_FOLLOWER with the known leader from others."""
    quorum = driver.core.describe(driver.now_ms)
    leads = isinstance(driver.core.role, Leader)
    to_wall_ms = driver.wall_ms - driver.now_ms
    topic = DescribeQuorumResponse.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER,  # type: ignore[arg-type]
        leader_id=UNKNOWN if quorum.leader_id is None else quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=UNKNOWN if quorum.high_watermark is None else quorum.high_watermark,
        current_voters=[_replica(state, to_wall_ms) for state in quorum.voters],
        observers=[_replica(state, to_wall_ms) for state in quorum.observers],
    )
    node = DescribeQuorumResponse.Node
    return DescribeQuorumResponse(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[
            node(node_id=node_id, listeners=[node.Listener(name=LISTENER, host=address.host, port=address.port)])
            for node_id, address in sorted(endpoints.items())
        ],
    )


def _replica(state: ReplicaState, to_wall_ms: int) -> Any:
    def wall(moment_ms: int | None) -> int:
        return UNKNOWN if moment_ms is None else moment_ms + to_wall_ms

    return DescribeQuorumResponse.ReplicaState(
        replica_id=state.key.id,
        replica_directory_id=uuid_text(state.key.directory_id),
        log_end_offset=UNKNOWN if state.leo is None else state.leo,
        last_fetch_timestamp=wall(state.last_fetch_ms),
        last_caught_up_timestamp=wall(state.last_caught_up_ms),
    )
