"""An answer with a long list is encoded in turns, and is the same answer to its reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kraft import Message, Uuid
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.describe_cluster import DescribeClusterResponse
from kraft.api.describe_configs import DescribeConfigsResponse
from kraft.api.elect_leaders import ElectLeadersResponse
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from quorate.controller.engine.engine import Engine
from quorate.controller.engine.steps import ITEMS_PER_STEP
from quorate.errors import ErrorCode
from quorate.wire.protobuf import to_protobuf
from quorate.wire.shared import Shared
from services.controller.answers import encoded_in_turns
from tests.controller.clusters import Cluster
from tests.services.controllers import controller
from tests.services.counted_calls import calls_in_a_turn
from tests.services.scripted import quorum_at_work

MANY = 2 * ITEMS_PER_STEP + 1
CALLS_MAX = 40_000
"""The calls of functions in one turn of the loop: some 30 for each of 1,024 items, and room for others' work."""


def _created(count: int) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult
    configs = Shared((result.CreatableTopicConfigs("retention.ms", "1"), result.CreatableTopicConfigs("x", None)))
    topics = tuple(
        result(
            f"t{number}", Uuid(number.to_bytes(16, "big")), number % 3, None if number % 2 else "no", configs=configs
        )
        for number in range(count)
    )
    return CreateTopicsResponse(throttle_time_ms=7, topics=topics)


def _moved(count: int) -> AlterPartitionReassignmentsResponse:
    topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=False,
        error_code=3,
        error_message=None,
        responses=tuple(topic(f"t{number}") for number in range(count)),
    )


def _elected(count: int) -> ElectLeadersResponse:
    result = ElectLeadersResponse.ReplicaElectionResult
    found = tuple(
        result(f"t{number}", (result.PartitionResult(number, error_message="no"),)) for number in range(count)
    )
    return ElectLeadersResponse(error_code=-1, replica_election_results=found)


def _brokers(count: int) -> DescribeClusterResponse:
    broker = DescribeClusterResponse.DescribeClusterBroker
    brokers = tuple(broker(number, f"host-{number}", 9092) for number in range(count))
    return DescribeClusterResponse(error_message=None, cluster_id="a", controller_id=-1, brokers=brokers)


def _described(count: int) -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    configs = tuple(
        result.DescribeConfigsResourceResult(name=f"c{number}", value=None, documentation=None) for number in range(100)
    )
    results = tuple(result(0, None, 2, f"t{number}", configs) for number in range(count // 100))
    return DescribeConfigsResponse(throttle_time_ms=1, results=results)


def _one_topic(count: int) -> ElectLeadersResponse:
    result = ElectLeadersResponse.ReplicaElectionResult
    return ElectLeadersResponse(0, 3, (result("a", tuple(map(result.PartitionResult, range(count)))), result("b")))


@pytest.mark.parametrize("made", [_created, _moved, _elected, _brokers, _described, _one_topic])
async def test_the_bytes_are_those_of_the_whole_message(made: type[Message]) -> None:
    whole = to_protobuf(made(MANY))  # type: ignore[call-arg]  # a function that makes one
    told = await encoded_in_turns(made(MANY))  # type: ignore[call-arg]

    assert isinstance(told, bytes)
    assert whole == type(whole).FromString(told)


async def test_a_short_answer_is_encoded_at_once() -> None:
    told = await encoded_in_turns(_created(ITEMS_PER_STEP))

    assert to_protobuf(_created(ITEMS_PER_STEP)) == told


@pytest.mark.parametrize("made", [_created, _described])
async def test_others_have_the_loop_in_between(made: Callable[[int], Message]) -> None:
    answer = asyncio.ensure_future(encoded_in_turns(made(MANY)))
    turn_count = 0
    while not answer.done():
        await asyncio.sleep(0)
        turn_count += 1

    assert turn_count > MANY // ITEMS_PER_STEP


async def test_others_have_the_loop_also_within_the_list_of_one_item() -> None:
    with calls_in_a_turn() as most:
        await encoded_in_turns(_one_topic(CALLS_MAX))
        await asyncio.sleep(0)

    assert most[0] <= CALLS_MAX


async def test_a_request_with_many_items_is_checked_and_converted_in_turns() -> None:
    cluster = Cluster().brokers(1, 2)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [resource.AlterableConfig(name="retention.ms", value="1")] * 4
    names = [f"nowhere-{number}" for number in range(9_999)]
    asked = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=2, resource_name=name, configs=configs) for name in names]
    )
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine) as here:
            quorum.lead(1, epoch=1, next_offset=cluster.next_offset)
            await here.until_active()
            quorum.commit(engine.next_offset)
            await here.stub.IncrementalAlterConfigs(IncrementalAlterConfigsRequest(), timeout=60)
            with calls_in_a_turn() as most:
                told = await here.stub.IncrementalAlterConfigs(asked, timeout=60)

    assert len(names) == len(told.responses)
    assert most[0] <= CALLS_MAX


async def test_whoever_asks_by_the_wire_gets_all_of_it() -> None:
    cluster = Cluster().brokers(1, 2)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    names = [f"nowhere-{number}" for number in range(MANY)]
    asked = IncrementalAlterConfigsRequest(resources=[resource(resource_type=2, resource_name=name) for name in names])
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine) as here:
            quorum.lead(1, epoch=1, next_offset=cluster.next_offset)
            await here.until_active()
            quorum.commit(engine.next_offset)
            told = await here.stub.IncrementalAlterConfigs(asked, timeout=60)

    refused = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert [(name, refused) for name in names] == [(each.resource_name, each.error_code) for each in told.responses]
