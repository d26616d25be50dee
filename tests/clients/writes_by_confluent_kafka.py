"""Writes and reads by librdkafka: `python -m tests.clients.writes_by_confluent_kafka SERVERS TOPIC`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka

from tests.clients.steps import run
from tests.clients.writing import PARTITION, TOO_LARGE, WAIT_S, Record, steps

QUIET: Final = {"log_level": 0}


class Librdkafka:
    """A `Client`."""

    def __init__(self, servers: str, topic: str) -> None:
        self._common = {"bootstrap.servers": servers, **QUIET}
        self._topic = topic

    def write(
        self, records: Sequence[Record], *, codec: str = "none", acks: int = -1, idempotent: bool = False
    ) -> list[int]:
        settings = {"compression.type": codec, "acks": acks, "enable.idempotence": idempotent, "linger.ms": 100}
        producer = confluent_kafka.Producer({**self._common, **settings, "message.max.bytes": 2 * TOO_LARGE})
        told: list[Any] = []
        for each in records:
            producer.produce(
                self._topic,
                each.value,
                each.key,
                PARTITION,
                timestamp=each.timestamp_ms,
                headers=[("what", each.what)],
                on_delivery=lambda error, message: told.append(error or message.offset()),
            )
        producer.flush(WAIT_S)
        for each in told:
            if isinstance(each, confluent_kafka.KafkaError):
                raise confluent_kafka.KafkaException(each)
        return told

    def bounds(self) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            return consumer.get_watermark_offsets(self._at(), timeout=WAIT_S)
        finally:
            consumer.close()

    def offset_at(self, timestamp_ms: int) -> int:
        consumer = self._consumer()
        try:
            (found,) = consumer.offsets_for_times([self._at(timestamp_ms)], timeout=WAIT_S)
            return -1 if found.offset == confluent_kafka.OFFSET_END else int(found.offset)
        finally:
            consumer.close()

    def read(self, offset: int, count: int) -> list[tuple[int, Record]]:
        consumer = self._consumer()
        try:
            consumer.assign([self._at(offset)])
            return _taken(consumer, count)
        finally:
            consumer.close()

    def in_group(self, count: int) -> int:
        consumer = self._consumer(**{"group.id": f"{self._topic}-readers", "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([self._topic])
            _taken(consumer, count)
            consumer.commit(asynchronous=False)
            (found,) = consumer.committed([self._at()], timeout=WAIT_S)
            return int(found.offset)
        finally:
            consumer.close()

    def _consumer(self, **settings: str) -> confluent_kafka.Consumer:
        alone = {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error"}
        return confluent_kafka.Consumer({**self._common, **alone, **settings})

    def _at(self, offset: int = 0) -> confluent_kafka.TopicPartition:
        return confluent_kafka.TopicPartition(self._topic, PARTITION, offset)


def _taken(consumer: confluent_kafka.Consumer, count: int) -> list[tuple[int, Record]]:
    found: list[tuple[int, Record]] = []
    while len(found) < count:
        message: Any = consumer.poll(WAIT_S)
        if message is None:
            raise TimeoutError(f"{len(found)} of {count} records")
        if message.error() is not None:
            raise confluent_kafka.KafkaException(message.error())
        ((_, what),) = message.headers()
        found.append((message.offset(), Record(message.key(), message.value(), what, message.timestamp()[1])))
    return found


def _name_of(problem: Exception) -> str:
    if isinstance(problem, confluent_kafka.KafkaException):
        return str(problem.args[0].name())
    return f"{type(problem).__name__}: {problem}"


if __name__ == "__main__":
    run(steps(Librdkafka(*sys.argv[1:])), _name_of)
