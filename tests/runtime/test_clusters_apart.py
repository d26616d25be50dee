"""A reader of the log stays with its cluster, when another one answers at an address later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.local.ports import free_ports
from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.following.log_reader import CommittedBatch, LogReader
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from tests.services.nodes import sole_leader, write

OURS, THEIRS = "ours", "theirs"


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


@asynccontextmanager
async def node(directory: Path, port: int, *, cluster_id: str, batches: int) -> AsyncIterator[None]:
    """The only voter of a cluster, with these batches in its log."""
    async with sole_leader(directory, cluster_id=cluster_id) as driver:
        for _ in range(batches):
            await write(driver)
        endpoints = NodeEndpoints((), (), driver.core.log.voters)
        peer, server = PeerServicer(driver, endpoints, cluster_id=cluster_id, node_id=1), Server()
        server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
        server.listen(f"127.0.0.1:{port}")
        await server.start()
        yield
        await server.stop(grace_s=0)
        await peer.close()


@pytest.mark.parametrize("told", [OURS, None], ids=["its cluster is set", "its cluster is learned"])
@pytest.mark.parametrize("from_any", [False, True], ids=["from the leader", "from any"])
async def test_a_node_of_another_cluster_is_passed_over(tmp_path: Path, told: str | None, from_any: bool) -> None:
    """An address is given to somebody else: what stands there now is not the rest of the log."""
    own, reused = free_ports(2)
    servers = [f"127.0.0.1:{reused}", f"127.0.0.1:{own}"]
    reader = LogReader(servers, open_channel, cluster_id=told, from_any=from_any)
    events = reader.events()

    async def read(end: int) -> None:
        while reader.delivered < end:
            assert isinstance(await anext(events), CommittedBatch)

    async with asyncio.timeout(120):
        async with node(made(tmp_path / "before"), reused, cluster_id=OURS, batches=2):
            await read(3)

        assert reader.cluster_id == OURS

        async with (
            node(made(tmp_path / "stranger"), reused, cluster_id=THEIRS, batches=9),
            node(made(tmp_path / "moved"), own, cluster_id=OURS, batches=4),
        ):
            await read(5)

    assert (5, 5) == (reader.delivered, reader.high_watermark)
    assert 1 == reader.leader_id
    await reader.close()
