"""The requests of a quorum node to others: whatever happens to them, the node can end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from socket import socket

import grpc
import pytest
from msgspec.structs import replace

from kraft.api import fetch_pb2 as wire
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.api.update_raft_voter_pb2 import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft.service.quorum_pb2 import FindQuorumRequest, FindQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from quorate.raft.history import History
from quorate.raft.messages import FetchRequest, VoteRequest
from quorate.raft.ready import Send
from quorate.raft.voters import Voter, VoterSet
from quorate.runtime.calls.server import Server
from quorate.runtime.settings.setting_types import ConfiguredVoter, Endpoint
from services.quorum import translate
from services.quorum.endpoints import NodeEndpoints
from services.quorum.listeners import ListenerProtocols
from services.quorum.peers import Peers
from tests.services.scripted import listening

WITHIN_S = 120
ENDPOINTS = {3: translate.Address("three", 9093)}
FETCH = FetchRequest(
    epoch=1, replica=ReplicaKey(1), fetch_offset=0, last_fetched_epoch=0, max_bytes=1, max_wait_ms=1, reply_to=1
)


@contextmanager
def silent_server() -> Iterator[int]:
    """A port that takes connections, and never says a word."""
    with socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def make_peers(tasks: asyncio.TaskGroup, voters: tuple[ConfiguredVoter, ...], lost: list[NodeId]) -> Peers:
    """The requests of node 1, whose leader is node 2."""
    return Peers(
        NodeEndpoints(voters, (), History(VoterSet.of(1, 2))),
        tasks,
        heard=lambda answer: None,
        failed=lambda token: None,
        lost=lost.append,
        refused=lambda why: None,
        request_timeout_ms=1_000,
    )


class SilentLeader(QuorumServicer):
    """A leader that takes fetches and answers none; it counts the streams, and notes when one ends."""

    def __init__(self) -> None:
        self.opened = 0
        self.ends: asyncio.Queue[None] = asyncio.Queue()
        self.asked = asyncio.Event()

    async def FetchStream(self, request_iterator: AsyncIterator[wire.FetchRequest], context: object) -> None:
        self.opened += 1
        try:
            async for _ in request_iterator:
                self.asked.set()
            await asyncio.Event().wait()
        finally:
            self.ends.put_nowait(None)


@pytest.mark.parametrize("steps", range(6))
async def test_a_fetch_stream_ends_however_early_it_is_closed(steps: int) -> None:
    """gRPC's stream may be anywhere between made and under way after so many steps of the loop."""
    lost: list[NodeId] = []
    with silent_server() as port:
        voters = (ConfiguredVoter(2, Endpoint("127.0.0.1", port)),)
        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
            peers = make_peers(tasks, voters, lost)
            peers.send(Send(to=2, request=FETCH))
            for _ in range(steps):
                await asyncio.sleep(0)
            await peers.close()

    assert [] == lost


async def test_a_fetch_that_is_sent_again_does_not_wait_for_the_answer_that_did_not_come() -> None:
    """The leader may have dropped the first one (sim_driver, seed 50071 of a soak): it never answers on that stream."""
    lost: list[NodeId] = []
    leader = SilentLeader()
    server = grpc.aio.server()
    add_QuorumServicer_to_server(leader, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        voters = (ConfiguredVoter(2, Endpoint("127.0.0.1", port)),)
        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
            peers = make_peers(tasks, voters, lost)
            for again in range(3):
                peers.send(Send(to=2, request=FETCH))
                await leader.asked.wait()
                leader.asked.clear()

                assert again + 1 == leader.opened

            for _ in range(2):
                await leader.ends.get()
            await peers.close()
    finally:
        await server.stop(None)

    assert [] == lost


class Follower(QuorumServicer):
    """A node of ours that follows a Kafka leader, and is asked where that is by a node that has no log."""

    def __init__(self, cluster_id: str, host: str) -> None:
        self.cluster_id = cluster_id
        self.host = host

    async def FindQuorum(self, request: FindQuorumRequest, context: object) -> FindQuorumResponse:
        ours = FindQuorumResponse.Voter(id=3, host="three", port=9090)
        kafka = FindQuorumResponse.Voter(id=2, host=self.host, port=9093, listener="CONTROLLER")
        return FindQuorumResponse(cluster_id=self.cluster_id, leader_id=2, voters=[ours, kafka])


class Nonsense(QuorumServicer):
    """Answers with status OK, and with bytes that are no message."""

    async def Vote(self, request: object, context: object) -> bytes:
        return b"\xff"

    async def FindQuorum(self, request: object, context: object) -> bytes:  # type: ignore[override]
        return b"\xff"

    async def FetchStream(self, request_iterator: AsyncIterator[object], context: object) -> AsyncIterator[bytes]:  # type: ignore[override]
        async for _ in request_iterator:
            yield b"\xff"


@asynccontextmanager
async def talking_nonsense() -> AsyncIterator[Endpoint]:
    server = Server()
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, Nonsense())
    async with listening(server) as address:
        host, _, port = address.rpartition(":")
        yield Endpoint(host, int(port))


async def test_answers_that_do_not_parse_are_failed_requests() -> None:
    failed: asyncio.Queue[object] = asyncio.Queue()
    lost: list[NodeId] = []
    refused: list[str] = []
    vote = VoteRequest(epoch=1, replica=ReplicaKey(1), last=OffsetAndEpoch(epoch=0, offset=0), reply_to=7)
    async with talking_nonsense() as at, asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        peers = Peers(
            NodeEndpoints((ConfiguredVoter(2, at),), (), History(VoterSet.of(1, 2))),
            tasks,
            heard=lambda answer: None,
            failed=failed.put_nowait,
            lost=lost.append,
            refused=refused.append,
            request_timeout_ms=60_000,
        )
        peers.send(Send(to=2, request=vote))

        assert 7 == await failed.get()

        peers.send(Send(to=2, request=FETCH))

        assert 1 == await failed.get()

        await peers.close()

    assert ["the answer of node 2 to a VoteRequest: the answer does not parse as its message"] == refused
    assert [2] == lost


async def test_where_a_kafka_leads_is_asked_of_our_nodes() -> None:
    """An answer to a fetch over gRPC cannot say where Kafka's wire is spoken.

    An answer of another cluster's node does not count, nor one that does not parse.
    """
    failed: asyncio.Queue[object] = asyncio.Queue()
    server, ports = grpc.aio.server(), []
    other = grpc.aio.server()
    for each, follower in ((other, Follower("other", "elsewhere")), (server, Follower("c", "two"))):
        add_QuorumServicer_to_server(follower, each)
        ports.append(each.add_insecure_port("127.0.0.1:0"))
        await each.start()
    try:
        async with talking_nonsense() as nonsense, asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
            endpoints = NodeEndpoints(
                (),
                [nonsense, *(Endpoint("127.0.0.1", port) for port in ports)],
                History(VoterSet.of(1)),
                ListenerProtocols({"CONTROLLER": "PLAINTEXT"}),
            )
            peers = Peers(
                endpoints,
                tasks,
                heard=lambda answer: None,
                failed=failed.put_nowait,
                lost=lambda node_id: None,
                refused=lambda why: None,
                request_timeout_ms=60_000,
            )
            peers.send(Send(to=2, request=replace(FETCH, cluster_id="c")))

            assert 1 == await failed.get()

            while endpoints.peer(2) is None:  # noqa: ASYNC110  # there is no event: the next fetch goes there
                await asyncio.sleep(0.01)
            await peers.close()
    finally:
        await server.stop(None)
        await other.stop(None)

    assert "PLAINTEXT at two:9093" == str(endpoints.peer(2))
    assert endpoints.peer(3) is None


class Deposed(QuorumServicer):
    """It was left for node 3, and says where that listens."""

    async def EndQuorumEpoch(self, request: EndQuorumEpochRequest, context: object) -> EndQuorumEpochResponse:
        return translate.end_answer(raft.EndQuorumEpochResponse(epoch=2, leader_id=3), ENDPOINTS)

    async def UpdateRaftVoter(self, request: UpdateRaftVoterRequest, context: object) -> UpdateRaftVoterResponse:
        refused = raft.UpdateRaftVoterResponse(epoch=2, leader_id=3, error=ErrorCode.FENCED_LEADER_EPOCH)
        return translate.update_answer(refused, ENDPOINTS)


@pytest.mark.parametrize(
    "request_",
    [
        raft.EndQuorumEpochRequest(epoch=1, leader_id=1, preferred_successors=(), reply_to=7),
        raft.UpdateRaftVoterRequest(epoch=1, voter=Voter(key=ReplicaKey(1)), reply_to=7),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_an_answer_that_names_a_leader_says_where_it_listens(request_: raft.Request) -> None:
    """The core follows that leader as of the answer; the voters in the log may not have its present address."""
    heard: asyncio.Queue[raft.Response] = asyncio.Queue()
    server = Server()
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, Deposed())
    async with listening(server) as address, asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        host, _, port = address.rpartition(":")
        voters = (ConfiguredVoter(2, Endpoint(host, int(port))),)
        endpoints = NodeEndpoints(voters, (), History(VoterSet.of(1, 2, 3)))
        peers = Peers(
            endpoints,
            tasks,
            heard=heard.put_nowait,
            failed=lambda token: None,
            lost=lambda node_id: None,
            refused=lambda why: None,
            request_timeout_ms=60_000,
        )
        peers.send(Send(to=2, request=request_))

        assert 3 == (await heard.get()).leader_id
        assert "three:9093" == str(endpoints.peer(3))
        await peers.close()
