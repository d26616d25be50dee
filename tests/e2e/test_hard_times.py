"""Old news, a crowd at the door, hardly any CPU: the leader stays the same, and writes go on (P-13, P-14, P-20)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import pytest_asyncio

from quorate.errors import ErrorCode
from quorate.nouns import NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from services.quorum import translate
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.cluster import VOTERS, Cluster, others, stored_batches
from tests.e2e.writer import Writer, caught_up, check, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

OBSERVER = 77
CROWD = 300
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""With it an HTTP/2 connection begins (RFC 9113, 3.4)."""
OPENINGS = (b"", PREFACE[:9], PREFACE, PREFACE + bytes(9), b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n")
"""Nothing; half a preface; a whole one; an empty SETTINGS; the beginning of a TLS handshake; HTTP/1.1."""
PULSE_S = 0.05
FETCH_TIMEOUT_MS = 5_000
"""Of a voter: more than a machine that does other things too takes from it by itself."""
QUORUM_SETTINGS = {node_id: {"controller.quorum.fetch.timeout.ms": str(FETCH_TIMEOUT_MS)} for node_id in VOTERS}
STARVED_S = 3 * FETCH_TIMEOUT_MS / 1000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def writer(cluster: Cluster, writer: Writer) -> Writer:
    """In a quorum that has a past: its leader is not the first one."""
    await cluster.pass_leadership(to=others(await cluster.leader()))
    return writer


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def undisturbed(cluster: Cluster, writer: Writer) -> AsyncIterator[None]:
    """Each of these stories ends under the leader and epoch with which it began."""
    before = await leadership(cluster)
    yield
    assert before == await leadership(cluster)
    await check(cluster, writer)


async def leadership(cluster: Cluster) -> tuple[NodeId, int]:
    await caught_up(cluster)
    view = await cluster.find(await cluster.active())
    return view.leader_id, view.leader_epoch


async def test_what_was_said_before_is_said_again(cluster: Cluster, writer: Writer) -> None:
    """Requests of the past and of the present reach both followers a second and a third time."""
    leader, epoch = await leadership(cluster)
    said: dict[str, raft.Request] = {
        "vote, of the epoch before": raft.VoteRequest(
            epoch=epoch - 1, replica=ReplicaKey(leader), last=OffsetAndEpoch(epoch=0, offset=1 << 40)
        ),
        "vote, when it was given": raft.VoteRequest(
            epoch=epoch, replica=ReplicaKey(leader), last=OffsetAndEpoch(epoch=epoch - 1, offset=0)
        ),
        "begin, by the leader": raft.BeginQuorumEpochRequest(epoch=epoch, leader_id=leader),
        "begin, by one before it": raft.BeginQuorumEpochRequest(epoch=epoch - 1, leader_id=others(leader)[0]),
        "end, of the epoch before": raft.EndQuorumEpochRequest(epoch=epoch - 1, leader_id=others(leader)[0]),
    }

    async with writing(writer, "again"):
        told = {
            what: {await answer(cluster, at, request) for at in others(leader) for _ in range(3)}
            for what, request in said.items()
        }

    assert {
        "vote, of the epoch before": {(ErrorCode.FENCED_LEADER_EPOCH, False)},
        "vote, when it was given": {(ErrorCode.NONE, False)},
        "begin, by the leader": {(ErrorCode.NONE, None)},
        "begin, by one before it": {(ErrorCode.FENCED_LEADER_EPOCH, None)},
        "end, of the epoch before": {(ErrorCode.FENCED_LEADER_EPOCH, None)},
    } == told


async def test_a_fetch_that_is_repeated_gets_the_same_bytes(cluster: Cluster) -> None:
    leader, epoch = await leadership(cluster)
    _, first_epoch, _ = stored_batches(cluster.plan.log_dir(leader))[0]  # the second, if the first ended early
    request = translate.to_fetch(
        raft.FetchRequest(
            epoch=epoch,
            replica=ReplicaKey(OBSERVER),
            fetch_offset=1,
            last_fetched_epoch=first_epoch,
            max_bytes=1_000,
            max_wait_ms=0,
        )
    )

    answers = [await cluster.quorum_stub(leader).Fetch(request, timeout=WITHIN_S) for _ in range(3)]

    [records] = {each.responses[0].partitions[0].records for each in answers}
    assert 0 < len(records) <= 1_000


async def test_a_crowd_that_never_says_what_it_wants(cluster: Cluster, writer: Writer) -> None:
    """Connections that are opened and left so, at the leader, its controller and the heartbeat tracker."""
    leader = await cluster.leader()
    doors = [cluster.quorum(leader).address, cluster.controller(leader).address, cluster.plan.heartbeat.address]
    with crowd(doors):
        async with writing(writer, "crowd"):
            pass
        for each in (cluster.quorum(leader), cluster.controller(leader), cluster.plan.heartbeat):
            await eventually(lambda each=each: cluster.health(each))


@pytest.mark.parametrize("who", ["leader", "followers"])
async def test_voters_that_get_half_of_the_time_keep_their_roles(cluster: Cluster, writer: Writer, who: str) -> None:
    """50 ms each way: no timeout of the quorum is as short, so nobody is taken for dead."""
    leader, epoch = await leadership(cluster)
    starving = [leader] if who == "leader" else others(leader)
    async with writing(writer, f"starved-{who}"), starved(cluster, starving):
        await asyncio.sleep(STARVED_S)

    assert (leader, epoch) == await leadership(cluster)


async def answer(cluster: Cluster, at: NodeId, request: raft.Request) -> tuple[ErrorCode, bool | None]:
    """What a voter says: its error, and whether it gives its vote."""
    stub = cluster.quorum_stub(at)
    match request:
        case raft.VoteRequest():
            vote = translate.from_vote(await stub.Vote(translate.to_vote(request), timeout=WITHIN_S), None)
            return vote.error, vote.granted
        case raft.BeginQuorumEpochRequest():
            begun = await stub.BeginQuorumEpoch(translate.to_begin(request), timeout=WITHIN_S)
            return translate.from_begin(begun, None).error, None
        case raft.EndQuorumEpochRequest():
            ended = await stub.EndQuorumEpoch(translate.to_end(request), timeout=WITHIN_S)
            return translate.from_end(ended, None).error, None
        case _:
            raise AssertionError(request)


@contextmanager
def crowd(doors: list[str]) -> Iterator[None]:
    """CROWD connections at each door, in every state that a connection may be left in."""
    opened: list[socket.socket] = []
    try:
        for number in range(CROWD):
            for door in doors:
                host, _, port = door.rpartition(":")
                opened.append(socket.create_connection((host, int(port)), timeout=WITHIN_S))
                opened[-1].sendall(OPENINGS[number % len(OPENINGS)])
        yield
    finally:
        for each in opened:
            each.close()


@asynccontextmanager
async def starved(cluster: Cluster, node_ids: list[NodeId]) -> AsyncIterator[None]:
    """These quorum nodes stand still for PULSE_S, run for PULSE_S, and so on."""

    async def pulse() -> None:
        while True:
            async with cluster.stopped(*(cluster.quorum(node_id) for node_id in node_ids)):
                await asyncio.sleep(PULSE_S)
            await asyncio.sleep(PULSE_S)

    pulsing = asyncio.ensure_future(pulse())
    try:
        yield
    finally:
        pulsing.cancel()
        await asyncio.wait([pulsing])
