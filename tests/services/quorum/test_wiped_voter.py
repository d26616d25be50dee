"""A node without a log looks for its leader: the answers about its earlier disk, and whom it asks then."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kraft import Uuid
from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest
from kraft.api.fetch_pb2 import FetchRequest
from kraft.service.quorum_pb2_grpc import QuorumServicer, QuorumStub, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.roles import ElectionState, Follower
from quorate.raft.settings import RaftSettings
from quorate.raft.voters import ListenerEndpoint, VoterSet
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.settings.setting_types import Endpoint
from quorate.runtime.telemetry.tracing import OFF
from services.quorum import translate
from services.quorum.disk import Disk
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.peers import Peers
from services.quorum.servicer import PeerServicer
from services.quorum.tracing import AppendTracer
from tests.services.scripted import listening

WITHIN_S = 60
FOR_EVER_MS = 3_600_000
LEADER, WIPED = 2, 4
OLD, PRESENT = (ReplicaKey(WIPED, Uuid(bytes([each] * 16))) for each in (1, 2))


class Asked(QuorumServicer):
    """A node that notes which fetches it is sent, and answers none."""

    def __init__(self) -> None:
        self.epochs: asyncio.Queue[int] = asyncio.Queue()

    async def FetchStream(self, request_iterator: AsyncIterator[FetchRequest], context: object) -> None:
        async for request in request_iterator:
            self.epochs.put_nowait(request.topics[0].partitions[0].current_leader_epoch)
        await asyncio.Event().wait()


@asynccontextmanager
async def asked() -> AsyncIterator[tuple[Asked, Endpoint]]:
    node, server = Asked(), Server()
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, node)
    async with listening(server) as address:
        host, _, port = address.rpartition(":")
        yield node, Endpoint(host, int(port))


@asynccontextmanager
async def wiped(
    directory: Path, bootstrap: Sequence[Endpoint], *, election: ElectionState | None = None, fetch_timeout_ms: int
) -> AsyncIterator[tuple[QuorumDriver, QuorumStub]]:
    """Node 4 on another disk than before: its log is empty, and names no voter. The wait for an answer is long."""
    disk = Disk(directory, static=VoterSet(()), segment_bytes=1 << 30, segment_ms=1 << 40)
    view, clock = disk.view(), SystemClock()
    endpoints = NodeEndpoints((), bootstrap, view.voters)
    core = Raft(
        node=PRESENT,
        cluster_id="c",
        log=view,
        election=election,
        random=random.Random(1),
        now_ms=clock.monotonic_ms(),
        settings=RaftSettings(fetch_timeout_ms=fetch_timeout_ms, request_timeout_ms=FOR_EVER_MS),
        bootstrap=endpoints.bootstrap,
    )
    driver = QuorumDriver(core, disk, clock, AppendTracer(OFF, node_id=WIPED))
    server = Server()
    peer = PeerServicer(driver, endpoints, cluster_id="c", node_id=WIPED)
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
    failures: list[BaseException] = []
    async with asyncio.timeout(WITHIN_S), listening(server) as address, asyncio.TaskGroup() as tasks:
        peers = Peers(
            endpoints,
            tasks,
            heard=driver.hear,
            failed=driver.fail,
            lost=driver.lose,
            refused=driver.recorder.refused,
            request_timeout_ms=FOR_EVER_MS,
        )
        driver.start(peers, failures.append)
        async with open_channel(address) as channel:
            yield driver, QuorumStub(channel)
        driver.stop()
        await driver.stopped()
        await peers.close()
        await peer.close()
    disk.close()
    assert [] == failures


async def test_a_node_that_gives_up_its_leader_asks_another_in_the_same_turn(tmp_path: Path) -> None:
    """Else it waits for an answer that nobody is asked for, until its request timeout is over."""
    followed = ElectionState(epoch=5, leader_id=LEADER)
    async with asked() as (other, at), wiped(tmp_path, [at], election=followed, fetch_timeout_ms=50):
        assert 5 == await other.epochs.get()


@pytest.mark.parametrize("voter", [OLD, PRESENT], ids=["its earlier disk", "this disk"])
async def test_a_leader_that_means_the_earlier_disk_is_fetched_from_all_the_same(
    tmp_path: Path, voter: ReplicaKey
) -> None:
    """The epoch and the leader are entered before the refusal, so the address must be, too: nobody else may have it."""
    async with (
        asked() as (leader, at),
        wiped(tmp_path, [Endpoint("127.0.0.1", 1)], fetch_timeout_ms=FOR_EVER_MS) as (driver, stub),
    ):
        begin = raft.BeginQuorumEpochRequest(epoch=7, leader_id=LEADER, voter=voter, cluster_id="c")
        request: BeginQuorumEpochRequest = translate.to_begin(begin, [ListenerEndpoint("CONTROLLER", at.host, at.port)])
        answer = await stub.BeginQuorumEpoch(request)

        told = ErrorCode.NONE if voter == PRESENT else ErrorCode.INVALID_VOTER_KEY
        assert told == answer.topics[0].partitions[0].error_code
        assert 7 == await leader.epochs.get()
        assert isinstance(driver.core.role, Follower)
