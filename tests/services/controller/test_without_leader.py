"""A controller that knows no leader: it answers by itself what each Kafka controller answers, and refuses the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import pytest

from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_acls_pb2 import DescribeAclsRequest
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest, DescribeConfigsResponse
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.service.admin_pb2 import AdminRequest
from kraft.service.controller_pb2 import (
    AuthorizeRequest,
    AuthorizeResponse,
    ChangeBrokerStateRequest,
    ClaimSessionsRequest,
)
from quorate.authorizer import StandardAuthorizer
from quorate.controller.engine.engine import Engine
from quorate.errors import ErrorCode
from quorate.liveness import CONTROL_STATE_NUMBERS, ControlState
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, METADATA_VERSION
from quorate.nouns import ANONYMOUS, METADATA_TOPIC, NOBODY, EndpointType, Principal
from quorate.records import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterControllerRecord,
)
from quorate.runtime.requests.statuses import error_from_call
from services.controller.handlers import APIS
from tests.controller.clusters import CLUSTER_ID, Cluster
from tests.services.controllers import NOWHERE, InProcess, controller
from tests.services.scripted import quorum_at_work

ENDPOINT: Final = RegisterControllerRecord.ControllerEndpoint("CONTROLLER", "127.0.0.1", 1)
NONE: Final = ErrorCode.NONE
LEFT_S: Final = 2
"""How long each caller waits: longer than an election takes, and less than a call is held for a leader."""
ALONE: Final = {
    "DescribeAcls",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeQuorum",
    "ListPartitionReassignments",
}
"""Kafka's ControllerApis: answered from the controller's own image, its raft client, or an event that only reads."""
AT_EACH: Final = {"AdminStream", "AlterQuorum", "ApiVersions", "Authenticate", "Authorize", "ListErrorReasons"}
"""They are never passed on, or are envelopes of others."""
CONTROLLERS: Final = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLERS)
REQUESTS: Final[dict[str, Any]] = {
    "ChangeBrokerState": ChangeBrokerStateRequest(target=CONTROL_STATE_NUMBERS[ControlState.FENCED]),  # type: ignore[arg-type]
    "ClaimSessions": ClaimSessionsRequest(tracker_id="t", address="h:1"),
    "Authorize": AuthorizeRequest(api="Fetch"),
    "DescribeAcls": DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    ),
    "DescribeCluster": CONTROLLERS,
    "DescribeQuorum": DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequest.TopicData(
                topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequest.TopicData.PartitionData()]
            )
        ]
    ),
    "Submit": AdminRequest(delete_topics=DeleteTopicsRequest()),
}


def known() -> Engine:
    """What it has applied before it lost its quorum node."""
    cluster = Cluster().brokers(1, 2)
    cluster.topic("t", [1, 2])
    cluster.apply(RegisterControllerRecord(node_id, end_points=(ENDPOINT,)) for node_id in (1, 2, 3))
    return Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)


@pytest.fixture
async def alone() -> AsyncIterator[InProcess]:
    authorizer = StandardAuthorizer(super_users=frozenset({str(ANONYMOUS)}))
    async with controller(NOWHERE, engine=known(), authorizer=authorizer) as here:
        yield here


async def asked(here: InProcess, rpc: str, request: Any = None) -> Any:
    """The answer, or the code of its refusal."""
    try:
        return await getattr(here.stub, rpc)(request or REQUESTS.get(rpc) or APIS[rpc].request(), timeout=LEFT_S)
    except grpc.aio.AioRpcError as refused:
        return error_from_call(refused).code


async def test_each_api_without_a_leader(alone: InProcess) -> None:
    """All at once: each that needs a leader waits for one."""
    rpcs = sorted(APIS.keys() - AT_EACH)
    told = dict(zip(rpcs, await asyncio.gather(*(asked(alone, rpc) for rpc in rpcs)), strict=True))

    answered = {rpc for rpc, answer in told.items() if not isinstance(answer, ErrorCode)}

    assert ALONE == answered
    assert {ErrorCode.NOT_CONTROLLER} == {answer for rpc, answer in told.items() if rpc not in answered}, told


async def test_the_cluster_is_described_whole_and_names_no_leader(alone: InProcess) -> None:
    call = alone.stub.DescribeCluster(CONTROLLERS, timeout=LEFT_S)
    told, trailing = await call, dict(await call.trailing_metadata())

    assert "true" == trailing["kraft-standby"]
    assert (CLUSTER_ID, NOBODY, EndpointType.CONTROLLERS) == (told.cluster_id, told.controller_id, told.endpoint_type)
    assert [1, 2, 3] == [each.broker_id for each in told.brokers]


async def test_the_quorum_is_described_as_by_a_node_that_does_not_lead(alone: InProcess) -> None:
    """NOT_LEADER_OR_FOLLOWER is the partition's: KafkaRaftClient's answer, by which a client looks for the leader."""
    told = await asked(alone, "DescribeQuorum")
    ((partition,),) = [topic.partitions for topic in told.topics]

    assert (NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER) == (told.error_code, partition.error_code)
    assert NOBODY == partition.leader_id


async def test_an_envelope_of_such_a_read_is_answered_too(alone: InProcess) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=TOPIC, resource_name="t")
    enclosed = AdminRequest(describe_configs=DescribeConfigsRequest(resources=[resource]))
    told = await asked(alone, "Submit", enclosed)

    assert [NONE] == [each.error_code for each in told.describe_configs.results]


async def test_what_is_not_committed_is_not_told(alone: InProcess) -> None:
    """Nor what stands in a metadata transaction that is open: it may be aborted (KIP-868)."""
    engine = alone.driver.engine
    at = engine.next_offset
    setting = ConfigRecord(BROKER, "", "log.cleaner.threads", "7")
    engine.replay([BeginTransactionRecord("half"), setting], base_offset=at, end_offset=at + 2)
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=BROKER, resource_name="")
    (told,) = (await asked(alone, "DescribeConfigs", DescribeConfigsRequest(resources=[resource]))).results

    assert (NONE, 0) == (told.error_code, len(told.configs))


async def test_who_is_still_being_sent_what_is_committed_tells_none_of_it_and_denies_nobody() -> None:
    """A grant may come later, or a removal. A broker or a voter of Kafka ends at CLUSTER_AUTHORIZATION_FAILED."""
    anybody = StandardAuthorizer(allow_everyone_if_no_acl_found=True)
    async with quorum_at_work() as (quorum, address), controller(address, authorizer=anybody) as here:
        quorum.lead(NOBODY, epoch=1, next_offset=-1)
        quorum.replicate(FeatureLevelRecord(METADATA_VERSION, LATEST), NoOpRecord())
        await here.until(lambda: here.driver.next_offset() == 2)
        behind = await asked(here, "DescribeConfigs"), await asked(here, "Authorize")
        quorum.commit(2)
        await here.until(lambda: here.driver.engine.is_loaded)
        loaded = await asked(here, "DescribeConfigs"), await asked(here, "Authorize")

    assert (ErrorCode.NOT_CONTROLLER, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == behind
    assert [DescribeConfigsResponse, AuthorizeResponse] == list(map(type, loaded))


async def test_after_a_start_without_a_majority_super_users_read_what_the_node_has_for_committed() -> None:
    """More may be committed, and whether others may read it is not known."""
    told = []
    for super_user in (ANONYMOUS, Principal("User", "root")):
        authorizer = StandardAuthorizer(super_users=frozenset({str(super_user)}))
        async with quorum_at_work() as (quorum, address), controller(address, authorizer=authorizer) as here:
            quorum.replicate(FeatureLevelRecord(METADATA_VERSION, LATEST))
            quorum.lead(NOBODY, epoch=1, next_offset=-1)
            await here.until(lambda: here.driver.leaderless_at == 1)
            told.append(await asked(here, "DescribeAcls"))

    assert [NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] == [getattr(each, "error_code", each) for each in told]


async def test_who_has_applied_nothing_describes_itself_and_no_state() -> None:
    """A topic that it has not heard of may be there: who does not know says so."""
    async with controller(NOWHERE, engine=Engine(ClusterState())) as here:
        cluster, configs, quorum = await asyncio.gather(
            *(asked(here, rpc) for rpc in ("DescribeCluster", "DescribeConfigs", "DescribeQuorum"))
        )

    assert (CLUSTER_ID, []) == (cluster.cluster_id, list(cluster.brokers))
    assert ErrorCode.NOT_CONTROLLER is configs
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == quorum.topics[0].partitions[0].error_code
