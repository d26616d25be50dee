"""A call that was passed on to a leader that stands still: it ends when another leads, or with its own timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Final

import grpc
import pytest

from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.admin_pb2 import AdminRequest
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.deduplication import ID_BYTES
from quorate.controller.engine.engine import Engine
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER
from quorate.metadata.state import ClusterState
from quorate.nouns import NOBODY, EndpointType
from quorate.records import RegisterControllerRecord
from quorate.runtime.requests.statuses import BARE, UNTOUCHED, error_from_call
from tests.services.controllers import InProcess, controller
from tests.services.scripted import WITHIN_S, ScriptedController, ScriptedQuorum, controller_at_work, quorum_at_work

STILL, NEXT = 2, 3
"""Controller 2 stands still, as in a frozen container: it takes what is sent and answers nothing. Then 3 leads."""
SETTINGS: Final = ControllerSettings(node_id=1, static_configs={"num.network.threads": "7"})
SOON_MS: Final = 100
CREATION: Final = CreateTopicsRequest(timeout_ms=int(WITHIN_S * 1000))
READ: Final = DescribeTopicPartitionsRequest()
Endpoint = RegisterControllerRecord.ControllerEndpoint


class Story:
    """Controller 1, which stands by; the quorum node beside it; and the two others."""

    def __init__(
        self,
        here: InProcess,
        quorum: ScriptedQuorum,
        still: ScriptedController,
        following: ScriptedController,
        thaws: asyncio.Event,
    ):
        self.thaws = thaws
        self.stub = here.stub
        self.here = here
        self.quorum = quorum
        self.still = still
        self.following = following

    async def handed_over(self, call: Awaitable[Any]) -> asyncio.Future[Any]:
        """The call, which the leader has by now."""
        under_way = asyncio.ensure_future(call)
        async with asyncio.timeout(WITHIN_S):
            await self.still.calls.get()
        return under_way

    def replace(self, leader_id: int = NEXT) -> None:
        self.quorum.lead(leader_id, epoch=2, next_offset=2)

    async def refusal(self, call: Awaitable[Any]) -> Any:
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
        return error_from_call(refused.value)


def registered(node_id: int, address: str) -> RegisterControllerRecord:
    host, _, port = address.rpartition(":")
    return RegisterControllerRecord(node_id, end_points=(Endpoint("CONTROLLER", host, int(port)),))


@pytest.fixture
async def story() -> AsyncIterator[Story]:
    async with (
        quorum_at_work() as (quorum, quorum_address),
        controller_at_work() as (still, still_address),
        controller_at_work() as (following, next_address),
    ):
        engine, thaws = Engine(ClusterState()), asyncio.Event()
        engine.replay([registered(STILL, still_address), registered(NEXT, next_address)], base_offset=0, end_offset=2)
        still.before_answering = thaws.wait
        async with controller(quorum_address, engine=engine, settings=SETTINGS) as here:
            quorum.lead(STILL, epoch=1, next_offset=2)
            await here.until_led_by(STILL)
            yield Story(here, quorum, still, following, thaws)
        thaws.set()


async def test_a_read_is_asked_of_the_next_leader(story: Story) -> None:
    told = await story.handed_over(story.stub.DescribeTopicPartitions(READ, timeout=WITHIN_S))
    story.replace()
    await told

    assert "DescribeTopicPartitions" == story.following.calls.get_nowait()


async def test_a_write_that_may_have_been_done_is_not_done_again(story: Story) -> None:
    """It ends as a Kafka controller ends it that is replaced: NOT_CONTROLLER, and its caller decides."""
    created = await story.handed_over(story.stub.CreateTopics(CREATION, timeout=WITHIN_S))
    story.replace()
    refusal = await story.refusal(created)

    assert (ErrorCode.NOT_CONTROLLER, str(NEXT)) == (refusal.code, refusal.metadata["leader_id"])
    assert UNTOUCHED not in refusal.metadata
    assert story.following.calls.empty()


async def test_a_read_that_the_leader_leaves_when_it_goes_is_asked_of_the_next_one(story: Story) -> None:
    story.still.is_gone = True
    story.thaws.set()
    told = await story.handed_over(story.stub.DescribeTopicPartitions(READ, timeout=WITHIN_S))
    story.replace()
    await told

    assert "DescribeTopicPartitions" == story.following.calls.get_nowait()


async def test_a_write_that_the_leader_leaves_when_it_goes_is_no_lost_connection_of_the_callers(story: Story) -> None:
    """The gRPC status of a hop is not this controller's own: a gateway would cut its client's connection."""
    story.still.is_gone = True
    story.thaws.set()
    refusal = await story.refusal(story.stub.CreateTopics(CREATION, timeout=WITHIN_S))

    assert (ErrorCode.NOT_CONTROLLER, str(STILL)) == (refusal.code, refusal.metadata["leader_id"])
    assert refusal.message.endswith("it may have done it")
    assert {UNTOUCHED, BARE}.isdisjoint(refusal.metadata)
    assert story.following.calls.empty()


async def test_a_write_with_a_request_id_is_asked_of_the_next_leader(story: Story) -> None:
    """It is done once, at any controller: the id is in the log."""
    request = AdminRequest(request_id=bytes(ID_BYTES), create_topics=CREATION)
    submitted = await story.handed_over(story.stub.Submit(request, timeout=WITHIN_S))
    story.replace()
    await submitted

    assert "Submit" == story.following.calls.get_nowait()


async def test_while_nobody_is_known_to_lead_the_call_stays_where_it_is(story: Story) -> None:
    """This controller may be cut off alone, and the leader be at work."""
    told = await story.handed_over(story.stub.DescribeTopicPartitions(READ, timeout=WITHIN_S))
    story.quorum.lead(NOBODY, epoch=1, next_offset=2)
    await story.here.until_led_by(NOBODY)

    assert not told.done()
    story.replace()
    await told


async def test_a_call_ends_with_its_own_timeout(story: Story) -> None:
    """And not with the patience of its caller, as the other one, which has more time, shows."""
    longer = await story.handed_over(story.stub.CreateTopics(CREATION, timeout=WITHIN_S))
    refusal = await story.refusal(story.stub.CreateTopics(CreateTopicsRequest(timeout_ms=SOON_MS), timeout=WITHIN_S))

    assert ErrorCode.REQUEST_TIMED_OUT is refusal.code
    assert not longer.done()
    longer.cancel()


async def test_a_call_waits_for_a_leader_no_longer_than_its_own_timeout(story: Story) -> None:
    story.quorum.lead(NOBODY, epoch=1, next_offset=2)
    await story.here.until_led_by(NOBODY)
    longer = asyncio.ensure_future(story.stub.CreateTopics(CREATION, timeout=WITHIN_S))
    refusal = await story.refusal(story.stub.CreateTopics(CreateTopicsRequest(timeout_ms=SOON_MS), timeout=WITHIN_S))

    assert (ErrorCode.NOT_CONTROLLER, True) == (refusal.code, UNTOUCHED in refusal.metadata)
    assert not longer.done()
    longer.cancel()


async def test_a_controllers_own_configs_are_described_by_itself(story: Story) -> None:
    """The leader has another file."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=BROKER, resource_name="1")
    told = await story.stub.DescribeConfigs(DescribeConfigsRequest(resources=[resource]), timeout=WITHIN_S)
    values = {each.name: each.value for each in told.results[0].configs}

    assert ("1", "7") == (values["node.id"], values["num.network.threads"])


async def test_the_cluster_is_described_without_the_leader(story: Story) -> None:
    """By this controller itself, as in Kafka: clients ask it who else there is."""
    request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLERS)
    told = await story.stub.DescribeCluster(request, timeout=WITHIN_S)

    assert (STILL, [STILL, NEXT]) == (told.controller_id, [each.broker_id for each in told.brokers])
    assert story.still.calls.empty()


async def test_who_is_cut_off_names_the_leader_that_it_heard_of_last(story: Story) -> None:
    """Kafka's tools ask nobody else who leads, and turn to the one that is named."""
    story.here.driver.cut_off()
    request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLERS)
    told = await story.stub.DescribeCluster(request, timeout=WITHIN_S)

    assert STILL == told.controller_id


async def test_who_is_cut_off_and_has_led_names_another_controller(story: Story) -> None:
    """That one passes on what it is asked, as every controller does."""
    story.replace(leader_id=1)
    await story.here.until_active()
    story.here.driver.cut_off()
    request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLERS)
    told = await story.stub.DescribeCluster(request, timeout=WITHIN_S)

    assert STILL == told.controller_id
