"""Records through librdkafka, and as they lie in the segments of a broker, of ours or of Kafka's."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import confluent_kafka

from quorate.wire.batch import batches, records
from tests.e2e.calls import eventually

PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.005


class Writer(threading.Thread):
    """An idempotent producer, so with acks=all, which writes to all partitions of a topic in turn until it is ended.

    `acknowledged` has offsets and values by partition. No value is written twice by it.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        partitions: int = 1,
        in_flight: int = 5,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self.acknowledged: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.problems: list[str] = []
        self._settings = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": in_flight,
            **(settings or {}),
        }
        self._topic = topic
        self._partitions = partitions
        self._is_over = threading.Event()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()
        await asyncio.to_thread(self.join)

    @property
    def count(self) -> int:
        """How many records are acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    async def more(self, count: int) -> None:
        """Waits until so many more are acknowledged in each partition."""
        wanted = {each: len(self.acknowledged[each]) + count for each in range(self._partitions)}

        async def behind() -> list[int]:
            return [each for each, least in wanted.items() if len(self.acknowledged[each]) < least]

        await eventually(behind, lambda seen: not seen)

    def run(self) -> None:
        producer = confluent_kafka.Producer(self._settings)
        number = 0
        while not self._is_over.is_set():
            producer.produce(
                self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=self._delivered
            )
            producer.poll(PAUSE_S)
            number += 1
        producer.flush(PATIENCE_S)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.problems.append(str(error))
            return
        self.acknowledged[message.partition() or 0].append((message.offset() or 0, message.value() or b""))


def consumed(
    servers: str, topic: str, ends: Mapping[int, int], more: Mapping[str, str] | None = None
) -> dict[int, dict[int, bytes]]:
    """What a consumer reads from the start of each partition up to its end (exclusive): values by offset."""
    settings = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False, **(more or {})}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in ends])
    found: dict[int, dict[int, bytes]] = {each: {} for each in ends}
    while any(max(found[each], default=-1) < end - 1 for each, end in ends.items()):
        message = consumer.poll(PATIENCE_S)
        assert message is not None, {each: len(seen) for each, seen in found.items()}
        assert message.error() is None, message.error()
        found[message.partition() or 0][message.offset() or 0] = message.value() or b""
    consumer.close()
    return found


def lost(acknowledged: Sequence[tuple[int, bytes]], seen: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
    """What was acknowledged at an offset where a reader sees something else, or nothing."""
    return [(offset, value) for offset, value in acknowledged if seen.get(offset) != value]


def stored(directory: Path) -> list[tuple[int, bytes]]:
    """Offsets and values in the segments of a replica's directory."""
    found = []
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        for position, header in batches(data):
            found += [(each.offset, each.value or b"") for each in records(data, position, header)]
    return found
