"""Numbers that Python or an answer has no room for: each is handled by its rule, and the controller stays active.

Python converts at most 4,300 digits, and raises ValueError for more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kraft.api.alter_configs_pb2 import AlterConfigsRequest
from kraft.api.create_acls_pb2 import CreateAclsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from quorate.authorizer import StandardAuthorizer
from quorate.controller.engine.engine import Engine
from quorate.errors import ErrorCode
from quorate.records import ClientQuotaRecord
from tests.controller.clusters import Cluster
from tests.services.controllers import InProcess, controller
from tests.services.scripted import quorum_at_work

EPOCH = 5
ADMIN = StandardAuthorizer(super_users=frozenset({"User:ANONYMOUS"}))
LONG = "9" * 5_000
_Read = DescribeConfigsRequest.DescribeConfigsResource
_Replaced = AlterConfigsRequest.AlterConfigsResource
_Altered = IncrementalAlterConfigsRequest.AlterConfigsResource
OF_A_BROKER = {
    "DescribeConfigs": DescribeConfigsRequest(resources=[_Read(resource_type=4, resource_name=LONG)]),
    "AlterConfigs": AlterConfigsRequest(resources=[_Replaced(resource_type=4, resource_name=LONG)]),
    "IncrementalAlterConfigs": IncrementalAlterConfigsRequest(
        resources=[
            _Altered(
                resource_type=4,
                resource_name=LONG,
                configs=[_Altered.AlterableConfig(name="background.threads", value="1")],
            )
        ]
    ),
}


@asynccontextmanager
async def of_a_leader(cluster: Cluster) -> AsyncIterator[InProcess]:
    """The active controller of epoch 5, with this state; what it writes is committed at once."""
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine, authorizer=ADMIN) as here:
            quorum.lead(1, epoch=EPOCH, next_offset=cluster.next_offset)
            await here.until_active()
            quorum.commit(1_000_000)
            yield here


@pytest.fixture
async def active() -> AsyncIterator[InProcess]:
    """The active controller of one broker."""
    async with of_a_leader(Cluster(32).brokers(1)) as here:
        yield here


@pytest.mark.parametrize("rpc", OF_A_BROKER)
async def test_a_broker_id_is_refused(active: InProcess, rpc: str) -> None:
    answer = await getattr(active.stub, rpc)(OF_A_BROKER[rpc])

    (result,) = answer.results if rpc == "DescribeConfigs" else answer.responses
    assert ErrorCode.INVALID_REQUEST == result.error_code
    assert EPOCH == active.driver.engine.epoch


@pytest.mark.parametrize("rate", [1e-7, 1e-306])
async def test_a_quota_may_be_as_small_as_can_be(rate: float) -> None:
    """The first topic is created, and the second has to wait for longer than an int32 of ms can say."""
    cluster = Cluster(32).brokers(1)
    everybody = ClientQuotaRecord.EntityData("user", None)
    cluster.apply([ClientQuotaRecord(entity=(everybody,), key="controller_mutation_rate", value=rate)])
    async with of_a_leader(cluster) as active:
        answer = await active.stub.CreateTopics(
            CreateTopicsRequest(
                topics=[
                    CreateTopicsRequest.CreatableTopic(
                        name=name,
                        num_partitions=-1,
                        replication_factor=-1,
                        assignments=[CreateTopicsRequest.CreatableTopic.CreatableReplicaAssignment(broker_ids=[1])],
                    )
                    for name in ("first", "second")
                ],
                timeout_ms=30_000,
            )
        )

        told = {topic.name: topic.error_code for topic in answer.topics}
        assert {"first": ErrorCode.NONE, "second": ErrorCode.THROTTLING_QUOTA_EXCEEDED} == told
        assert 2**31 - 1 == answer.throttle_time_ms
        assert EPOCH == active.driver.engine.epoch


async def test_the_bits_of_a_network_are_refused(active: InProcess) -> None:
    asked = CreateAclsRequest.AclCreation(
        resource_type=2,
        resource_name="orders",
        resource_pattern_type=3,
        principal="User:alice",
        host=f"::/{LONG}",
        operation=3,
        permission_type=3,
    )

    answer = await active.stub.CreateAcls(CreateAclsRequest(creations=[asked]))

    (result,) = answer.results
    assert ErrorCode.INVALID_REQUEST == result.error_code
    assert EPOCH == active.driver.engine.epoch
