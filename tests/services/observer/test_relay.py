"""An observer's relay asks the quorum for its readers, and under its own id: it can speak for no other node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kraft.api.fetch_pb2 import FetchRequest
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest
from kraft.service.quorum_pb2 import RelayFetchResponse, RelayFetchSnapshotResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer, QuorumStub, add_QuorumServicer_to_server
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.following.log_reader import LogReader
from services.observer.relay import ObserverLogService

OWN = 201
QUORUM = "kraft.service.Quorum"


class Asked(QuorumServicer):
    """A quorum node that notes who asks."""

    def __init__(self) -> None:
        self.fetches: list[tuple[int, str]] = []
        self.snapshots: list[int] = []

    async def RelayFetchStream(
        self, request_iterator: AsyncIterator[FetchRequest], context: Any
    ) -> AsyncIterator[RelayFetchResponse]:
        async for request in request_iterator:
            partition = request.topics[0].partitions[0]
            self.fetches.append((request.replica_state.replica_id, partition.replica_directory_id))
            yield RelayFetchResponse()

    async def RelayFetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> RelayFetchSnapshotResponse:
        self.snapshots.append(request.replica_id)
        return RelayFetchSnapshotResponse()


def fetch(replica_id: int, directory_id: str = "") -> FetchRequest:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(replica_directory_id=directory_id)
    return FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=replica_id), topics=[topic(partitions=[partition])]
    )


@pytest.mark.asyncio
async def test_a_reader_with_an_id_is_one_of_the_observers_own() -> None:
    asked, node = Asked(), Server()
    node.add(QUORUM, add_QuorumServicer_to_server, asked)
    address = f"127.0.0.1:{node.listen('127.0.0.1:0')}"
    await node.start()
    relay = ObserverLogService(LogReader([address], open_channel), [address], open_channel, node_id=OWN)  # type: ignore[abstract]
    observer = Server()
    observer.add(QUORUM, add_QuorumServicer_to_server, relay)
    port = observer.listen("127.0.0.1:0")
    await observer.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        for requests in ([fetch(1), fetch(1)], [fetch(1)], [fetch(-1, "a-reader")]):
            stream = QuorumStub(channel).RelayFetchStream(timeout=60)
            for request in requests:
                await stream.write(request)
                assert RelayFetchResponse() == await stream.read()
            await stream.done_writing()
        for replica_id in (1, -1):
            await QuorumStub(channel).RelayFetchSnapshot(FetchSnapshotRequest(replica_id=replica_id), timeout=60)
    await observer.stop(grace_s=0)
    await relay.close()
    await node.stop(grace_s=0)

    (first, again, second, nobody) = asked.fetches
    assert (OWN, OWN, (-1, "a-reader")) == (first[0], second[0], nobody)
    assert first == again  # one reader
    assert "" != first[1] != second[1]  # another one
    assert [OWN, -1] == asked.snapshots
