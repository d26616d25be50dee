"""Gateways while their quorum has no leader, or a leader that stands still: what each answers by itself, and when."""

from __future__ import annotations

from typing import Final

import pytest

from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_cluster import DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumResponse
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.api.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.errors import ErrorCode
from quorate.nouns import NOBODY, NodeId
from quorate.protocol.apis import api_of
from quorate.protocol.messages import encode_request
from quorate.wire.codec import encode
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS, Cluster, others
from tests.e2e.test_gateway import CONTROLLERS, QUORUM, Topic, address, client

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

WITH_GATEWAYS: Final = True
REASSIGNMENTS: Final = ListPartitionReassignmentsRequest(timeout_ms=30_000)


async def told_without(cluster: Cluster, node_id: NodeId) -> tuple[DescribeClusterResponse, DescribeQuorumResponse]:
    async with client(cluster, node_id) as connection:
        told = await connection.ask_for(DescribeClusterResponse, CONTROLLERS)
        return told, await connection.ask_for(DescribeQuorumResponse, QUORUM)


async def test_whose_own_node_is_dead_says_who_else_there_is(cluster: Cluster) -> None:
    """Kafka's tools, given this gateway alone, find the active controller by it."""
    node_id = await cluster.active()
    await cluster.kill(cluster.quorum(node_id))
    told, quorum = await eventually(  # the controller learns of it a while after its node has ended
        lambda: told_without(cluster, node_id),
        lambda each: each[0].controller_id in others(node_id) and each[1].topics[0].partitions[0].error_code,
    )
    await cluster.restart(cluster.quorum(node_id))

    assert {each: address(cluster, each) for each in VOTERS} == {
        each.broker_id: (each.host, each.port) for each in told.brokers
    }
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == quorum.topics[0].partitions[0].error_code


async def test_without_a_majority_diagnosis_goes_on(cluster: Cluster) -> None:
    survivor = others(await cluster.active())[0]
    for node_id in others(survivor):
        await cluster.kill(cluster.quorum(node_id))
    told, quorum = await eventually(
        lambda: told_without(cluster, survivor), lambda each: each[1].topics[0].partitions[0].error_code
    )
    inside = encode_request(api_of(type(QUORUM)), QUORUM, version=2, correlation_id=5, client_id="app")
    principal = bytes(2) + encode(DefaultPrincipalData("User", "alice"), 0)
    async with client(cluster, survivor) as connection:
        enclosed = await connection.ask_for(EnvelopeResponse, EnvelopeRequest(inside, principal, bytes(4)))
        listed = await connection.ask_for(ListPartitionReassignmentsResponse, REASSIGNMENTS)
        created = await connection.ask_for(
            CreateTopicsResponse, CreateTopicsRequest((Topic("t", 1, 3),), 200), version=7
        )
    for node_id in others(survivor):
        await cluster.restart(cluster.quorum(node_id))

    assert (0, cluster.plan.cluster_id, 2) == (told.error_code, told.cluster_id, told.endpoint_type)
    assert sorted(VOTERS) == sorted(each.broker_id for each in told.brokers)
    assert (0, ErrorCode.NOT_LEADER_OR_FOLLOWER) == (quorum.error_code, quorum.topics[0].partitions[0].error_code)
    assert (ErrorCode.NOT_CONTROLLER, None) == (enclosed.error_code, enclosed.response_data)
    assert ErrorCode.NONE == listed.error_code
    assert [ErrorCode.NOT_CONTROLLER] == [each.error_code for each in created.topics]


async def test_a_leader_that_stands_still_holds_no_call_that_the_next_one_can_answer(cluster: Cluster) -> None:
    """As a frozen container: its quorum node, controller and gateway. The connections to it stay open."""
    old = await cluster.active()
    await cluster.create("before", at=others(old)[0])  # all have a connection to it
    frozen = cluster.quorum(old), cluster.controller(old), cluster.plan.gateways[old - 1]
    async with cluster.stopped(*frozen):
        for node_id in others(old):
            async with client(cluster, node_id) as connection:
                quorum = await connection.ask_for(DescribeQuorumResponse, QUORUM)
                created = await connection.ask_for(
                    CreateTopicsResponse, CreateTopicsRequest((Topic(f"after-{node_id}", 1, 3),), 20_000), version=7
                )

            assert quorum.topics[0].partitions[0].leader_id not in (NOBODY, old)
            assert [ErrorCode.NONE] == [each.error_code for each in created.topics]
