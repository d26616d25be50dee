"""Records by gRPC: what a caller writes and reads, and what it may not."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kraft import Message
from kraft.api.fetch import FetchRequest
from kraft.api.fetch_pb2 import FetchRequest as FetchAsked
from kraft.api.list_offsets import ListOffsetsRequest
from kraft.api.list_offsets_pb2 import ListOffsetsRequest as OffsetsAsked
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kraft.api.offset_for_leader_epoch_pb2 import OffsetForLeaderEpochRequest as EpochsAsked
from kraft.api.produce import ProduceRequest
from kraft.api.produce_pb2 import ProduceRequest as ProduceAsked
from kraft.service.broker_pb2_grpc import BrokerStub, add_BrokerServicer_to_server
from quorate.authorizer import StandardAuthorizer
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, Acls, PatternType, ResourceType
from quorate.nouns import ANONYMOUS, ZERO_UUID
from quorate.records import AccessControlEntryRecord
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import call, open_channel
from quorate.runtime.event_loop.turns import in_turns
from quorate.timeline import SnapshotRegistry
from quorate.wire.batch import batches, records
from services.broker.callers import Caller, Callers
from services.broker.grpc_service import NAME, BrokerService
from tests.partition_log.batches import produced, summed
from tests.services.broker import test_partitions
from tests.services.broker.test_rights import Broker
from tests.services.broker.test_transactions import Leader, leading

disks = test_partitions.disks
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
HOST = "127.0.0.1"


class Served:
    """A leader of orders-0, and a client of its gRPC."""

    def __init__(self, leader: Leader, acls: Acls | None) -> None:
        self.broker = Broker(leader, leader.scene)
        authorizer = None if acls is None else StandardAuthorizer()
        callers = Callers(authorizer, lambda: acls or Acls(SnapshotRegistry()))
        self.server = Server()
        service = BrokerService(self._answer, callers, lambda _context: ANONYMOUS)
        self.server.add(NAME, add_BrokerServicer_to_server, service)
        self.port = self.server.listen(f"{HOST}:0")
        self.stub: Any = None

    async def _answer(self, asked: Message, version: int, caller: Caller) -> Message | None:
        match asked:
            case ProduceRequest():
                return await self.broker.produce.answer(asked, version, caller)
            case FetchRequest():
                return await self.broker.fetch.answer(asked, version, caller)
            case ListOffsetsRequest():
                return await in_turns(self.broker.offsets.list(asked, version, caller))
            case OffsetForLeaderEpochRequest():
                return await in_turns(self.broker.offsets.of_epochs(asked, caller))
        raise AssertionError(asked)

    async def produce(self, data: bytes, acks: int = 1) -> Any:
        topic = ProduceAsked.TopicProduceData(name="orders")
        topic.partition_data.add(index=0, records=data)
        asked = ProduceAsked(acks=acks, timeout_ms=1_000, topic_data=[topic])
        answer = await call(self.stub.Produce, asked, deadline_ms=30_000)
        return answer.responses[0].partition_responses[0]

    async def fetch(self) -> Any:
        topic = FetchAsked.FetchTopic(topic="orders")
        topic.partitions.add(partition=0, partition_max_bytes=1 << 20)
        asked = FetchAsked(max_wait_ms=0, session_epoch=-1, topics=[topic])
        return (await call(self.stub.Fetch, asked, deadline_ms=30_000)).responses[0].partitions[0]

    async def offsets(self) -> Any:
        topic = OffsetsAsked.ListOffsetsTopic(name="orders")
        topic.partitions.add(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        answer = await call(self.stub.ListOffsets, OffsetsAsked(replica_id=-1, topics=[topic]), deadline_ms=30_000)
        return answer.topics[0].partitions[0]

    async def epochs(self) -> Any:
        topic = EpochsAsked.OffsetForLeaderTopic(topic="orders")
        topic.partitions.add(partition=0, current_leader_epoch=-1, leader_epoch=0)
        asked = EpochsAsked(replica_id=-1, topics=[topic])
        answer = await call(self.stub.OffsetForLeaderEpoch, asked, deadline_ms=30_000)
        return answer.topics[0].partitions[0]


@asynccontextmanager
async def serving(disks: list[Path], acls: Acls | None = None) -> AsyncIterator[Served]:
    async with leading(disks) as leader:
        served = Served(leader, acls)
        await served.server.start()
        async with open_channel(f"{HOST}:{served.port}") as channel:
            served.stub = BrokerStub(channel)
            yield served
        await served.server.stop(grace_s=0.0)


async def test_what_is_written_is_read(disks: list[Path]) -> None:
    async with serving(disks) as served:
        written = await served.produce(produced(count=2))
        served.broker.leader.replicate()
        read = await served.fetch()
        ((_, header),) = batches(read.records)

        assert (0, 0) == (written.error_code, written.base_offset)
        assert [0, 1] == [each.offset for each in records(read.records, 0, header)]
        assert 2 == (await served.offsets()).offset
        assert 2 == (await served.epochs()).end_offset


async def test_a_batch_of_other_records_than_it_says_is_refused(disks: list[Path]) -> None:
    batch = bytearray(produced(count=1))
    count = (1 << 31) - 1
    batch[23:27], batch[57:61] = (count - 1).to_bytes(4), count.to_bytes(4)
    async with serving(disks) as served:
        assert ErrorCode.INVALID_RECORD == (await served.produce(summed(batch))).error_code
        assert 0 == served.broker.leader[0].log.leo


async def test_nobody_gets_ahead_of_a_batch_that_is_read_in_turns(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        parts = (0, produced(count=9_000, size=1)), (1, produced(count=2))
        first = asyncio.ensure_future(leader.produce(*parts, transactional_id=None))
        gone = asyncio.ensure_future(leader.produce((1, produced(count=5)), transactional_id=None))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert (True, False, 0) == (gone.cancelled(), first.done(), leader[0].log.leo)
        assert [ErrorCode.NONE] == await leader.produce((1, produced(count=3)), transactional_id=None)
        assert [ErrorCode.NONE] * 2 == await first

        slice_ = leader[1].log.read(0, 5, 1 << 20)
        assert slice_ is not None
        assert [2, 3] == [header.count for _, header in batches(slice_.read())]


async def test_each_call_has_an_answer_so_it_has_acks(disks: list[Path]) -> None:
    async with serving(disks) as served:
        with pytest.raises(ApiError, match="acks = 0: must be 1 or -1") as refused:
            await served.produce(produced(count=1), acks=0)

        assert ErrorCode.INVALID_REQUIRED_ACKS == refused.value.code
        assert 0 == served.broker.leader[0].log.leo


async def test_the_rights_are_those_of_kafkas_wire(disks: list[Path]) -> None:
    acls = Acls(SnapshotRegistry())
    async with serving(disks, acls) as served:
        calls = (lambda: served.produce(produced(count=1)), served.fetch, served.offsets, served.epochs)
        denied = [(await each()).error_code for each in calls]
        fields = (ResourceType.TOPIC, "orders", PatternType.LITERAL, str(ANONYMOUS), "*")
        entry = AccessControlEntryRecord(ZERO_UUID, *fields, AclOperation.WRITE, AclPermission.ALLOW)
        acls.add(entry, 0)
        allowed = [(await each()).error_code for each in calls]

        assert [DENIED] * 4 == denied
        assert [0, DENIED, 0, 0] == allowed
        assert 1 == served.broker.leader[0].log.leo


@pytest.mark.skipif(shutil.which("grpcurl") is None, reason="grpcurl is not on PATH")
async def test_grpcurl_writes_and_reads_a_record(disks: list[Path]) -> None:
    """As the README has it; what it reads is the batch that was sent, with its place in the log."""
    batch = base64.b64encode(produced(count=1)).decode()
    part = {"index": 0, "records": batch}
    asked = {"acks": 1, "timeout_ms": 5_000, "topic_data": [{"name": "orders", "partition_data": [part]}]}
    of_fetch = {"partition": 0, "partition_max_bytes": 1 << 20}
    async with serving(disks) as served:
        written = await grpcurl(served.port, "Produce", asked)
        served.broker.leader.replicate()
        topics = [{"topic": "orders", "partitions": [of_fetch]}]
        read = await grpcurl(served.port, "Fetch", {"session_epoch": -1, "topics": topics})

    assert "orders" == written["responses"][0]["name"]
    (found,) = read["responses"][0]["partitions"]
    ((_, header),) = batches(base64.b64decode(found["records"]))
    assert (0, 1) == (header.base_offset, header.count)


def test_reflection_describes_the_service_where_nobody_else_has_imported_its_file() -> None:
    program = (
        "from quorate.runtime.calls.symbols import is_described; from services.broker.grpc_service import NAME; "
        "assert is_described(NAME), NAME"
    )

    assert 0 == subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode


async def grpcurl(port: int, method: str, asked: object) -> Any:
    command = ["grpcurl", "-plaintext", "-d", json.dumps(asked), f"{HOST}:{port}", f"{NAME}/{method}"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert 0 == process.returncode
    return json.loads(out)
