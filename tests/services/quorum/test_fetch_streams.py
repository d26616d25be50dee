"""A stream of fetches is one replica's: what it says of another is refused, and nothing is kept of that."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.service.quorum_pb2_grpc import QuorumStub, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC_ID, NodeId, uuid_text
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.statuses import error_from_call
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.handing_over import HandingOver
from services.quorum.servicer import PeerServicer
from tests.services.scripted import WITHIN_S, listening


class Streams(HandingOver):
    """Notes whose streams are open, as the servicer tells."""

    def __init__(self, driver: QuorumDriver) -> None:
        super().__init__(driver, late_ms=1, patience_ms=1)
        self.told: list[tuple[str, NodeId]] = []

    def opened(self, node_id: NodeId) -> None:
        super().opened(node_id)
        self.told.append(("opened", node_id))

    def closed(self, node_id: NodeId) -> None:
        super().closed(node_id)
        self.told.append(("closed", node_id))


def fetch(replica_id: NodeId) -> FetchRequest:
    """The log's first records."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=METADATA_PARTITION, current_leader_epoch=1, last_fetched_epoch=0
    )
    topic = FetchRequest.FetchTopic(topic_id=uuid_text(METADATA_TOPIC_ID), partitions=[partition])
    state = FetchRequest.ReplicaState(replica_id=replica_id)
    return FetchRequest(replica_state=state, max_bytes=1 << 20, topics=[topic])


@pytest.mark.parametrize(("first", "other"), [(20, 21), (-1, 20), (20, -1)])
async def test_a_fetch_of_another_replica_ends_the_stream(leader: QuorumDriver, first: NodeId, other: NodeId) -> None:
    streams, endpoints = Streams(leader), NodeEndpoints((), (), leader.core.log.voters)
    peer = PeerServicer(leader, endpoints, cluster_id="c", node_id=1, handing_over=streams)
    server = Server()
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
    async with listening(server) as address, open_channel(address) as channel:
        stream: Any = QuorumStub(channel).FetchStream(timeout=WITHIN_S)
        for _ in range(2):
            await stream.write(fetch(first))
            answer = await stream.read()
            assert isinstance(answer, FetchResponse)
            assert ErrorCode.NONE == answer.responses[0].partitions[0].error_code
        await stream.write(fetch(other))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()

    refused = error_from_call(caught.value)
    says = f"replica_id {other} in the stream of replica {first}: a stream of fetches is one replica's"
    assert (ErrorCode.INVALID_REQUEST, says) == (refused.code, refused.message)
    told = [] if first < 0 else [("opened", first), ("closed", first)]
    assert told == streams.told
    assert [each for each in (first,) if each >= 0] == [
        state.key.id for state in leader.core.describe(leader.now_ms).observers
    ]
