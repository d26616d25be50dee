"""A gateway tells the leader beside it how far readers are whom it has answered, and hears whether that is known."""

from __future__ import annotations

from typing import Final

import grpc
import pytest

from kraft import Uuid
from kraft.service.quorum_pb2 import ReportReadersRequest
from kraft.service.quorum_pb2_grpc import QuorumStub, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import ZERO_UUID, ReplicaKey
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.statuses import error_from_call
from services.gateway.reader_reports import reporting_to
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from tests.services.controllers import NOWHERE
from tests.services.scripted import WITHIN_S, listening

DIRECTORY: Final = Uuid(b"reader's own dir")


async def test_the_leader_lists_whom_a_gateway_has_answered_in_its_epoch(leader: QuorumDriver) -> None:
    peer = PeerServicer(leader, NodeEndpoints((), (), leader.core.log.voters), cluster_id="c", node_id=1)
    server, epoch, end = Server(), leader.core.role.epoch, leader.high_watermark
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
    async with listening(server) as address, open_channel(address) as channel:
        stub = QuorumStub(channel)
        report = reporting_to(stub)
        taken = await report(epoch, [(101, ZERO_UUID, end), (102, DIRECTORY, 0)])
        late = await report(epoch - 1, [(103, ZERO_UUID, end)])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ReportReaders(ReportReadersRequest(replica_ids=[1], directory_ids=["", ""]), timeout=WITHIN_S)
    async with open_channel(NOWHERE) as nowhere:
        gone = await reporting_to(QuorumStub(nowhere))(epoch, [(101, ZERO_UUID, end)])

    listed = {state.key: state.leo for state in leader.core.describe(leader.now_ms).observers}
    assert (True, False, False) == (taken, late, gone)
    assert {ReplicaKey(101): end, ReplicaKey(102, DIRECTORY): 0} == listed
    refused = error_from_call(caught.value)
    says = "directory_ids has 2 items, and replica_ids 1; all have as many"
    assert (ErrorCode.INVALID_REQUEST, says) == (refused.code, refused.message)
