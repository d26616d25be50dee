"""No request asks for work without bound: what is too much is refused before it is looked at, with rule and value."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from kraft.api.alter_configs_pb2 import AlterConfigsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from kraft.service.admin_pb2 import AdminRequest, AdminRequests
from quorate.authorizer import StandardAuthorizer
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.requests.statuses import error_from_call
from tests.controller.clusters import Cluster
from tests.services.controllers import InProcess, controller
from tests.services.scripted import WITHIN_S, quorum_at_work

_Configs = IncrementalAlterConfigsRequest.AlterConfigsResource
_Replaced = AlterConfigsRequest.AlterConfigsResource
_Elected = ElectLeadersRequest.TopicPartitions
_Deleted = DeleteTopicsRequest.DeleteTopicState

ALTER_CLIENT_QUOTAS = "/kraft.service.Controller/AlterClientQuotas"
TOO_MUCH: dict[str, tuple[Any, str]] = {
    "60,000 configs": (
        IncrementalAlterConfigsRequest(
            resources=[
                _Configs(
                    resource_type=2,
                    resource_name="a",
                    configs=[_Configs.AlterableConfig(name="x", value="1")] * 60_000,
                )
            ]
        ),
        "resources.configs: 60000 items",
    ),
    "60,000 configs to replace": (
        AlterConfigsRequest(resources=[_Replaced(resource_type=2, configs=[_Replaced.AlterableConfig()] * 60_000)]),
        "resources.configs: 60000 items",
    ),
    "100,000 topics to delete": (DeleteTopicsRequest(topics=[_Deleted(name="a")] * 100_000), "topics: 100000 items"),
    "300,000 elections": (
        ElectLeadersRequest(
            topic_partitions=ElectLeadersRequest.TopicPartitionsList(items=[_Elected(partitions=range(300_000))])
        ),
        "300000 items",
    ),
    "many lists": (
        CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=f"t{number}", configs=[CreateTopicsRequest.CreatableTopic.CreatableTopicConfig()] * 9_999
                )
                for number in range(6)
            ]
        ),
        "the request: more than 50000 items",
    ),
}


@pytest.fixture
def authorizer() -> StandardAuthorizer | None:
    return None


@pytest.fixture
async def active(authorizer: StandardAuthorizer | None) -> AsyncIterator[InProcess]:
    """An active controller."""
    cluster = Cluster().brokers(1, 2)
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine, authorizer=authorizer) as here:
            quorum.lead(1, epoch=1, next_offset=cluster.next_offset)
            await here.until_active()
            quorum.commit(engine.next_offset)
            yield here


@pytest.mark.parametrize("which", TOO_MUCH)
async def test_a_request_with_too_many_items_is_refused(active: InProcess, which: str) -> None:
    request, says = TOO_MUCH[which]
    rpc = type(request).__name__.removesuffix("Request")
    field = next(each.name for each in AdminRequest.DESCRIPTOR.fields if each.message_type is request.DESCRIPTOR)
    envelope = AdminRequest(**{field: request})
    for method, asked in ((getattr(active.stub, rpc), request), (active.stub.Submit, envelope)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(asked, timeout=WITHIN_S)
        refusal: ApiError = error_from_call(caught.value)

        assert ErrorCode.POLICY_VIOLATION is refusal.code
        assert says in refusal.message


async def refusal_of_the_largest(active: InProcess) -> ErrorCode:
    """Of a request of 4 MiB with as many empty items as that has room for."""
    ask, entries = active.channel_to_it.unary_unary(ALTER_CLIENT_QUOTAS), b"\x0a\x00" * ((4 << 20) // 2)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(entries, timeout=WITHIN_S)
    return error_from_call(caught.value).code


async def test_a_request_that_would_take_too_much_memory_is_refused_before_it_is_decoded(active: InProcess) -> None:
    assert ErrorCode.MESSAGE_TOO_LARGE is await refusal_of_the_largest(active)


@pytest.mark.parametrize("authorizer", [StandardAuthorizer()], ids=["with rights"])
async def test_a_caller_without_the_right_on_the_cluster_hears_nothing_else_of_a_large_request(
    active: InProcess,
) -> None:
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED is await refusal_of_the_largest(active)


async def test_a_request_of_a_stream_with_too_many_items_is_refused_alone(active: InProcess) -> None:
    request, says = TOO_MUCH["100,000 topics to delete"]
    stream = active.stub.AdminStream(timeout=WITHIN_S)
    await stream.write(
        AdminRequests(
            requests=[
                AdminRequest(correlation_id=1, delete_topics=request),
                AdminRequest(correlation_id=2, describe_cluster=DescribeClusterRequest()),
            ]
        )
    )
    await stream.done_writing()
    answers = {answer.correlation_id: answer async for message in stream for answer in message.responses}

    assert ErrorCode.POLICY_VIOLATION == answers[1].error.error_code
    assert says in answers[1].error.message
    assert (False, "describe_cluster") == (answers[2].HasField("error"), answers[2].WhichOneof("response"))
