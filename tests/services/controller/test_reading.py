"""A read at an active controller: answered only once its quorum node has confirmed that it leads (Raft thesis, 6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.api.unregister_broker_pb2 import UnregisterBrokerRequest
from quorate.controller.engine.engine import Engine
from quorate.errors import ErrorCode
from quorate.runtime.access.passing_on import FORWARDED
from quorate.runtime.requests.statuses import error_from_call
from services.controller.quorum_node import QuorumNode
from tests.controller.clusters import Cluster
from tests.services.controllers import InProcess, controller
from tests.services.scripted import WITHIN_S, ScriptedQuorum, quorum_at_work

EPOCH = 3
PASSED_ON = ((FORWARDED, "1"),)
"""Such a call is answered at once: others are tried again for as long as they have."""
UNKNOWN_TOPIC = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="another")])


@pytest.fixture
async def active() -> AsyncIterator[tuple[InProcess, ScriptedQuorum]]:
    """A controller with one topic, active in `EPOCH`; all that it has written is committed."""
    cluster = Cluster().brokers(1, 2)
    cluster.topic("t", [1, 2])
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine) as here:
            quorum.lead(1, epoch=EPOCH, next_offset=cluster.next_offset)
            await here.until_active()
            if here.driver.engine.next_offset > cluster.next_offset:
                await quorum.until(1)
            quorum.commit(here.driver.engine.next_offset)
            yield here, quorum


async def test_a_read_is_told_once_the_leadership_is_confirmed(active: tuple[InProcess, ScriptedQuorum]) -> None:
    here, quorum = active
    told = await here.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=120)

    assert (["t"], [EPOCH]) == ([topic.name for topic in told.topics], quorum.confirmed)


async def test_who_is_not_confirmed_tells_nothing(active: tuple[InProcess, ScriptedQuorum]) -> None:
    """It has not heard yet that another leads: what it would tell may be no longer so."""
    here, quorum = active
    quorum.confirms = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await here.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), metadata=PASSED_ON)

    assert ErrorCode.NOT_CONTROLLER is error_from_call(refused.value).code
    assert {EPOCH} == set(quorum.confirmed)


async def test_leadership_is_confirmed_for_each_epoch_by_itself(active: tuple[InProcess, ScriptedQuorum]) -> None:
    """Both wait while a round is under way; the first of them has asked about an epoch that is over."""
    here, quorum = active
    node, answers = QuorumNode(here.channel), asyncio.Event()
    quorum.before_confirming = answers.wait
    under_way = asyncio.ensure_future(node.confirm(EPOCH))
    async with asyncio.timeout(WITHIN_S):
        for _ in range(1_000_000):
            await asyncio.sleep(0)
            if quorum.confirmed:
                break
        waiting = [asyncio.ensure_future(node.confirm(epoch)) for epoch in (EPOCH, EPOCH + 1, EPOCH, EPOCH + 1)]
        await asyncio.sleep(0)
        answers.set()
        await asyncio.gather(under_way, *waiting)

    assert [EPOCH, EPOCH, EPOCH + 1] == sorted(quorum.confirmed)


async def test_a_change_that_changes_nothing_is_a_read(active: tuple[InProcess, ScriptedQuorum]) -> None:
    """A caller that has seen a topic never gets the answer that there is none."""
    here, quorum = active
    told = await here.stub.DeleteTopics(UNKNOWN_TOPIC, timeout=120)

    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == told.responses[0].error_code
    assert [EPOCH] == quorum.confirmed

    quorum.confirms = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await here.stub.DeleteTopics(UNKNOWN_TOPIC, metadata=PASSED_ON)

    assert ErrorCode.NOT_CONTROLLER is error_from_call(refused.value).code


async def test_a_refusal_for_what_is_in_the_state_is_a_read(active: tuple[InProcess, ScriptedQuorum]) -> None:
    here, quorum = active
    codes = []
    for quorum.confirms in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.stub.UnregisterBroker(UnregisterBrokerRequest(broker_id=9), metadata=PASSED_ON)
        codes.append(error_from_call(refused.value).code)

    assert [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.NOT_CONTROLLER] == codes
