"""UpdateFeatures of kraft.version is a write: it is acknowledged when it is committed, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from kraft.api.update_features_pb2 import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub, add_QuorumServicer_to_server, add_RaftClientServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft.voters import ListenerEndpoint
from quorate.runtime.calls.server import Server
from quorate.runtime.requests.statuses import error_from_call
from services.quorum.controller_presence import ControllerPresence
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer, RaftClientService
from tests.controller.clusters import uuid
from tests.services.controllers import InProcess, controller
from tests.services.nodes import committed, held_disk, sole_leader
from tests.services.scripted import WITHIN_S, listening

RAISE = UpdateFeaturesRequest(
    feature_updates=[
        UpdateFeaturesRequest.FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    ]
)


@dataclass(frozen=True)
class Node:
    """A quorum node that leads, and the active controller beside it."""

    quorum: QuorumDriver
    controller: InProcess

    async def update(self) -> UpdateFeaturesResponse:
        answer: UpdateFeaturesResponse = await self.controller.stub.UpdateFeatures(RAISE, timeout=WITHIN_S)
        return answer

    async def level_in_log(self) -> int:
        found = await QuorumStub(self.controller.channel).FindQuorum(FindQuorumRequest(), timeout=WITHIN_S)
        return found.kraft_version


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """At kraft.version 0; all that it has written is committed."""
    me, server = ReplicaKey(1, uuid(1)), Server()
    async with sole_leader(tmp_path, node=me, endpoints=[ListenerEndpoint("CONTROLLER", "127.0.0.1", 1)]) as quorum:
        servicer = RaftClientService(quorum, ControllerPresence(quorum, absence_timeout_ms=0))
        server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, servicer)
        peer = PeerServicer(quorum, NodeEndpoints((), (), quorum.core.log.voters), cluster_id="c", node_id=1)
        server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
        async with listening(server) as address, controller(address) as here:
            await here.until_active()
            await committed(quorum, here.driver.engine.next_offset)
            yield Node(quorum, here)


async def test_a_raised_level_is_acknowledged_once_it_is_committed(node: Node) -> None:
    with held_disk() as disk:
        first = asyncio.ensure_future(node.update())
        await asyncio.to_thread(disk.under_way.wait, WITHIN_S)
        again = asyncio.ensure_future(node.update())  # it finds the level in the log
        for _ in range(20):
            assert 1 == await node.level_in_log()

        assert not first.done()
        assert not again.done()
        disk.let_go()

        assert [0, 0] == [(await each).error_code for each in (first, again)]
        assert node.quorum.core.log.leo == node.quorum.high_watermark


async def test_a_level_whose_leader_is_lost_before_its_commit_is_not_acknowledged(node: Node) -> None:
    with held_disk() as disk:
        update = asyncio.ensure_future(node.update())
        await asyncio.to_thread(disk.under_way.wait, WITHIN_S)
        node.quorum.resign(1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await update

        assert ErrorCode.NOT_CONTROLLER is error_from_call(refused.value).code
        disk.let_go()
