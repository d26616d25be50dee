"""DescribeQuorum (55) and FindQuorum: the leader, the voters and their target, and how far each replica is."""

from __future__ import annotations

from typing import Any, Final

from kraft.api.describe_quorum_pb2 import DescribeQuorumResponse
from kraft.service.quorum_pb2 import FindQuorumResponse
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, NodeId, uuid_text
from quorate.raft.progress import ReplicaState
from quorate.raft.roles import Leader, Role
from quorate.raft.voters import ListenerEndpoint as Listener
from quorate.raft.voters import VoterSet
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints

UNKNOWN: Final = -1


def describe_quorum(driver: QuorumDriver, endpoints: NodeEndpoints) -> DescribeQuorumResponse:
    """Builds the DescribeQuorum v2 response; times in ms since 1970, -1 for what is not known.

    A node that is not the leader answers NOT_LEADER_OR_FOLLOWER, and names the leader that it knows.
    """
    quorum = driver.core.describe(driver.now_ms)
    leads = isinstance(driver.core.role, Leader)
    to_wall_ms = driver.wall_ms - driver.now_ms
    topic = DescribeQuorumResponse.TopicData
    partition = topic.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER,  # type: ignore[arg-type]
        error_message=None if leads else f"node {driver.core.node.id} does not lead in epoch {quorum.epoch}",
        leader_id=UNKNOWN if quorum.leader_id is None else quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=UNKNOWN if quorum.high_watermark is None else quorum.high_watermark,
        current_voters=[_replica(state, to_wall_ms) for state in quorum.voters],
        observers=[_replica(state, to_wall_ms) for state in quorum.observers],
    )
    node = DescribeQuorumResponse.Node
    return DescribeQuorumResponse(
        error_message=None if leads else "",  # as Kafka, whose refusal leaves the field at its default
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[
            node(
                node_id=node_id,
                listeners=[
                    node.Listener(name=listener.name, host=listener.host, port=listener.port)
                    for listener in _listeners(driver, node_id) or endpoints.configured_listener(node_id)
                ],
            )
            for node_id in endpoints.ids
        ],
    )


def _listeners(driver: QuorumDriver, node_id: NodeId) -> tuple[Listener, ...]:
    """Returns a voter's listeners from the voters record; empty for static voters, which have one address."""
    voter = driver.core.log.voters.latest.by_id(node_id)
    return () if voter is None else voter.endpoints


def _replica(state: ReplicaState, to_wall_ms: int) -> Any:
    def wall(moment_ms: int | None) -> int:
        return UNKNOWN if moment_ms is None else moment_ms + to_wall_ms

    return DescribeQuorumResponse.ReplicaState(
        replica_id=state.key.id,
        replica_directory_id=uuid_text(state.key.directory_id),
        log_end_offset=UNKNOWN if state.leo is None else state.leo,
        last_fetch_timestamp=wall(state.last_fetch_at_ms),
        last_caught_up_timestamp=wall(state.last_caught_up_at_ms),
    )


def announced_voters(voters: VoterSet | None, endpoints: NodeEndpoints) -> list[FindQuorumResponse.Voter]:
    """Returns each voter with the address where it is reached: by `endpoints`, or else by the voter set; [] for None.

    A voter without a known address has no host. A listener's name says that Kafka's wire is spoken there.
    """
    described = []
    for voter in () if voters is None else voters.voters:
        one = FindQuorumResponse.Voter(id=voter.key.id, directory_id=uuid_text(voter.key.directory_id))
        reached = endpoints.peer(voter.key.id) or endpoints.reached(voter.endpoints)
        if reached is not None:
            one.host, one.port = reached.address.host, reached.address.port
            one.listener = endpoints.listener(reached)
        described.append(one)
    return described


def failed_step(role: Role, voters: VoterSet) -> FindQuorumResponse.FailedStep | None:
    """Describes the step of AlterQuorum that this leader could not take when it last tried, with the error.

    None if the last try has not failed, there is no target, or this node does not lead.
    """
    if not isinstance(role, Leader) or voters.target is None or not role.walk.failures:
        return None
    step = FindQuorumResponse.FailedStep(
        error_code=role.walk.error,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
        error_message=role.walk.message,
        failures=role.walk.failures,
    )
    if role.walk.step is not None:
        key = role.walk.step.key
        step.voter_id, step.directory_id = key.id, uuid_text(key.directory_id)
    return step
