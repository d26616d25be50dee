"""How long a gateway waits for the service behind it, and what it makes of a controller that knows no leader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft import Message
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.api.fetch import FetchRequest
from quorate.errors import ErrorCode
from quorate.wire.protobuf import to_protobuf
from tests.services.gateway.test_handler import APIS, Services, gateway, inner, principal
from tests.services.scripted import WITHIN_S


async def test_an_envelope_asks_for_another_controller_where_no_leader_describes_the_quorum() -> None:
    """A broker looks for the active controller anew then; by itself the same answer says it in its partition."""
    topic = DescribeQuorumResponse.TopicData
    partition = topic.PartitionData(0, error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    services = Services(DescribeQuorum=DescribeQuorumResponse(topics=(topic("__cluster_metadata", (partition,)),)))
    async with gateway(services) as client:
        described = await client.ask_for(DescribeQuorumResponse, DescribeQuorumRequest())
        answer = await client.ask_for(
            EnvelopeResponse, EnvelopeRequest(inner(DescribeQuorumRequest(), 2), principal(), bytes(4))
        )

    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == described.topics[0].partitions[0].error_code
    assert (ErrorCode.NOT_CONTROLLER, None) == (answer.error_code, answer.response_data)


@pytest.mark.parametrize(
    ("asked", "given_s"),
    [
        (CreateTopicsRequest(timeout_ms=5_000), 7),
        (CreateTopicsRequest(timeout_ms=30_000), 32),
        (CreateTopicsRequest(timeout_ms=0), 30),
        (CreateTopicsRequest(timeout_ms=2**31 - 1), 120),
        (DescribeQuorumRequest(), 30),
        (FetchRequest(max_wait_ms=500), 30),
        (FetchRequest(max_wait_ms=60_000), 65),
    ],
)
async def test_a_calls_own_timeout_bounds_it(asked: Message, given_s: int) -> None:
    services = Services()
    async with gateway(services) as client:
        await client.ask(asked)

    assert [given_s] == services.given_s


async def test_what_follows_a_write_on_its_connection_finds_its_effect() -> None:
    """Kafka handles one request of a connection at a time; heartbeats and raft depend on no other request."""
    services, seen, beaten, both = Services(), list[str](), asyncio.Event(), asyncio.Event()

    def held(rpc: str, until: asyncio.Event, *, sets: bool) -> None:
        async def method(_: Any, **__: Any) -> Any:
            seen.append(rpc)
            if sets:
                until.set()
            await until.wait()
            seen.append("answered")
            return to_protobuf(APIS[rpc].response())

        setattr(services, rpc, method)

    held("CreateTopics", beaten, sets=False)
    held("DescribeConfigs", both, sets=False)
    held("DescribeAcls", both, sets=True)
    held("DeleteTopics", both, sets=True)
    held("BrokerHeartbeat", beaten, sets=True)
    names = ("CreateTopics", "DescribeConfigs", "DescribeAcls", "DeleteTopics", "BrokerHeartbeat")
    async with gateway(services) as client, asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(client.ask(APIS[name].request()) for name in names))

    order = ["CreateTopics", "BrokerHeartbeat", "DescribeConfigs", "DescribeAcls", "DeleteTopics"]
    assert (order, 10) == ([each for each in seen if each != "answered"], len(seen))
    assert ["answered"] * 2 == seen[2:4]
    assert ["answered"] * 2 == seen[6:8]
