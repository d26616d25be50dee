"""A sender that is another node than its request says: refused before the handler gets it, and logged once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import BrokerHeartbeatsRequest, BrokerHeartbeatsResponse
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, HeartbeatStub, add_HeartbeatServicer_to_server
from kraft.service.quorum_pb2 import ResignRequest, ResignResponse
from kraft.service.quorum_pb2_grpc import RaftClientServicer, RaftClientStub, add_RaftClientServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import Principal
from quorate.runtime.access.claims import CLAIM_RULES, NodeClaims
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.statuses import error_from_call
from quorate.runtime.settings.config import ConfigError, load
from quorate.tls.node_ids import NodeIds
from services.heartbeat.config import HeartbeatConfig
from services.quorum.config import QuorumConfig

RULES = r"RULE:^node-([0-9]+)$/$1/,RULE:^all$/*/"

AUDIT_LOG = "kafka.authorizer.logger"
"""Others may write at any time: asyncio of a task that an earlier test has left."""


class Served(HeartbeatServicer, RaftClientServicer):
    """Notes whose heartbeats it gets."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.resigned = 0

    async def BrokerHeartbeat(self, request: BrokerHeartbeatRequest, context: Any) -> BrokerHeartbeatResponse:
        self.heard.append(request.broker_id)
        return BrokerHeartbeatResponse()

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterator[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatResponse]:
        async for request in request_iterator:
            yield await self.BrokerHeartbeat(request, context)

    async def BrokerHeartbeats(
        self, request_iterator: AsyncIterator[BrokerHeartbeatsRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatsResponse]:
        async for request in request_iterator:
            self.heard += [each.broker_id for each in request.heartbeats]
            yield BrokerHeartbeatsResponse()

    async def Resign(self, request: ResignRequest, context: Any) -> ResignResponse:
        self.resigned += 1
        return ResignResponse()


@asynccontextmanager
async def called_by(name: str, *, node_id: int | None = None) -> AsyncIterator[tuple[Served, grpc.aio.Channel]]:
    """A server whose every caller has this name, and a channel to it."""
    served = Served()
    server = Server(claims=NodeClaims(NodeIds(RULES), lambda context: Principal("User", name), node_id))
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, served)
    server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, served)
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        async with open_channel(f"127.0.0.1:{port}") as channel:
            yield served, channel
    finally:
        await server.stop(grace_s=0)


async def refusal(call: Awaitable[Any]) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    error = error_from_call(caught.value)
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED is error.code
    assert grpc.StatusCode.PERMISSION_DENIED is caught.value.code()
    return error.message


def heartbeats(*broker_ids: int) -> BrokerHeartbeatsRequest:
    return BrokerHeartbeatsRequest(heartbeats=[BrokerHeartbeatRequest(broker_id=each) for each in broker_ids])


async def test_a_refusal_names_the_node_the_sender_and_the_rule(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", AUDIT_LOG)
    async with called_by("node-2") as (served, channel):
        method = HeartbeatStub(channel).BrokerHeartbeat
        why = await refusal(method(BrokerHeartbeatRequest(broker_id=1), timeout=60))
        await method(BrokerHeartbeatRequest(broker_id=2), timeout=60)

    assert [2] == served.heard
    assert (
        "kraft.service.Heartbeat/BrokerHeartbeat is for node 1, and User:node-2 is node 2 by "
        f"{CLAIM_RULES}; it called from 127.0.0.1"
    ) == why
    assert ["denied"] == [record.getMessage() for record in caplog.records if record.name == AUDIT_LOG]


async def test_who_is_no_node_speaks_for_none_and_who_is_every_one_for_each() -> None:
    async with called_by("alice") as (served, channel):
        why = await refusal(HeartbeatStub(channel).BrokerHeartbeat(BrokerHeartbeatRequest(broker_id=0), timeout=60))
        assert "User:alice is no node" in why
    async with called_by("all") as (every, channel):
        await HeartbeatStub(channel).BrokerHeartbeat(BrokerHeartbeatRequest(broker_id=0), timeout=60)

    assert ([], [0]) == (served.heard, every.heard)


async def test_a_stream_ends_at_the_first_request_for_another_node() -> None:
    async with called_by("node-2") as (served, channel):
        one = HeartbeatStub(channel).BrokerHeartbeatStream(timeout=60)
        await one.write(BrokerHeartbeatRequest(broker_id=2))
        assert BrokerHeartbeatResponse() == await one.read()
        await one.write(BrokerHeartbeatRequest(broker_id=3))
        await refusal(one.read())

    assert [2] == served.heard


async def test_of_many_heartbeats_in_a_message_with_one_of_another_none_is_served() -> None:
    async with called_by("node-2") as (served, channel):
        many = HeartbeatStub(channel).BrokerHeartbeats(timeout=60)
        await many.write(heartbeats(2, 2))
        await many.read()
        await many.write(heartbeats(2, 3, 2))
        await refusal(many.read())

    assert [2, 2] == served.heard


@pytest.mark.parametrize(("name", "is_heard"), [("node-1", True), ("node-2", False), ("all", True), ("alice", False)])
async def test_a_quorum_node_takes_its_own_controller_alone(name: str, is_heard: bool) -> None:
    """Its requests name no node: who sends them is the controller of this one."""
    async with called_by(name, node_id=1) as (served, channel):
        call = RaftClientStub(channel).Resign(ResignRequest(), timeout=60)
        if is_heard:
            await call
        else:
            await refusal(call)

    assert int(is_heard) == served.resigned


def loaded(cls: type, given: Iterable[str]) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(cls, [word for each in given for word in ("--set", each)], {})
    return list(refused.value.problems)


@pytest.mark.parametrize("cls", [QuorumConfig, HeartbeatConfig])
def test_in_the_clear_nobody_has_a_name_to_check(cls: type) -> None:
    own = {
        QuorumConfig: ["node.id=1", "metadata.log.dir=/nowhere"],
        HeartbeatConfig: ["controller.quorum.bootstrap.servers=a:1", "controller.endpoints=a:1"],
    }[cls]
    problems = loaded(cls, [*own, "listeners=PLAINTEXT://:9093", f"{CLAIM_RULES}={RULES}"])

    assert [
        f"{CLAIM_RULES} = {RULES}: needs a listener with certificates; in the clear every caller is ANONYMOUS"
    ] == problems


def test_rules_that_are_none_are_refused_at_the_start() -> None:
    given = ["node.id=1", "metadata.log.dir=/nowhere", "listeners=PLAINTEXT://:9093", f"{CLAIM_RULES}=quorum-1"]

    assert [
        f"{CLAIM_RULES} = 'quorum-1' (--set): must be empty or RULE:pattern/replacement/[LU], "
        "with commas between them, as in KIP-371"
    ] == loaded(QuorumConfig, given)
