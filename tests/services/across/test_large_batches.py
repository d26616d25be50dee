"""A batch of as many records as a request may write is followed in turns, and seen as a whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc

from kraft.service.quorum_pb2 import ListenResponse
from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX
from quorate.controller.engine.engine import Engine
from quorate.metadata.state import ClusterState
from quorate.raft.history import History
from quorate.raft.voters import VoterSet
from quorate.records import TopicRecord, encode_record
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from quorate.wire.batch import data_batch
from services.controller.driver import ControllerDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from tests.bench.synthetic import uuid
from tests.services.nodes import committed, sole_leader
from tests.services.scripted import WITHIN_S, listening

COUNT, TURNS_MIN = RECORDS_PER_WRITE_MAX, 10
VALUES = [encode_record(TopicRecord(f"t{number}", uuid(f"t{number}")), 0) for number in range(COUNT)]


async def test_a_standby_has_other_turns_while_it_decodes_and_shows_no_half_of_a_batch() -> None:
    channel = grpc.aio.insecure_channel("localhost:1")  # nobody is there: the test says what the quorum node would
    driver = ControllerDriver(
        Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    data = data_batch(base_offset=0, epoch=1, timestamp_ms=0, values=VALUES)
    hearing = asyncio.create_task(driver.hear(ListenResponse(batches=ListenResponse.Batches(records=data))))
    seen = []
    while not hearing.done():
        seen.append((driver.next_offset(), len(driver.engine.state.topics)))
        await asyncio.sleep(0)
    await hearing

    assert len(seen) >= TURNS_MIN
    assert {(0, 0)} == set(seen)
    assert (COUNT, COUNT) == (driver.next_offset(), len(driver.engine.state.topics))
    await channel.close()


async def test_a_replica_shows_no_half_of_a_batch(tmp_path: Path) -> None:
    server = Server()
    async with sole_leader(tmp_path) as quorum:
        peer = PeerServicer(quorum, NodeEndpoints((), (), History(VoterSet.of(1))), cluster_id="c", node_id=1)
        server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
        async with listening(server) as address:
            reader = LogReader([address], open_channel)
            replica = Replica(reader, SystemClock(), OFF)
            running = asyncio.ensure_future(replica.run())
            written = quorum.append(quorum.core.role.epoch, quorum.core.log.leo, [VALUES])
            await committed(quorum, written.end_offset)
            seen = set()
            async with asyncio.timeout(WITHIN_S):
                while replica.applied < written.end_offset:
                    seen.add(len(replica.state.topics))
                    await asyncio.sleep(0)

            assert {0} == seen
            assert COUNT == len(replica.state.topics)
            running.cancel()
            await asyncio.wait([running])
            await reader.close()
