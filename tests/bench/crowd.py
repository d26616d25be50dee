"""A thousand brokers at the doors of either control plane: they read the log as it grows, and send heartbeats.

One process acts them all, each with a connection for its fetches and one for its heartbeats, as a broker has. A reader
fetches from where its last answer ended, in long polls; its request is made from one template, and answers that are the
same bytes are looked into once, so that the readers are not what is measured. Its lag is from the time that the leader
has written into a batch until the reader has the batch (ms, one clock). Meanwhile 64 topics are created at once, over
Kafka's wire on both sides. Ours are quorum, controller and gateway three times, placer, heartbeat service, observer.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from itertools import count
from typing import Final, NamedTuple

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC_ID, Epoch, NodeId, Offset
from quorate.protocol.apis import api_of
from quorate.protocol.frames import frame
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.runtime.event_loop.file_limit import raise_file_limit
from quorate.wire.batch import batches
from tests.bench.beside_kafka import AT_ONCE, IN_FLIGHT, Side, at_once, by_wire
from tests.bench.both_sides import Rounds, run_both
from tests.bench.measure import Table, ratio_table
from tests.interop.mixed_quorum import MixedQuorum

BROKERS: Final = int(os.environ.get("CROWD_BROKERS", "1000"))
FIRST_ID: Final = 10_001
ROUNDS: Final = int(os.environ.get("CROWD_ROUNDS", "3"))
REGISTER_AT_ONCE: Final = 20
HEARTBEAT_S: Final = 2.0
IDLE_S: Final = 5.0
"""How long the crowd is watched while nothing is written."""
FETCH_VERSION: Final = 17
HEARTBEAT_VERSION: Final = 1
MAX_WAIT_MS: Final = 500
FETCH_BYTES: Final = 1 << 20
CORRELATION_ID: Final = 7
"""Of every request: one is under way on a connection, and equal answers are equal bytes."""
OFFSET_MARK: Final = 0x1122334455667788
EPOCH_MARK: Final = 0x11223344
SIDES: Final = ("Kafka", "Quorate")


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; some minutes, most of them for the registrations."""
    raise_file_limit()
    return run_both(_measure)


async def _measure(kafkas: MixedQuorum, ours: MixedQuorum, life: AsyncExitStack) -> list[Table]:
    sides = [
        await by_wire(SIDES[0], kafkas, [*kafkas.kafkas], life),
        await by_wire(SIDES[1], ours, ours.ours, life),
    ]
    crowds = [await _crowd(side) for side in sides]
    numbers, rounds = count(), Rounds(ROUNDS)
    for side in sides:
        await at_once(side, numbers, AT_ONCE)
    for _ in rounds:
        for side, crowd in zip(sides, crowds, strict=True):
            async with crowd.awake():
                rounds.add(side.name, await _figures(side, crowd, numbers))
    title = f"{BROKERS:,} brokers that fetch and send heartbeats, {IN_FLIGHT} topics in flight: {rounds.told}"
    return [ratio_table(title, "what", rounds.found, SIDES)]


async def _figures(side: Side, crowd: Crowd, numbers: count[int]) -> dict[str, float]:
    await crowd.caught_up()
    crowd.forget()
    used, began = side.cpu_s, time.perf_counter()
    await asyncio.sleep(IDLE_S)
    idle = (side.cpu_s - used) / (time.perf_counter() - began)
    crowd.forget()
    used, began = side.cpu_s, time.perf_counter()
    await at_once(side, numbers, AT_ONCE)
    took = time.perf_counter() - began
    await crowd.caught_up()
    lags, beats = sorted(crowd.lags_s), sorted(crowd.beats_s)
    assert not crowd.refused, crowd.refused[:3]
    return {
        "at rest, CPU a second": idle,
        "topics/s": AT_ONCE / took,
        "CPU a topic": (side.cpu_s - used) / AT_ONCE,
        "a reader's lag, p50": statistics.median(lags),
        "a reader's lag, p99": lags[len(lags) * 99 // 100],
        "heartbeat, p50": statistics.median(beats),
        "heartbeat, p99": beats[len(beats) * 99 // 100],
    }


async def _crowd(side: Side) -> Crowd:
    """Registers and unfences the brokers, some at a time."""
    quorum = side.quorum
    told = await quorum.described_by_one_of(quorum.first_voters)
    waiting = iter(range(FIRST_ID, FIRST_ID + BROKERS))
    epochs: dict[NodeId, Epoch] = {}

    async def some(broker_ids: Iterator[NodeId]) -> None:
        for broker_id in broker_ids:
            epochs[broker_id] = await quorum.unfence(broker_id, at=told.leader_id)

    await asyncio.gather(*(some(waiting) for _ in range(REGISTER_AT_ONCE)))
    host, _, port = quorum.kafka_address(told.leader_id).rpartition(":")
    made = Crowd(quorum, told.leader_epoch, epochs)
    await made.connect(host, int(port))
    return made


class Seen(NamedTuple):
    """What the answer to a Fetch has: where the next one begins, when its last batch was written, what is committed."""

    next_offset: Offset
    last_epoch: Epoch
    written_ms: int
    high_watermark: Offset


class Crowd:
    """The brokers of one side; they ask nothing but within `awake`."""

    def __init__(self, quorum: MixedQuorum, epoch: Epoch, broker_epochs: dict[NodeId, Epoch]) -> None:
        self.lags_s: list[float] = []
        self.beats_s: list[float] = []
        self.refused: list[str] = []
        self.is_awake = False
        self.committed = 0
        self._quorum = quorum
        self._epoch = epoch
        self._broker_epochs = broker_epochs
        self._readers: list[_Reader] = []
        self._hearts: list[_Heart] = []

    async def connect(self, host: str, port: int) -> None:
        """Opens two connections for each broker. All read from the end of the log as it is now."""
        told = await self._quorum.described_by_one_of(self._quorum.first_voters)
        loop = asyncio.get_running_loop()
        for broker_id, broker_epoch in self._broker_epochs.items():
            reader = _Reader(self, self._fetch(broker_id), told.high_watermark, self._epoch)
            heart = _Heart(self, broker_id, broker_epoch)
            await loop.create_connection(partial(_itself, reader), host, port)
            await loop.create_connection(partial(_itself, heart), host, port)
            self._readers.append(reader)
            self._hearts.append(heart)

    def _fetch(self, broker_id: NodeId) -> FetchRequest:
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=METADATA_PARTITION,
            current_leader_epoch=self._epoch,
            fetch_offset=OFFSET_MARK,
            last_fetched_epoch=EPOCH_MARK,
            partition_max_bytes=FETCH_BYTES,
        )
        return FetchRequest(
            cluster_id=self._quorum.plan.cluster_id,
            replica_state=FetchRequest.ReplicaState(broker_id, -1),
            max_wait_ms=MAX_WAIT_MS,
            max_bytes=FETCH_BYTES,
            topics=(FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[None]:
        """They read and send heartbeats, spread over the interval."""
        self.is_awake = True
        loop = asyncio.get_running_loop()
        for place, (reader, heart) in enumerate(zip(self._readers, self._hearts, strict=True)):
            reader.ask()
            loop.call_later(HEARTBEAT_S * place / len(self._hearts), heart.ask)
        try:
            yield
        finally:
            self.is_awake = False
            await asyncio.sleep(HEARTBEAT_S + MAX_WAIT_MS / 1000)  # what is under way is answered

    async def caught_up(self) -> None:
        """Waits until every reader has all that is committed."""
        while True:
            told = await self._quorum.described_by_one_of(self._quorum.first_voters)
            if all(reader.offset >= told.high_watermark for reader in self._readers):
                self.committed = told.high_watermark
                return
            await asyncio.sleep(0.05)

    def forget(self) -> None:
        """Drops what was measured."""
        self.lags_s, self.beats_s = [], []


class _Caller(asyncio.Protocol, ABC):
    """One connection with one request under way; no ApiVersions, as the versions are known."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's are no subclasses of it

    def send(self, data: bytes) -> None:
        assert self._transport is not None, "connected"
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4 and len(self._data) >= 4 + (size := int.from_bytes(self._data[:4], "big")):
            answer = bytes(self._data[4 : 4 + size])
            del self._data[: 4 + size]
            self.hear(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.crowd.is_awake:
            self.crowd.refused.append(f"{type(self).__name__}: the connection has ended: {exc}")

    @abstractmethod
    def hear(self, answer: bytes) -> None:
        """Takes the bytes of an answer, without its length."""


class _Reader(_Caller):
    def __init__(self, crowd: Crowd, request: FetchRequest, offset: Offset, epoch: Epoch) -> None:
        super().__init__(crowd)
        self.offset, self._epoch = offset, epoch
        data = frame(_encoded(request, FETCH_VERSION))
        self._request = bytearray(data)
        self._offset_at = data.index(OFFSET_MARK.to_bytes(8, "big"))
        self._epoch_at = data.index(EPOCH_MARK.to_bytes(4, "big"), self._offset_at + 8)

    def ask(self) -> None:
        self._request[self._offset_at : self._offset_at + 8] = self.offset.to_bytes(8, "big")
        self._request[self._epoch_at : self._epoch_at + 4] = self._epoch.to_bytes(4, "big")
        self.send(bytes(self._request))

    def hear(self, answer: bytes) -> None:
        seen = _looked_into(answer)
        if isinstance(seen, str):
            self.crowd.refused.append(seen)
        elif seen is not None:
            self.offset, self._epoch = seen.next_offset, seen.last_epoch
            self.crowd.lags_s.append(time.time() - seen.written_ms / 1000)
        if self.crowd.is_awake:
            self.ask()


class _Heart(_Caller):
    def __init__(self, crowd: Crowd, broker_id: NodeId, broker_epoch: Epoch) -> None:
        super().__init__(crowd)
        self._broker_id, self._broker_epoch = broker_id, broker_epoch
        self._began_s = 0.0

    def ask(self) -> None:
        if not self.crowd.is_awake:
            return
        request = BrokerHeartbeatRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch, current_metadata_offset=self.crowd.committed
        )
        self._began_s = time.perf_counter()
        self.send(frame(_encoded(request, HEARTBEAT_VERSION)))

    def hear(self, answer: bytes) -> None:
        self.crowd.beats_s.append(time.perf_counter() - self._began_s)
        if (error := _error_of(answer)) != 0:
            self.crowd.refused.append(f"heartbeat: error {error}")
        asyncio.get_running_loop().call_later(HEARTBEAT_S, self.ask)


def _itself(caller: _Caller) -> _Caller:
    return caller


def _encoded(request: FetchRequest | BrokerHeartbeatRequest, version: int) -> bytes:
    api = api_of(type(request))
    return encode_request(api, request, version=version, correlation_id=CORRELATION_ID, client_id="crowd")


@lru_cache(256)
def _error_of(answer: bytes) -> int:
    _, position = decode_response_header(api_of(BrokerHeartbeatRequest), HEARTBEAT_VERSION, answer)
    return decode_body(BrokerHeartbeatResponse, answer, position, HEARTBEAT_VERSION).error_code


@lru_cache(256)
def _looked_into(answer: bytes) -> Seen | str | None:
    """Returns what an answer has, None if it has no records, or why it is none."""
    _, position = decode_response_header(api_of(FetchRequest), FETCH_VERSION, answer)
    body = decode_body(FetchResponse, answer, position, FETCH_VERSION)
    if body.error_code:
        return f"fetch: error {body.error_code}"
    partition = body.responses[0].partitions[0]
    if partition.error_code:
        return f"fetch: error {partition.error_code} of the partition"
    headers = [header for _, header in batches(partition.records or b"")]
    if not headers:
        return None
    last = headers[-1]
    return Seen(last.next_offset, last.epoch, last.max_timestamp, partition.high_watermark)
