"""The good callers of `make neighbours`: twenty over Kafka's wire, by gRPC and logins, and at a broker of ours."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Protocol

import grpc

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.create_topics_pb2 import CreateTopicsRequest as CreateTopicsCall
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest as DescribeClusterCall
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.list_offsets_pb2 import ListOffsetsRequest as ListOffsetsCall
from kraft.api.produce import ProduceRequest, ProduceResponse
from kraft.service.broker_pb2_grpc import BrokerStub
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.errors import ApiError, error_of
from quorate.network.client import Connection, Timeouts, connect
from quorate.nouns import METADATA_TOPIC
from quorate.protocol.sasl.scram import ScramClient
from quorate.runtime.clients.client import open_channel
from quorate.runtime.connections.transport import Transport
from quorate.runtime.requests.statuses import error_from_call
from quorate.wire.batch import data_batch
from tests.bench.bad_neighbours_broker import AT_GRPC, AT_LOGINS, AT_WIRE
from tests.bench.bad_neighbours_logins import SCRAM_NUMBER
from tests.bench.neighbours_plane import GOOD, PASSWORD, TOPIC, Plane

PATIENCE: Final = Timeouts(connect_ms=60_000, request_ms=60_000)
PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.05
OF_EACH: Final = 5
"""Good callers of each kind over Kafka's wire: there are four kinds."""
OF_EACH_BY_GRPC: Final = 4
"""Over gRPC there are five."""


class Beside(Enum):
    """Where the good callers of a row are: at a gateway by Kafka's wire, by gRPC, or at a broker of ours."""

    WIRE = auto()
    GRPC = auto()
    BROKER = auto()


class Good(Protocol):
    """A good caller."""

    @property
    def name(self) -> str:
        """What it does."""

    async def ask(self) -> None:
        """One request and its answer, with the connection if there is none. Raises ApiError and OSError."""

    async def close(self) -> None:
        """Ends its connection."""


Once = Callable[[Connection], Awaitable[None]]
Connect = Callable[[], Awaitable[Connection]]


class ByWire:
    """One over Kafka's wire, which keeps its connection, or connects anew each time."""

    def __init__(self, name: str, connect: Connect, once: Once, *, keeps: bool) -> None:
        self.name = name
        self._connect = connect
        self._once = once
        self._keeps = keeps
        self._client: Connection | None = None

    async def ask(self) -> None:
        try:
            if self._client is None:
                self._client = await self._connect()
            await self._once(self._client)
        except (ApiError, OSError):
            await self.close()
            raise
        if not self._keeps:
            await self.close()

    async def close(self) -> None:
        if self._client is not None:
            self._client.abort()
            self._client = None


class ByGrpc:
    """One over gRPC, on a channel of its own, which it keeps, or opens anew each time."""

    def __init__(
        self,
        name: str,
        open: Callable[[], grpc.aio.Channel],
        once: Callable[[Any], Awaitable[None]],
        *,
        keeps: bool = True,
    ) -> None:
        self.name = name
        self._open = open
        self._once = once
        self._keeps = keeps
        self._channel: grpc.aio.Channel | None = None

    async def ask(self) -> None:
        if self._channel is None:
            self._channel = self._open()
        try:
            await self._once(self._channel)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(error) from None
        finally:
            if not self._keeps:
                await self.close()

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None


async def _write(client: Connection) -> None:
    topic = CreateTopicsRequest.CreatableTopic(f"good-{secrets.token_hex(8)}", 1, 1)
    answer = await client.ask_for(CreateTopicsResponse, CreateTopicsRequest((topic,), 60_000))
    _check(answer.topics[0].error_code, "CreateTopics")


async def _read(client: Connection) -> None:
    answer = await client.ask_for(DescribeClusterResponse, DescribeClusterRequest(endpoint_type=2))
    _check(answer.error_code, "DescribeCluster")


async def _quorum(client: Connection) -> None:
    part = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(topics=(part(METADATA_TOPIC, (part.PartitionData(0),)),))
    _check((await client.ask_for(DescribeQuorumResponse, request)).error_code, "DescribeQuorum")


async def _nothing(client: Connection) -> None:
    """They have waited for the connection."""


def _check(code: int, what: str) -> None:
    if code:
        raise ApiError(error_of(code), what)


def by_wire(connect: Connect, of_each: int = OF_EACH) -> list[Good]:
    """They write, read, ask for the quorum and connect anew."""
    kinds = [("write", _write, True), ("read", _read, True), ("quorum", _quorum, True), ("connect", _nothing, False)]
    return [ByWire(name, connect, once, keeps=keeps) for name, once, keeps in kinds for _ in range(of_each)]


async def _topic(channel: grpc.aio.Channel) -> None:
    topic = CreateTopicsCall.CreatableTopic(name=f"good-{secrets.token_hex(8)}", num_partitions=1, replication_factor=1)
    request = CreateTopicsCall(topics=[topic], timeout_ms=60_000)
    answer = await ControllerStub(channel).CreateTopics(request, timeout=PATIENCE_S)
    _check(answer.topics[0].error_code, "CreateTopics")


async def _beat(plane: Plane, channel: grpc.aio.Channel) -> None:
    beat = BrokerHeartbeatRequest(
        broker_id=plane.broker.id, broker_epoch=plane.broker.epoch, current_metadata_offset=2**60
    )
    _check((await HeartbeatStub(channel).BrokerHeartbeat(beat, timeout=PATIENCE_S)).error_code, "BrokerHeartbeat")


async def _observe(channel: grpc.aio.Channel) -> None:
    _check((await ObserverStub(channel).DescribeCluster(DescribeClusterCall(), timeout=PATIENCE_S)).error_code, "")


async def _log_in(users: Iterator[str], channel: grpc.aio.Channel) -> None:
    credentials = "Basic " + base64.b64encode(f"{next(users)}:{PASSWORD}".encode()).decode()
    answer = await ControllerStub(channel).DescribeCluster(
        DescribeClusterCall(), timeout=PATIENCE_S, metadata=(("authorization", credentials),)
    )
    _check(answer.error_code, "DescribeCluster")


def by_grpc(plane: Plane, of_each: int = OF_EACH_BY_GRPC) -> list[Good]:
    """They write, send heartbeats, read at the observer, and log in for the first time, by Basic and by SCRAM."""
    doors = plane.doors
    transport = Transport(keystore=doors.directory / f"{GOOD}.pem", truststore=doors.truststore)
    tls = plane.issuer.client()

    def opening(at: str) -> Callable[[], grpc.aio.Channel]:
        return partial(open_channel, f"{doors.host}:{doors.ports[at]}", transport)

    def as_others() -> grpc.aio.Channel:
        # A client of another make waits 20 s for a connection; `open_channel` gives up after 500 ms, and begins anew.
        pem = (doors.directory / f"{GOOD}.pem").read_bytes()
        credentials = grpc.ssl_channel_credentials(doors.truststore.read_bytes(), pem, pem)
        own = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.aio.secure_channel(f"{doors.host}:{doors.ports['controller']}", credentials, own)

    async def scram() -> Connection:
        user = next(plane.fresh_users)
        begin = partial(ScramClient, SCRAM_NUMBER, user, PASSWORD, nonce=partial(secrets.token_hex, 16))
        return await connect(doors.host, doors.ports["logins"], tls=tls, begin=begin, timeouts=PATIENCE)

    found: list[Good] = []
    for _ in range(of_each):
        found += [
            ByGrpc("write", opening("controller"), _topic),
            ByGrpc("heartbeat", opening("heartbeat"), partial(_beat, plane)),
            ByGrpc("observer", opening("observer"), _observe),
            ByGrpc("Basic login", as_others, partial(_log_in, plane.fresh_users), keeps=False),
            ByWire("SCRAM login", scram, _nothing, keeps=False),
        ]
    return found


async def _produce(client: Connection) -> None:
    topic = ProduceRequest.TopicProduceData
    batch = data_batch(base_offset=0, epoch=-1, timestamp_ms=int(time.time() * 1_000), values=[b"good"])
    request = ProduceRequest(None, 1, 60_000, (topic(TOPIC, partition_data=(topic.PartitionProduceData(0, batch),)),))
    answer = await client.ask_for(ProduceResponse, request, version=12)
    _check(answer.responses[0].partition_responses[0].error_code, "Produce")


async def _fetch(client: Connection) -> None:
    topic = FetchRequest.FetchTopic
    part = topic.FetchPartition(partition=0, partition_max_bytes=1 << 10)
    request = FetchRequest(max_wait_ms=0, session_epoch=-1, topics=(topic(topic=TOPIC, partitions=(part,)),))
    answer = await client.ask_for(FetchResponse, request, version=12)
    _check(answer.responses[0].partitions[0].error_code, "Fetch")


async def _offsets(channel: grpc.aio.Channel) -> None:
    topic = ListOffsetsCall.ListOffsetsTopic(name=TOPIC)
    topic.partitions.add(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    answer = await BrokerStub(channel).ListOffsets(ListOffsetsCall(replica_id=-1, topics=[topic]), timeout=PATIENCE_S)
    _check(answer.topics[0].partitions[0].error_code, "ListOffsets")


def at_broker(plane: Plane, of_each: int = OF_EACH_BY_GRPC) -> list[Good]:
    """They write, read, and connect anew at a broker of ours, by Kafka's wire and by gRPC, and log in by SCRAM."""
    doors = plane.doors
    transport = Transport(keystore=doors.directory / f"{GOOD}.pem", truststore=doors.truststore)
    member, stranger = plane.issuer.client(plane.issuer.directory / f"{GOOD}.pem"), plane.issuer.client()
    wire = partial(connect, doors.host, doors.ports[AT_WIRE], tls=member, timeouts=PATIENCE)

    async def scram() -> Connection:
        user = next(plane.fresh_users)
        begin = partial(ScramClient, SCRAM_NUMBER, user, PASSWORD, nonce=partial(secrets.token_hex, 16))
        return await connect(doors.host, doors.ports[AT_LOGINS], tls=stranger, begin=begin, timeouts=PATIENCE)

    found: list[Good] = []
    for _ in range(of_each):
        found += [
            ByWire("produce", wire, _produce, keeps=True),
            ByWire("fetch", wire, _fetch, keeps=True),
            ByWire("connect", wire, _nothing, keeps=False),
            ByWire("SCRAM login", scram, _nothing, keeps=False),
            ByGrpc("offsets", partial(open_channel, f"{doors.host}:{doors.ports[AT_GRPC]}", transport), _offsets),
        ]
    return found


@dataclass(slots=True)
class Waits:
    """What the good callers have met: each wait in s and whose it was; failures by reason, no answers among them."""

    waits: list[tuple[float, str]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    """How many requests of each caller have ended, by its place."""


async def _go_on(place: int, caller: Good, met: Waits) -> None:
    try:
        while True:
            began = time.monotonic()
            try:
                await caller.ask()
                met.waits.append((time.monotonic() - began, caller.name))
            except (ApiError, OSError) as failure:
                met.failures[f"{caller.name}: {failure}"[:200]] += 1
            met.ended[place] += 1
            await asyncio.sleep(PAUSE_S)
    finally:
        await caller.close()


@asynccontextmanager
async def going_on(callers: Sequence[Good]) -> AsyncIterator[Waits]:
    """They go on while the block runs."""
    met = Waits()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_go_on(place, each, met)) for place, each in enumerate(callers)]
        yield met
        for each in running:
            each.cancel()
