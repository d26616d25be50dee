"""Writes and reads by aiokafka: `python -m tests.clients.writes_by_aiokafka SERVERS TOPIC`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import aiokafka

from tests.clients.steps import run
from tests.clients.writing import PARTITION, TOO_LARGE, WAIT_S, Record, steps

Found = TypeVar("Found")


class Aiokafka:
    """A `Client`; each call has its own producer or consumer, and waits for its end."""

    def __init__(self, runner: asyncio.Runner, servers: str, topic: str) -> None:
        self._run = runner.run
        self._servers = servers
        self._topic = topic
        self._at = aiokafka.TopicPartition(topic, PARTITION)

    def write(
        self, records: Sequence[Record], *, codec: str = "none", acks: int = -1, idempotent: bool = False
    ) -> list[int]:
        return self._run(self._write(records, codec, acks, idempotent=idempotent))

    async def _write(self, records: Sequence[Record], codec: str, acks: int, *, idempotent: bool) -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._servers,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            enable_idempotence=idempotent,
            linger_ms=100,
            max_request_size=2 * TOO_LARGE,
        )
        async with producer:
            told = [
                await producer.send(
                    self._topic,
                    each.value,
                    each.key,
                    partition=PARTITION,
                    timestamp_ms=each.timestamp_ms,
                    headers=[("what", each.what)],
                )
                for each in records
            ]
            async with asyncio.timeout(WAIT_S):
                return [each.offset if each is not None else -1 for each in await asyncio.gather(*told)]

    def bounds(self) -> tuple[int, int]:
        async def asked(consumer: Any) -> tuple[int, int]:
            first, last = await consumer.beginning_offsets([self._at]), await consumer.end_offsets([self._at])
            return first[self._at], last[self._at]

        return self._reading(asked)

    def offset_at(self, timestamp_ms: int) -> int:
        async def asked(consumer: Any) -> int:
            found = (await consumer.offsets_for_times({self._at: timestamp_ms}))[self._at]
            return -1 if found is None else found.offset

        return self._reading(asked)

    def read(self, offset: int, count: int) -> list[tuple[int, Record]]:
        async def asked(consumer: Any) -> list[tuple[int, Record]]:
            consumer.assign([self._at])
            consumer.seek(self._at, offset)
            return await _taken(consumer, count)

        return self._reading(asked)

    def in_group(self, count: int) -> int:
        async def asked(consumer: Any) -> int:
            consumer.subscribe([self._topic])
            await _taken(consumer, count)
            await consumer.commit()
            committed: int = await consumer.committed(self._at)
            return committed

        return self._reading(asked, group_id=f"{self._topic}-readers", auto_offset_reset="earliest")

    def _reading(self, asks: Callable[[Any], Awaitable[Found]], **settings: Any) -> Found:
        async def read() -> Found:
            alone: dict[str, Any] = {"auto_offset_reset": "none", "enable_auto_commit": False}
            async with aiokafka.AIOKafkaConsumer(bootstrap_servers=self._servers, **{**alone, **settings}) as consumer:
                return await asks(consumer)

        return self._run(read())


async def _taken(consumer: Any, count: int) -> list[tuple[int, Record]]:
    found: list[tuple[int, Record]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            each = await consumer.getone()
            ((_, what),) = each.headers
            found.append((each.offset, Record(each.key, each.value, what, each.timestamp)))
    return found


def _name_of(problem: Exception) -> str:
    return type(problem).__name__


if __name__ == "__main__":
    with asyncio.Runner() as running:
        run(steps(Aiokafka(running, *sys.argv[1:])), _name_of)
