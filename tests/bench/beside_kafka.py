"""What a CreateTopics costs here and on the controllers of a Kafka release, alive at once and measured in turns.

Both have three voters, three fenced-off stand-ins of brokers that send no more heartbeats than it takes to be unfenced,
and answer on loopback in the clear. Ours are quorum, controller and gateway three times, placer, heartbeat service and
observer, without traces. CPU is that of all processes of a side. The client is one process of Python: over Kafka's
wire it has a connection for each request in flight, because a Kafka controller takes the next request of a connection
only when it has answered the last; over gRPC as few channels as may have them all under way.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId
from quorate.runtime.calls.wrapped_server import ServerLimits
from quorate.runtime.clients.client import open_channel
from quorate.wire.protobuf import to_protobuf, to_struct
from tests.bench.both_sides import Rounds, run_both
from tests.bench.measure import Table, cpu_seconds, ratio_table
from tests.interop.mixed_quorum import MixedQuorum

BROKERS: Final = (101, 102, 103)
ROUNDS: Final = 4
WARM_UP: Final = 12_800
"""Topics made on each side before: until then a JVM still compiles."""
SERIAL: Final = 200
IN_FLIGHT: Final = 64
AT_ONCE: Final = 1_280
LARGE: Final = 4
"""Large requests in a round, of each size."""
SIZES: Final = ((1, 1_000), (1, 5_000), (100, 1))
"""Topics and partitions of each."""
TIMEOUT_MS: Final = 60_000

Create = Callable[[int, CreateTopicsRequest], Awaitable[CreateTopicsResponse]]
"""Asks by one of the ways in flight, by its number."""


class Measured(Protocol):
    """Controllers that make topics, and what all processes behind them have used so far, in seconds of CPU."""

    @property
    def create(self) -> Create:
        """How they are asked."""

    @property
    def cpu_s(self) -> float:
        """Of all processes, from their start."""


@dataclass(slots=True, kw_only=True)
class Side:
    """One way to the active controller of one quorum, with the processes behind it."""

    name: str
    quorum: MixedQuorum
    create: Create

    @property
    def cpu_s(self) -> float:
        """What all processes have used so far."""
        return sum(map(cpu_seconds, self.quorum.pids))


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; some minutes."""
    return run_both(_measure)


async def _measure(kafkas: MixedQuorum, ours: MixedQuorum, life: AsyncExitStack) -> list[Table]:
    sides = [
        await by_wire("Kafka", kafkas, [*kafkas.kafkas], life),
        await by_grpc(ours, life),
        await by_wire("Quorate, Kafka's wire", ours, ours.ours, life),
    ]
    numbers, rounds = count(), Rounds(ROUNDS)
    for side in sides:
        await at_once(side, numbers, WARM_UP)
    for _ in rounds:
        for side in sides:
            rounds.add(side.name, await figures_of(side, numbers))
    title = f"Beside Kafka's controllers: {rounds.told}"
    return [ratio_table(title, "CreateTopics, RF 3", rounds.found, [side.name for side in sides])]


async def active(quorum: MixedQuorum, nodes: list[NodeId]) -> NodeId:
    """The active controller, where the brokers are unfenced then."""
    while True:
        for node_id in nodes:
            try:
                leader_id = (await quorum.described(at=node_id)).leader_id
                for broker_id in BROKERS:
                    await quorum.unfence(broker_id, at=leader_id)
            except (ApiError, OSError):
                await asyncio.sleep(0.1)
            else:
                return leader_id


async def by_wire(name: str, quorum: MixedQuorum, nodes: list[NodeId], life: AsyncExitStack) -> Side:
    """A side that is asked by its active controller's listener for Kafka's wire."""
    host, _, port = quorum.kafka_address(await active(quorum, nodes)).rpartition(":")
    connections: list[Connection] = [
        await life.enter_async_context(await connect(host, int(port))) for _ in range(IN_FLIGHT)
    ]

    async def create(place: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        answer = await connections[place].ask(request)
        assert isinstance(answer, CreateTopicsResponse), answer
        return answer

    return Side(name=name, quorum=quorum, create=create)


async def by_grpc(quorum: MixedQuorum, life: AsyncExitStack) -> Side:
    address = quorum.controller(await active(quorum, quorum.ours)).address
    return Side(name="Quorate, gRPC", quorum=quorum, create=await create_by_grpc(address, life))


async def create_by_grpc(address: str, life: AsyncExitStack) -> Create:
    """Asks by unary calls. A server has no more of a connection under way than its limit: the client keeps the rest."""
    channels = -(-IN_FLIGHT // ServerLimits().streams_per_connection_max)
    stubs = [ControllerStub(await life.enter_async_context(open_channel(address))) for _ in range(channels)]

    async def create(place: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        stub = stubs[place % channels]
        answer = to_struct(await stub.CreateTopics(to_protobuf(request), timeout=TIMEOUT_MS / 1000))
        assert isinstance(answer, CreateTopicsResponse), answer
        return answer

    return create


def wanted(numbers: count[int], topics: int = 1, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    made = (topic(f"bench-{next(numbers)}", partitions, len(BROKERS)) for _ in range(topics))
    return CreateTopicsRequest(topics=tuple(made), timeout_ms=TIMEOUT_MS)


async def created(side: Measured, place: int, request: CreateTopicsRequest) -> float:
    """Seconds until the answer."""
    began = time.perf_counter()
    answer = await side.create(place, request)
    took = time.perf_counter() - began
    assert not any(topic.error_code for topic in answer.topics), answer.topics[0]
    return took


async def at_once(side: Measured, numbers: count[int], requests: int) -> None:
    async def several(place: int) -> None:
        for _ in range(requests // IN_FLIGHT):
            await created(side, place, wanted(numbers))

    await asyncio.gather(*map(several, range(IN_FLIGHT)))


async def figures_of(side: Measured, numbers: count[int]) -> Mapping[str, float]:
    """One round of a side."""
    figures = {}
    used = side.cpu_s
    took = [await created(side, 0, wanted(numbers)) for _ in range(SERIAL)]
    figures["one at a time, p50"] = statistics.median(took)
    figures["one at a time, CPU a topic"] = (side.cpu_s - used) / SERIAL
    used, began = side.cpu_s, time.perf_counter()
    await at_once(side, numbers, AT_ONCE)
    figures[f"{IN_FLIGHT} in flight, topics/s"] = AT_ONCE / (time.perf_counter() - began)
    figures[f"{IN_FLIGHT} in flight, CPU a topic"] = (side.cpu_s - used) / AT_ONCE
    for topics, partitions in SIZES:
        took = [await created(side, 0, wanted(numbers, topics, partitions)) for _ in range(LARGE)]
        figures[f"{topics} × {partitions:,}, partitions/s"] = topics * partitions / statistics.median(took)
    return figures
