"""What another make of controller may write: transactions that stay open, and records that nobody here knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kraft import Message, Uuid
from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.controller_pb2_grpc import ControllerServicer, add_ControllerServicer_to_server
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest
from kraft.service.quorum_pb2 import AppendRequest, ListenRequest
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.versions import record_version
from quorate.nouns import Epoch, NodeId, Offset
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnknownRecord,
    encode_record,
)
from quorate.runtime.calls.server import Server
from tests.e2e.calls import WITHIN_S, call_with_retries, eventually
from tests.e2e.cluster import VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

LEVEL = 30
BROKER = 177
TOPIC = Uuid(bytes(range(16)))
FAILED = 1


class Pretender:
    """A client that is the active controller, beside the node that leads."""

    def __init__(self, cluster: Cluster, node_id: NodeId, epoch: Epoch, next_offset: Offset, events: Any) -> None:
        self._call = RaftClientStub(cluster.channel(cluster.quorum(node_id))).Append()
        self._epoch, self.next_offset = epoch, next_offset
        self._events = events

    async def write(self, *records: Message) -> Offset:
        """One batch, committed; the answer is where it begins."""
        base_offset = self.next_offset
        values = [encode_record(record, record_version(record, LEVEL)) for record in records]
        await self._call.write(AppendRequest(epoch=self._epoch, base_offset=base_offset, values=values))
        answer: Any = await self._call.read()
        assert not answer.error_code, answer
        self.next_offset = answer.end_offset
        async for event in self._events:
            if event.committed.high_watermark >= self.next_offset:
                break
        return base_offset


@asynccontextmanager
async def pretending(cluster: Cluster) -> AsyncIterator[Pretender]:
    """No controller of ours runs meanwhile; in place of one there is one that knows no claims of heartbeat services."""
    for node_id in VOTERS:
        await cluster.kill(cluster.controller(node_id))
    controller = Server()
    controller.add("kraft.service.Controller", add_ControllerServicer_to_server, ControllerServicer())
    controller.listen(cluster.controller(VOTERS[0]).address)
    await controller.start()
    async with asyncio.timeout(2 * WITHIN_S):
        while True:
            leader = await cluster.leader()
            stub = RaftClientStub(cluster.channel(cluster.quorum(leader)))
            listening = stub.Listen(ListenRequest(next_offset=(await cluster.find(leader)).high_watermark))
            events = aiter(listening)
            led = await _led(events)
            if led is not None and led.leader_id == leader:
                break
            listening.cancel()
    yield Pretender(cluster, leader, led.epoch, led.next_offset, events)
    listening.cancel()
    await controller.stop(grace_s=0)


async def _led(events: AsyncIterator[Any]) -> Any:
    """The first news of leadership; None if that takes long."""
    try:
        async with asyncio.timeout(5):
            async for event in events:
                if event.HasField("leadership"):
                    return event.leadership
    except TimeoutError:
        pass
    return None


async def reached(cluster: Cluster, offset: Offset) -> None:
    """The observer and the heartbeat service tell of all below."""

    async def both() -> bool:
        sessions = (
            await call_with_retries(cluster.heartbeat_stub.DescribeSessions, DescribeSessionsRequest())
        ).response
        seen = await call_with_retries(cluster.observer_stub.DescribeTopicPartitions, DescribeTopicPartitionsRequest())
        return min(sessions.applied_offset, int(seen.trailing["kraft-offset"])) >= offset

    await eventually(both)


async def seen(cluster: Cluster) -> tuple[set[str], set[int], ErrorCode]:
    """Topics that the observer tells of, brokers that the heartbeat service knows, and what it says to a heartbeat."""
    sessions = (await call_with_retries(cluster.heartbeat_stub.DescribeSessions, DescribeSessionsRequest())).response
    brokers = {session.broker_id for session in sessions.sessions}
    return set(await cluster.topics()), brokers, await _heartbeat(cluster)


async def _heartbeat(cluster: Cluster) -> ErrorCode:
    request = BrokerHeartbeatRequest(broker_id=BROKER, broker_epoch=1, current_metadata_offset=1 << 40)
    try:
        await call_with_retries(cluster.heartbeat_stub.BrokerHeartbeat, request)
    except ApiError as refusal:
        return refusal.code
    return ErrorCode.NONE


def registration() -> RegisterBrokerRecord:
    """Unfenced; its epoch is no offset, so that a heartbeat waits for none."""
    return RegisterBrokerRecord(broker_id=BROKER, incarnation_id=TOPIC, broker_epoch=1, fenced=False)


def partition() -> PartitionRecord:
    return PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=(BROKER,),
        isr=(BROKER,),
        leader=BROKER,
        leader_epoch=0,
        partition_epoch=0,
        directories=(TOPIC,),
    )


@pytest.mark.parametrize(("end", "counts"), [(AbortTransactionRecord(None), False), (EndTransactionRecord(), True)])
async def test_what_may_still_be_aborted_is_told_by_nobody(cluster: Cluster, end: Message, counts: bool) -> None:
    """KIP-868: over two batches, as of a transaction that is longer than one."""
    async with pretending(cluster) as pretender:
        await reached(cluster, pretender.next_offset)
        before = await seen(cluster)
        assert BROKER not in before[1]
        assert ErrorCode.BROKER_ID_NOT_REGISTERED == before[2] or ErrorCode.STALE_BROKER_EPOCH == before[2]
        start = await pretender.write(BeginTransactionRecord("open"), registration())
        await pretender.write(TopicRecord("inside", TOPIC), partition())
        await reached(cluster, start)

        for _ in range(5):
            assert before == await seen(cluster)
        told_of = await call_with_retries(
            cluster.observer_stub.DescribeTopicPartitions, DescribeTopicPartitionsRequest()
        )
        assert start == int(told_of.trailing["kraft-offset"])

        await pretender.write(end)
        await reached(cluster, pretender.next_offset)
        topics, brokers, code = await seen(cluster)
        assert counts == ("inside" in topics) == (BROKER in brokers) == (code is ErrorCode.NONE)
    await cluster.heal()


async def test_a_controller_ends_at_a_record_that_it_does_not_know_and_readers_go_on(cluster: Cluster) -> None:
    """As a JVM does: what it decided next would rest on a state that is not the cluster's."""
    async with pretending(cluster) as pretender:
        await pretender.write(UnknownRecord(api_key=99, version=3, body=b"?"), NoOpRecord())
        await reached(cluster, pretender.next_offset)
    for node_id in VOTERS:
        await cluster.running.spawn(cluster.controller(node_id))
        assert FAILED == await cluster.ended(cluster.controller(node_id))
        log = (cluster.plan.directory / f"controller-{node_id}.log").read_text()
        assert "record type 99 in version 3 is not known here" in log

    assert "inside" in await cluster.topics()
    assert cluster.running.is_up(cluster.plan.observer)
    assert cluster.running.is_up(cluster.plan.heartbeat)
