"""A reader with `from_any` fetches from followers, and the leader learns only by reports how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import pytest

from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.service.quorum_pb2 import FindQuorumRequest, FindQuorumResponse, RelayFetchResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.following import leader_reports, log_reader
from quorate.runtime.following.log_reader import LogReader
from quorate.wire.batch import data_batch
from tests.services.scripted import WITHIN_S, listening

OBSERVER: Final = 7
EPOCH: Final = 3
VALUES: Final = (b"a", b"b")
END: Final = len(VALUES)

Topic = FetchResponse.FetchableTopicResponse


class Cluster:
    """Three nodes with one log of one batch, and who leads them."""

    def __init__(self) -> None:
        self.leader_id = 1
        self.nodes = {node_id: Node(self, node_id) for node_id in (1, 2, 3)}
        self.addresses: dict[int, str] = {}

    def reading(self) -> set[int]:
        """The nodes with an open stream."""
        return {node.node_id for node in self.nodes.values() if node.streams}


class Node(QuorumServicer):
    """A quorum node of the cluster; it notes its streams, and the fetches that come by themselves."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.streams = 0
        self.fetches: list[FetchRequest] = []
        self.refuses = False
        self.talks_nonsense = False

    async def FindQuorum(self, request: FindQuorumRequest, context: Any) -> FindQuorumResponse:
        voters = []
        for node_id, address in self._cluster.addresses.items():
            host, _, port = address.rpartition(":")
            voters.append(FindQuorumResponse.Voter(id=node_id, host=host, port=int(port)))
        return FindQuorumResponse(
            cluster_id="c", node_id=self.node_id, leader_id=self._cluster.leader_id, voters=voters
        )

    async def RelayFetchStream(
        self, request_iterator: AsyncIterator[FetchRequest], context: Any
    ) -> AsyncIterator[RelayFetchResponse]:
        self.streams += 1
        try:
            async for request in request_iterator:
                yield RelayFetchResponse(response=self._answer(request))
                await asyncio.sleep(0.02)
        finally:
            self.streams -= 1

    async def Fetch(self, request: FetchRequest, context: Any) -> Any:
        self.fetches.append(request)
        if self.talks_nonsense:
            return b"\xff"
        leads = self.node_id == self._cluster.leader_id
        return self._answer(request, ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _answer(self, request: FetchRequest, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
        leader = Topic.PartitionData.LeaderIdAndEpoch(leader_id=self._cluster.leader_id, leader_epoch=EPOCH)
        asked = request.topics[0].partitions[0]
        part = Topic.PartitionData(current_leader=leader, high_watermark=END)
        if error or self.refuses:
            part.error_code = error or ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[assignment]
        elif asked.current_leader_epoch != EPOCH:
            part.error_code = ErrorCode.FENCED_LEADER_EPOCH  # type: ignore[assignment]
        elif asked.fetch_offset == 0:
            part.records = data_batch(base_offset=0, epoch=EPOCH, timestamp_ms=0, values=VALUES)
        return FetchResponse(responses=[Topic(partitions=[part])])


@asynccontextmanager
async def three() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with AsyncExitStack() as stack:
        for node_id, node in cluster.nodes.items():
            server = Server()
            server.add("kraft.service.Quorum", add_QuorumServicer_to_server, node)
            cluster.addresses[node_id] = await stack.enter_async_context(listening(server))
        yield cluster


@asynccontextmanager
async def readers(
    cluster: Cluster, count: int = 1, *, replica_id: int = OBSERVER
) -> AsyncIterator[Sequence[LogReader]]:
    """So many that read all the time."""

    async def read(reader: LogReader) -> None:
        async for _ in reader.events():
            pass

    servers = list(cluster.addresses.values())
    made = [LogReader(servers, open_channel, replica_id=replica_id, from_any=True) for _ in range(count)]
    tasks = [asyncio.create_task(read(reader)) for reader in made]
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for reader in made:
            await reader.close()


def position(request: FetchRequest) -> tuple[int, int]:
    """The offset that is asked for, and the epoch of the record before it."""
    (partition,) = request.topics[0].partitions
    return partition.fetch_offset, partition.last_fetched_epoch


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110  # what the servers count has no event
            await asyncio.sleep(0.01)


async def test_readers_spread_over_the_followers() -> None:
    async with three() as cluster, readers(cluster, 40, replica_id=-1) as made:
        await until(lambda: all(reader.delivered == END for reader in made))
        await until(lambda: sum(node.streams for node in cluster.nodes.values()) == len(made))
        assert {2, 3} == cluster.reading()
        assert not any(node.fetches for node in cluster.nodes.values())  # nobody without an id is reported


async def test_the_leader_is_reported_how_far_an_observer_is() -> None:
    async with three() as cluster, readers(cluster) as (reader,):
        await until(lambda: (END, EPOCH) in map(position, cluster.nodes[1].fetches))
        assert {(OBSERVER, 0)} == {
            (each.replica_state.replica_id, each.max_wait_ms) for each in cluster.nodes[1].fetches
        }
        assert reader.delivered == END
        assert 1 not in cluster.reading()

        cluster.leader_id = 2
        await until(lambda: bool(cluster.nodes[2].fetches) and not cluster.nodes[2].streams)


async def test_a_follower_is_left_once_it_leads() -> None:
    async with three() as cluster, readers(cluster):
        await until(lambda: bool(cluster.reading()))
        for _ in range(3):
            (cluster.leader_id,) = cluster.reading()
            await until(lambda: len(cluster.reading() - {cluster.leader_id}) == 1 == len(cluster.reading()))
            assert cluster.leader_id not in cluster.reading()


async def test_the_leader_is_read_while_no_follower_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "FOLLOWER_LOOK_S", 0.5)
    async with three() as cluster:
        for node_id in (2, 3):
            cluster.nodes[node_id].refuses = True
        async with readers(cluster) as (reader,):
            await until(lambda: reader.delivered == END)
            assert {1} == cluster.reading()

            for node_id in (2, 3):
                cluster.nodes[node_id].refuses = False
            await until(lambda: bool(cluster.reading() & {2, 3}))


@pytest.mark.parametrize("fault", ["refuses", "talks_nonsense"])
async def test_reports_go_on_after_a_leader_that_did_not_take_them(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_reports, "REPORT_S", 0.05)
    async with three() as cluster:
        setattr(cluster.nodes[1], fault, True)
        async with readers(cluster):
            await until(lambda: list(map(position, cluster.nodes[1].fetches)).count((END, EPOCH)) > 2)
            setattr(cluster.nodes[1], fault, False)
            before = len(cluster.nodes[1].fetches)
            await until(lambda: len(cluster.nodes[1].fetches) > before)
            assert (END, EPOCH) == position(cluster.nodes[1].fetches[-1])
