"""Two of three controllers are killed: what the third answers by itself, a gateway beside ours answers the same.

Kafka's ControllerApis asks nobody else for these. Requests that need a leader are refused on both sides with the same
errors.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from deploy.kafka.node import Node
from deploy.local.plan import RELEASE, make_plan
from deploy.local.ports import HOST, free_ports
from kraft import Message
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.api_versions import ApiVersionsRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.create_acls import CreateAclsRequest
from kraft.api.describe_acls import DescribeAclsRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.describe_configs import DescribeConfigsRequest
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType
from quorate.metadata.acls import ResourceType as AclResource
from quorate.metadata.configs import BROKER, TOPIC
from quorate.network.client import connect
from quorate.nouns import METADATA_TOPIC, EndpointType, NodeId
from quorate.protocol.apis import all_apis
from services.gateway.apis import SERVED
from tests.e2e.calls import eventually
from tests.e2e.cluster import Cluster
from tests.interop.forwarded import ROWS
from tests.interop.kafka.quorum import SECURITY
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.interop.operations.comparison import Json, codes, leaves, whole
from tests.interop.operations.names import id_named
from tests.interop.operations.script.access import acl, upsert
from tests.interop.operations.targets import Outcome

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(600),
]

CLUSTER_ID: Final = "bGVhZGVybGVzcyBvbmVzIQ"
VOTERS: Final = (1, 2, 3)
TRANSITIONS: Final = re.compile(r"Completed transition to (\w+)State")
RIGHTS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
NO_OPS: Final = 3
"""So many records later a follower knows that what was written before them is committed."""
NOT_ASKED: Final = {
    "SaslAuthenticate", "SaslHandshake",  # where there is no login
    "DescribeDelegationToken", "DescribeUserScramCredentials",  # a Kafka controller lists them, and does not serve them
    # Of voters: test_refusals_compared.
    "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "UpdateRaftVoter", "Vote",
}  # fmt: skip
LEFT_OUT: Final = {
    "ApiVersions": frozenset({"finalizedFeaturesEpoch", "supportedFeatures", "apiKeys"}),  # test_gateway_tools
    "DescribeCluster": frozenset({"controllerId", "host", "port"}),  # the last leader's
    "DescribeQuorum": frozenset({"leaderId", "leaderEpoch", "highWatermark", "nodes"}),  # 0 and none there, known here
}
"""Fields by which the two differ anyway."""
DIFFERENT: Final = {
    # By the raft client there. A broker that passes it on by Envelope seeks another controller for NOT_CONTROLLER.
    ".AddRaftVoter.errorCode": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER),
    ".RemoveRaftVoter.errorCode": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER),
    # Names are looked up first there, in a state that may be behind.
    ".DeleteTopics.responses[0].errorCode": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_CONTROLLER),
    # That the client has not logged in is seen first there, and by the leader here.
    ".CreateDelegationToken.errorCode": (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.NOT_CONTROLLER),
    ".RenewDelegationToken.errorCode": (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.NOT_CONTROLLER),
    ".RenewDelegationToken.expiryTimestampMs": (-1, 0),
    ".ExpireDelegationToken.errorCode": (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.NOT_CONTROLLER),
    ".ExpireDelegationToken.expiryTimestampMs": (-1, 0),
}
"""Where Kafka (first) and we differ, and why; the table of the gateway's README has these."""
_ASKED = DescribeQuorumRequest.TopicData
QUORUM: Final = DescribeQuorumRequest((_ASKED(METADATA_TOPIC, (_ASKED.PartitionData(0),)),))
Setting = IncrementalAlterConfigsRequest.AlterConfigsResource
WRITTEN: Final = (
    IncrementalAlterConfigsRequest((Setting(BROKER, "", (Setting.AlterableConfig("log.cleaner.threads", 0, "3"),)),)),
    CreateAclsRequest((acl(name="made"),)),
    AlterUserScramCredentialsRequest(upsertions=(upsert("somebody"),)),
)
"""What both have committed before."""
Altered = AlterPartitionRequest.TopicData
Resource = DescribeConfigsRequest.DescribeConfigsResource
MORE: Final[Mapping[str, Message]] = {
    "AllocateProducerIds": AllocateProducerIdsRequest(1, 1),
    "AlterPartition": AlterPartitionRequest(1, 1, (Altered(id_named("t"), (Altered.PartitionData(0),)),)),
    "ApiVersions": ApiVersionsRequest("test", "1"),
    "AssignReplicasToDirs": AssignReplicasToDirsRequest(1, 1),
    "BrokerHeartbeat": BrokerHeartbeatRequest(1, 1),
    "BrokerRegistration": BrokerRegistrationRequest(broker_id=9, cluster_id=CLUSTER_ID, incarnation_id=id_named("b")),
    "ControllerRegistration": ControllerRegistrationRequest(1, id_named("c")),
    "DescribeAcls": DescribeAclsRequest(
        AclResource.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermission.ANY
    ),
    "DescribeCluster": DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLERS),
    "DescribeConfigs": DescribeConfigsRequest((Resource(BROKER, "", None), Resource(TOPIC, "none", None))),
}
REQUESTS: Final = {**{name: row.request(b"none") for name, row in ROWS.items()}, **MORE}


class Side(NamedTuple):
    """Three controllers: where each is reached, what kills one, and whether one has seen that there is no leader."""

    ports: Mapping[NodeId, int]
    kill: Callable[[NodeId], Awaitable[object]]
    is_leaderless: Callable[[NodeId], Awaitable[bool]]


@asynccontextmanager
async def kafka(scratch: Path) -> AsyncIterator[Side]:
    ports = dict(zip(VOTERS, free_ports(len(VOTERS)), strict=True))
    voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in ports.items())
    with ExitStack() as stack:
        nodes = {}
        for node_id, port in ports.items():
            directory = scratch / f"kafka-{node_id}"
            own = {
                "process.roles": "controller",
                "node.id": node_id,
                "listeners": f"CONTROLLER://{HOST}:{port}",
                "controller.quorum.voters": voters,
                "log.dirs": directory / "data",
            }
            node = nodes[node_id] = stack.enter_context(Node(directory, SECURITY | RIGHTS | own, pom=OPERATIONS_POM))
            node.format(CLUSTER_ID, "--release-version", RELEASE)
            node.start()
        for node in nodes.values():
            await asyncio.to_thread(node.wait_ready)

        async def is_leaderless(node_id: NodeId) -> bool:
            *_, state = TRANSITIONS.findall(nodes[node_id].says.read_text())
            return state == "Prospective"

        yield Side(ports, lambda node_id: asyncio.to_thread(nodes[node_id].kill), is_leaderless)


@asynccontextmanager
async def ours(scratch: Path) -> AsyncIterator[Side]:
    plan = make_plan(scratch / "ours", cluster_id=CLUSTER_ID, with_gateways=True)
    for controller in plan.controllers:
        controller.settings.update(RIGHTS)
    cluster = Cluster(plan)
    try:
        await cluster.running.start()
        ports = {node_id: int(plan.gateways[node_id - 1].kafka_address.rpartition(":")[2]) for node_id in VOTERS}

        async def is_leaderless(node_id: NodeId) -> bool:
            """The heartbeat service, too: it has had no answer for 4 to 5 s that it counts."""
            is_led = (await quorum_at(ports[node_id])).error_code == ErrorCode.NONE
            return not is_led and await heartbeat_at(ports[node_id]) == ErrorCode.NOT_CONTROLLER

        yield Side(ports, lambda node_id: cluster.kill(cluster.quorum(node_id)), is_leaderless)
    finally:
        await cluster.stop()


SIDES: Final = {"kafka": kafka, "ours": ours}


async def quorum_at(port: int) -> DescribeQuorumResponse.TopicData.PartitionData:
    """The quorum as the node at this port describes it."""
    async with await connect(HOST, port) as client:
        told = await client.ask_for(DescribeQuorumResponse, QUORUM)
    return told.topics[0].partitions[0]


async def heartbeat_at(port: int) -> int:
    """The answer at this port to the heartbeat of a broker that is not registered."""
    async with await connect(HOST, port) as client:
        return (await client.ask_for(BrokerHeartbeatResponse, BrokerHeartbeatRequest(1, 1))).error_code


async def led(side: Side) -> tuple[NodeId, DescribeQuorumResponse.TopicData.PartitionData] | None:
    """Who leads, and what it says of the quorum."""
    for node_id in VOTERS:
        told = await quorum_at(side.ports[node_id])
        if told.error_code == ErrorCode.NONE:
            return told.leader_id, told
    return None


async def taken(side: Side, request: Message) -> NodeId | None:
    """Who has done what is asked; None while the quorum's leader is not the active controller yet."""
    if (found := await led(side)) is None:
        return None
    async with await connect(HOST, side.ports[found[0]]) as client:
        refused = codes(Outcome(response=await client.ask(request)))
    assert refused <= {ErrorCode.NOT_CONTROLLER}, request
    return None if refused else found[0]


async def write(side: Side) -> NodeId:
    """All of WRITTEN, known to be committed at each node; the answer is who leads."""
    for request in WRITTEN:
        leader_id = await eventually(partial(taken, side, request))
    written = (await quorum_at(side.ports[leader_id])).high_watermark + NO_OPS

    async def known() -> bool:
        voters = (await quorum_at(side.ports[leader_id])).current_voters
        return all(each.log_end_offset >= written for each in voters)

    await eventually(known)
    return leader_id


async def told_alone(side: Side, leader_id: NodeId) -> dict[str, Json]:
    """What the last of three answers, a follower, once it knows that there is no leader."""
    survivor, other = (node_id for node_id in VOTERS if node_id != leader_id)
    for node_id in (other, leader_id):
        await side.kill(node_id)
    await eventually(lambda: side.is_leaderless(survivor))

    async def asked(name: str, request: Message) -> tuple[str, Json]:
        async with await connect(HOST, side.ports[survivor]) as client:
            try:
                outcome = Outcome(response=await client.ask(request))
            except ApiError as none:
                outcome = Outcome(refusal=none.code)
        return name, whole(outcome, (), LEFT_OUT.get(name, frozenset()))

    return dict(await asyncio.gather(*(asked(name, request) for name, request in REQUESTS.items())))


def test_each_api_of_a_controller_is_asked() -> None:
    assert {all_apis()[key].name for key in SERVED} - NOT_ASKED == REQUESTS.keys() | {"Envelope"}


async def test_who_is_left_of_three_answers_what_a_kafka_controller_answers(tmp_path: Path) -> None:
    told = {}
    for name, side in SIDES.items():
        async with side(tmp_path) as running:
            told[name] = await told_alone(running, await write(running))

    assert DIFFERENT == leaves(told["kafka"], told["ours"])
