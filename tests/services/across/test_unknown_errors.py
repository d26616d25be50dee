"""Error codes that only a later version has: in answers of a quorum node, a leader and a placer they are values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import grpc
import pytest

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    ConfirmLeadershipRequest,
    ConfirmLeadershipResponse,
    SetTargetVotersResponse,
    UpgradeKRaftVersionRequest,
    UpgradeKRaftVersionResponse,
)
from kraft.service.quorum_pb2_grpc import (
    QuorumServicer,
    RaftClientServicer,
    add_QuorumServicer_to_server,
    add_RaftClientServicer_to_server,
)
from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, UsableBroker
from quorate.raft.messages import BeginQuorumEpochRequest
from quorate.raft.voters import ListenerEndpoint
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client, open_channel
from services.controller.placement_requests import Placing
from services.controller.quorum_node import QuorumNode
from services.quorum.alter_quorum import Alteration, LeaderFinder
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from services.quorum.translate.asking import to_begin
from tests.services.links import batch, linked
from tests.services.nodes import Silent, driver_of, open_disk

LATER: Final = 31_999


class LaterNode(QuorumServicer, RaftClientServicer):
    """Refuses all that it is asked."""

    async def ConfirmLeadership(self, request: ConfirmLeadershipRequest, context: Any) -> ConfirmLeadershipResponse:
        return ConfirmLeadershipResponse(error_code=LATER)  # type: ignore[arg-type]

    async def UpgradeKRaftVersion(
        self, request: UpgradeKRaftVersionRequest, context: Any
    ) -> UpgradeKRaftVersionResponse:
        return UpgradeKRaftVersionResponse(error_code=LATER, error_message="not on a Monday")  # type: ignore[arg-type]

    async def SetTargetVoters(self, request: AlterQuorumRequest, context: Any) -> SetTargetVotersResponse:
        return SetTargetVotersResponse(error_code=LATER, error_message="not on a Monday")  # type: ignore[arg-type]


class LaterPlacer(PlacerServicer):
    """Refuses every topic."""

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        refused = PlaceResponse.Topic(error_code=LATER, error_message="not on a Monday")  # type: ignore[arg-type]
        return PlaceResponse(topics=[refused for _ in request.topics])


@asynccontextmanager
async def later() -> AsyncIterator[tuple[str, grpc.aio.Channel]]:
    """Where they answer."""
    server = Server()
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, LaterNode())
    server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, LaterNode())
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, LaterPlacer())
    address = f"127.0.0.1:{server.listen('127.0.0.1:0')}"
    await server.start()
    async with open_channel(address) as channel:
        yield address, channel
    await server.stop(grace_s=0)


async def test_of_the_quorum_node_beside_a_controller() -> None:
    async with later() as (_, channel):
        node = QuorumNode(channel)
        with pytest.raises(ApiError, match=r"NOT_CONTROLLER.*error 31999"):
            await node.confirm(1)
        with pytest.raises(ApiError, match="UNKNOWN_SERVER_ERROR: error 31999: not on a Monday"):
            await node.upgrade_kraft_version(1, 1)
        with pytest.raises(ApiError, match="UNKNOWN_SERVER_ERROR: error 31999: not on a Monday"):
            await node.ask("SetTargetVoters", AlterQuorumRequest(), deadline_ms=10_000)


async def test_of_the_leader_that_is_asked_for_other_voters(tmp_path: Path) -> None:
    """It is final: the client gets it, and nothing is asked again."""
    async with later() as (address, _):
        host, _, port = address.rpartition(":")
        driver = driver_of(open_disk(tmp_path, voters=3))
        driver.start(Silent(), pytest.fail)  # type: ignore[arg-type]  # what of Peers is used here
        endpoints = NodeEndpoints((), (), driver.core.log.voters)
        peer = PeerServicer(driver, endpoints, cluster_id="c", node_id=1)
        listener = ListenerEndpoint("CONTROLLER", host, int(port))
        leads = to_begin(BeginQuorumEpochRequest(epoch=3, leader_id=2), [listener])
        await peer.BeginQuorumEpoch(leads, SimpleNamespace(invocation_metadata=tuple))
        leader = LeaderFinder(driver, endpoints)
        async with aclosing(Alteration(AlterQuorumRequest(cancel=True), leader, driver, endpoints).steps()) as steps:
            with pytest.raises(ApiError, match="UNKNOWN_SERVER_ERROR: error 31999: not on a Monday"):
                await anext(steps)
        await leader.close()
        driver.stop()


async def test_of_the_quorum_node_that_is_sent_appends() -> None:
    """The link goes on: what is decided again after it leaves."""
    async with linked() as (link, quorum, told):
        quorum.refuses_next = LATER
        link.send(batch(10))

        assert ("UNKNOWN_SERVER_ERROR", 11) == await told.next()

        link.send(batch(11))

        assert ("appended", 12) == await told.next()


async def test_of_a_placer() -> None:
    async with later() as (address, _):
        placers = Client([address], PlacerStub)
        spec = PlacementSpec(partition_count=1, replication_factor=1)
        found = await Placing(placers, lambda: [UsableBroker(id=1, rack="a")]).place([("orders", spec)])
        await placers.close()

    refusal = found["orders"]
    assert isinstance(refusal, ApiError)
    assert (ErrorCode.UNKNOWN_SERVER_ERROR, {"topic": "orders"}) == (refusal.code, refusal.metadata)
    assert "error 31999: topic 'orders': not on a Monday" == refusal.message
