"""What requests at Kafka's wire cost a leader of ours in processor time: no JVM, no followers, one connection.

The leader is a process of its own with the broker's parts, a thousand partitions of one topic and uvloop; the client is
this process, with bytes that were made before. A follower of all partitions has a fetch session (KIP-227), as in a
broker at rest with one producer. `WIRE_ROUNDS` are the rounds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NoReturn

import uvloop

from kraft import Message
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.produce import ProduceRequest
from quorate.errors import ErrorCode
from quorate.network.listening import ConnectedClient, Handle, Listening
from quorate.network.server import serving
from quorate.nouns import parse_uuid
from quorate.protocol import Request
from quorate.protocol.apis import api_of
from quorate.protocol.frames import SIZE_BYTES, frame
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.runtime.telemetry.tracing import OFF
from services.broker.cluster import Cluster
from services.broker.fetch import Fetch
from services.broker.peers import Peers
from services.broker.produce import Produce
from services.broker.tracing import ProduceTraces
from services.broker.transaction_coordinators import TransactionCoordinators
from services.broker.verification import Verifier
from tests.bench.both_sides import Rounds
from tests.bench.measure import Table, cpu_seconds, ratio_table
from tests.partition_log.batches import produced
from tests.services.broker.calling import LISTENER, caller
from tests.services.broker.test_directories import IDS, formatted
from tests.services.broker.test_partitions import (
    BROKERS,
    LEVELS,
    ME,
    ORDERS,
    OTHER,
    TOPIC,
    Scene,
    partition,
    running,
)

ROUNDS: Final = int(os.environ.get("WIRE_ROUNDS", "5"))
PARTITIONS: Final = 1_000
KIB, MIB = 1 << 10, 1 << 20
SMALL_COUNT, LARGE_COUNT, TURNS = 1_000, 60, 60
PRODUCE_VERSION, FETCH_VERSION = 12, 17
BROKER_EPOCH: Final = 5
"""That the other replica is registered with."""
FIRST, NO_SESSION = 0, -1
"""The session epoch of a fetch that begins a session, and of one that wants none."""
SIDE: Final = "Quorate"

_Asked = FetchRequest.FetchTopic.FetchPartition


def run() -> list[Table]:
    """Some twenty seconds."""
    rounds = Rounds(ROUNDS)
    with _leader() as leader:
        for _ in rounds:
            rounds.add(SIDE, leader.figures())
    title = f"Requests at a leader of {PARTITIONS:,} partitions, processor time: {rounds.told}"
    return [ratio_table(title, "what", rounds.found, (SIDE,))]


@dataclass(slots=True, kw_only=True)
class Leader:
    """The process of the leader, and a connection to it. `end` is that of the first partition's log."""

    pid: int
    socket: socket.socket
    end: int = 0
    session_id: int = 0
    session_epoch: int = FIRST

    def figures(self) -> Mapping[str, float]:
        """One round."""
        small = produced(count=16, size=KIB, timestamp_ms=-1)
        large = produced(count=1_000, size=KIB, timestamp_ms=-1)
        found = {
            "a Produce of 16 KiB": self._cost(SMALL_COUNT, lambda: self._produce(small, 16)),
            "a Produce of 1 MiB": self._cost(LARGE_COUNT, lambda: self._produce(large, 1_000)),
        }
        offset = self.end - LARGE_COUNT * 1_000
        places = iter(range(offset, self.end, 1_000))
        found["a Fetch of 1 MiB"] = self._cost(LARGE_COUNT, lambda: self._fetch_one(next(places)))
        self._fetch_all()
        one = produced(timestamp_ms=-1)
        found[f"a record and a Fetch of {PARTITIONS:,} partitions"] = self._cost(TURNS, lambda: self._turn(one))
        return found

    def _cost(self, count: int, ask: Callable[[], None]) -> float:
        """Seconds of the leader's processor for each."""
        used = cpu_seconds(self.pid)
        for _ in range(count):
            ask()
        return (cpu_seconds(self.pid) - used) / count

    def _produce(self, batch: bytes, count: int) -> None:
        topic = ProduceRequest.TopicProduceData
        data = (topic(name="orders", partition_data=(topic.PartitionProduceData(0, batch),)),)
        self._ask(ProduceRequest(None, 1, 30_000, data), PRODUCE_VERSION)
        self.end += count

    def _fetch_one(self, offset: int) -> None:
        asked = _Asked(0, 0, offset, partition_max_bytes=MIB)
        self._ask(self._fetch((asked,), epoch=NO_SESSION), FETCH_VERSION)

    def _turn(self, batch: bytes) -> None:
        """A record is written and fetched, and the follower says so: two fetches of its session."""
        self._produce(batch, 1)
        self._go_on(self.end - 1)
        self._go_on(self.end)

    def _fetch_all(self) -> None:
        """Begins a session of all partitions, which the follower has to their ends."""
        every = (_Asked(index, 0, self.end if index == 0 else 0, 0) for index in range(PARTITIONS))
        request = self._fetch(tuple(every), epoch=FIRST, session_id=self.session_id)
        self.session_id, self.session_epoch = self._fetched(request).session_id, FIRST

    def _go_on(self, offset: int) -> None:
        self.session_epoch += 1
        asked = (_Asked(0, 0, offset, 0, partition_max_bytes=MIB),)
        self._ask(self._fetch(asked, epoch=self.session_epoch, session_id=self.session_id), FETCH_VERSION)

    def _fetch(self, asked: tuple[_Asked, ...], *, epoch: int, session_id: int = 0) -> FetchRequest:
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(OTHER, BROKER_EPOCH),
            min_bytes=1,
            max_bytes=10 * MIB,
            session_id=session_id,
            session_epoch=epoch,
            topics=(FetchRequest.FetchTopic(topic_id=TOPIC, partitions=asked),),
        )

    def _fetched(self, request: FetchRequest) -> FetchResponse:
        answer = self._ask(request, FETCH_VERSION)
        api = api_of(FetchRequest)
        _, position = decode_response_header(api, FETCH_VERSION, answer)
        found = decode_body(FetchResponse, answer, position, FETCH_VERSION)
        assert found.error_code == ErrorCode.NONE, found
        return found

    def _ask(self, message: Message, version: int) -> bytes:
        api = api_of(type(message))
        asked = encode_request(api, message, version=version, correlation_id=1, client_id="bench")
        self.socket.sendall(frame(asked))
        size = int.from_bytes(self._received(SIZE_BYTES))
        return bytes(self._received(size))

    def _received(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            view = view[self.socket.recv_into(view) :]
        return data


@contextmanager
def _leader() -> Iterator[Leader]:
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(there, directory))
    process.start()
    try:
        port = here.recv()
        with socket.create_connection(("127.0.0.1", port)) as connected:
            assert process.pid is not None
            yield Leader(pid=process.pid, socket=connected)
    finally:
        here.send(None)
        process.join()
        shutil.rmtree(directory)


def _serve(parent: Connection, directory: Path) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_served(parent, directory))


async def _served(parent: Connection, directory: Path) -> None:
    disks = [formatted(directory / text, parse_uuid(text), node_id=ME) for text in IDS]
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, *(partition(index) for index in range(PARTITIONS)))
        await scene.applied(lambda: len(scene.names) == PARTITIONS)
        apis = {api_of(each).key: api_of(each).versions for each in (ProduceRequest, FetchRequest)}
        listening = Listening(handle=_handler(scene), served=apis, describe_versions=_none, name=LISTENER)
        async with serving(listening, "127.0.0.1") as server:
            parent.send(server.port)
            await asyncio.to_thread(parent.recv)


def _handler(scene: Scene) -> Handle:
    cluster = Cluster(ME, "ours", LISTENER, lambda: scene.replica.state, scene.replicas.table)
    traces = ProduceTraces(OFF)
    coordinators = TransactionCoordinators(_none, Peers())
    produce = Produce(scene.replicas, cluster, traces, Verifier(scene.replicas, cluster, coordinators))
    fetch, who = Fetch(scene.replicas, cluster, traces), caller()

    async def handle(request: Request, _: ConnectedClient) -> Message | None:
        version = request.header.request_api_version
        if isinstance(request.message, ProduceRequest):
            return await produce.answer(request.message, version, who)
        assert isinstance(request.message, FetchRequest), request
        return await fetch.answer(request.message, version, who)

    return handle


def _none(*_: object) -> NoReturn:
    raise AssertionError("nobody asks for that")
