"""Heartbeats and fetches of a hundred callers: over gRPC, at the gateway, and at a Kafka controller, in turns.

A hundred stand-ins of brokers send heartbeats that change nothing, one in flight each; then as many observers fetch
the same few kilobytes of the log, one request in flight each, as an observer does that has fallen behind. At the
gateway and at the Kafka controller each has a connection; over gRPC a heartbeat is a unary call or a message of a
stream, a fetch a message of a stream. The client is one process, and takes its part of the processor.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.network.client import Connection, connect
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC_ID, Epoch, NodeId, Offset
from quorate.runtime.clients.client import open_channel
from quorate.wire.batch import read_header
from quorate.wire.protobuf import to_protobuf, to_struct
from tests.bench.beside_kafka import TIMEOUT_MS
from tests.bench.both_sides import Rounds, run_both
from tests.bench.measure import Table, cpu_seconds
from tests.interop.mixed_quorum import MixedQuorum

CALLERS: Final = 100
BROKERS: Final = range(1_001, 1_001 + CALLERS)
STREAMS: Final = 25
"""Of one connection, which may have 32."""
ROUNDS: Final = int(os.environ.get("DOOR_ROUNDS", "3"))
SECONDS: Final = 2.0
FILLED: Final = 1_000
"""Partitions of the topic that makes what there is to fetch."""
FETCH_BYTES: Final = 8 << 10
FETCH_FROM: Final = 8
"""Behind the records that begin a cluster; all fetch what follows the batch that is there."""
KAFKA, GATEWAY, GRPC = DOORS = ("Kafka", "gateway", "gRPC")

Ask = Callable[[int], Awaitable[None]]
"""One request of a caller, by its number, and its answer."""


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; about a minute."""
    return run_both(_measure)


async def _measure(kafkas: MixedQuorum, ours: MixedQuorum, life: AsyncExitStack) -> list[Table]:
    theirs, own = Door(kafkas), Door(ours)
    for door in (theirs, own):
        await door.fill()
    ways = [
        *[(what, KAFKA, theirs, way) for what, way in (await _by_wire(theirs, life)).items()],
        *[(what, GATEWAY, own, way) for what, way in (await _by_wire(own, life)).items()],
        *[(what, GRPC, own, way) for what, way in (await _by_grpc(own, life)).items()],
    ]
    for _, _, _, way in ways:
        await _rate(way, SECONDS / 10)
    rounds = Rounds(ROUNDS)
    for _ in rounds:
        for what, name, door, way in ways:
            used = door.cpu_s
            count, seconds = await _rate(way, SECONDS)
            rounds.add(name, {f"{what}/s": count / seconds, f"{what}, CPU": (door.cpu_s - used) / count})
    return [_table(rounds)]


class Door:
    """A quorum with its stand-ins of brokers, by broker epoch, and what is committed there."""

    def __init__(self, quorum: MixedQuorum) -> None:
        self.quorum = quorum
        self.leader_id: NodeId = -1
        self.epoch: Epoch = -1
        self.committed = 0
        self.fetched: tuple[Offset, Epoch] = (FETCH_FROM, -1)
        """From where all fetch, and the epoch of the record before it."""
        self.broker_epochs: dict[NodeId, Epoch] = {}

    @property
    def cpu_s(self) -> float:
        """What all processes have used so far."""
        return sum(map(cpu_seconds, self.quorum.pids))

    @property
    def address(self) -> str:
        """Where the active controller speaks Kafka's wire."""
        return self.quorum.kafka_address(self.leader_id)

    async def fill(self) -> None:
        """Brokers and a topic, once somebody leads."""
        nodes = self.quorum.first_voters
        self.leader_id = (await self.quorum.described_by_one_of(nodes)).leader_id
        for broker_id in BROKERS:
            self.broker_epochs[broker_id] = await self.quorum.unfence(broker_id, at=self.leader_id)
        topic = CreateTopicsRequest.CreatableTopic("filled", FILLED, 3)
        answer = await self.quorum.ask(self.leader_id, CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS))
        assert isinstance(answer, CreateTopicsResponse), answer
        assert not answer.topics[0].error_code, answer.topics[0]
        told = await self.quorum.described(at=self.leader_id)
        self.epoch, self.committed = told.leader_epoch, told.high_watermark
        self.fetched = FETCH_FROM, self.epoch
        host, _, port = self.address.rpartition(":")
        async with await connect(host, int(port)) as connection:
            found = await connection.ask_for(FetchResponse, self.fetch())
        first = read_header(found.responses[0].partitions[0].records or b"")
        self.fetched = first.next_offset, first.epoch

    def heartbeat(self, number: int) -> BrokerHeartbeatRequest:
        """That of a broker that has read all there is, and wants nothing."""
        broker_id = BROKERS[number]
        return BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=self.broker_epochs[broker_id], current_metadata_offset=self.committed
        )

    def fetch(self) -> FetchRequest:
        """That of an observer that is behind: it is answered at once."""
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=METADATA_PARTITION,
            current_leader_epoch=self.epoch,
            fetch_offset=self.fetched[0],
            last_fetched_epoch=self.fetched[1],
            partition_max_bytes=FETCH_BYTES,
        )
        topic = FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        return FetchRequest(
            cluster_id=self.quorum.plan.cluster_id, max_wait_ms=500, max_bytes=FETCH_BYTES, topics=(topic,)
        )


async def _by_wire(door: Door, life: AsyncExitStack) -> Mapping[str, Ask]:
    host, _, port = door.address.rpartition(":")
    connections: list[Connection] = [
        await life.enter_async_context(await connect(host, int(port))) for _ in range(CALLERS)
    ]
    beats, fetch = [door.heartbeat(number) for number in range(CALLERS)], door.fetch()

    async def heartbeat(number: int) -> None:
        answer = await connections[number].ask(beats[number])
        assert isinstance(answer, BrokerHeartbeatResponse), answer
        assert not answer.error_code, answer

    async def fetched(number: int) -> None:
        _check(await connections[number].ask(fetch))

    return {"heartbeats": heartbeat, "fetches": fetched}


async def _by_grpc(door: Door, life: AsyncExitStack) -> Mapping[str, Ask]:
    plan = door.quorum.plan
    tracker = HeartbeatStub(await life.enter_async_context(open_channel(plan.heartbeat.address)))
    leader = door.quorum.quorum(door.leader_id).address
    calls: list[Any] = []
    while len(calls) < CALLERS:
        stub = QuorumStub(await life.enter_async_context(open_channel(leader)))
        calls += [stub.FetchStream() for _ in range(STREAMS)]
    beats = [to_protobuf(door.heartbeat(number)) for number in range(CALLERS)]
    fetch = to_protobuf(door.fetch())

    async def heartbeat(number: int) -> None:
        answer = await tracker.BrokerHeartbeat(beats[number])
        assert not answer.error_code, answer

    async def fetched(number: int) -> None:
        await calls[number].write(fetch)
        _check(to_struct(await calls[number].read()))

    return {"heartbeats": heartbeat, "fetches": fetched}


def _check(answer: Any) -> None:
    """It has records."""
    assert isinstance(answer, FetchResponse), answer
    partition = answer.responses[0].partitions[0]
    assert not partition.error_code, partition
    assert partition.records, partition


async def _rate(ask: Ask, seconds: float) -> tuple[int, float]:
    """How many were answered in how many seconds."""
    began = time.perf_counter()
    ends = began + seconds

    async def one(number: int) -> int:
        count = 0
        while time.perf_counter() < ends:
            await ask(number)
            count += 1
        return count

    counts = await asyncio.gather(*map(one, range(CALLERS)))
    return sum(counts), time.perf_counter() - began


def _table(rounds: Rounds) -> Table:
    """Ratios first, of medians; above 1 the gateway is better."""
    rows, data = [], []
    for what, by_door in rounds.found.items():
        is_rate = what.endswith("/s")
        values = {name: statistics.median(by_door[name]) for name in DOORS}
        ratios = [values[GATEWAY] / values[other] for other in (KAFKA, GRPC)]
        told = [ratio if is_rate else 1 / ratio for ratio in ratios]
        cells = [f"{values[name]:,.0f}" if is_rate else f"{values[name] * 1e6:.0f} µs" for name in DOORS]
        rows.append((what, *(f"{ratio:.2f}" for ratio in told), *cells))
        data.append({"what": what, **by_door})
    title = f"{CALLERS} callers, one request in flight each, CPU of all processes: {rounds.told}"
    return Table(title=title, columns=("what", "gateway / Kafka", "gateway / gRPC", *DOORS), rows=rows, data=data)
