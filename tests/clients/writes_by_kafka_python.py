"""Writes and reads by kafka-python: `python -m tests.clients.writes_by_kafka_python SERVERS TOPIC`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import kafka

from tests.clients.steps import run
from tests.clients.writing import PARTITION, TOO_LARGE, WAIT_S, Record, steps


class KafkaPython:
    """A `Client`."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers.split(",")
        self._topic = topic
        self._at = kafka.TopicPartition(topic, PARTITION)

    def write(
        self, records: Sequence[Record], *, codec: str = "none", acks: int = -1, idempotent: bool = False
    ) -> list[int]:
        producer: Any = kafka.KafkaProducer(
            bootstrap_servers=self._servers,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            enable_idempotence=idempotent,
            linger_ms=100,
            max_request_size=2 * TOO_LARGE,
        )
        try:
            told = [
                producer.send(
                    self._topic,
                    each.value,
                    each.key,
                    [("what", each.what)],
                    partition=PARTITION,
                    timestamp_ms=each.timestamp_ms,
                )
                for each in records
            ]
            producer.flush(WAIT_S)
            return [each.get(WAIT_S).offset for each in told]
        finally:
            producer.close()

    def bounds(self) -> tuple[int, int]:
        with _closing(self._consumer()) as consumer:
            return consumer.beginning_offsets([self._at])[self._at], consumer.end_offsets([self._at])[self._at]

    def offset_at(self, timestamp_ms: int) -> int:
        with _closing(self._consumer()) as consumer:
            found = consumer.offsets_for_times({self._at: timestamp_ms})[self._at]
            return -1 if found is None else int(found.offset)

    def read(self, offset: int, count: int) -> list[tuple[int, Record]]:
        with _closing(self._consumer()) as consumer:
            consumer.assign([self._at])
            consumer.seek(self._at, offset)
            return _taken(consumer, count)

    def in_group(self, count: int) -> int:
        group = {"group_id": f"{self._topic}-readers", "auto_offset_reset": "earliest"}
        with _closing(self._consumer(**group)) as consumer:
            consumer.subscribe([self._topic])
            _taken(consumer, count)
            consumer.commit()
            return int(consumer.committed(self._at))

    def _consumer(self, **settings: Any) -> Any:
        alone: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "none"}
        return kafka.KafkaConsumer(bootstrap_servers=self._servers, **{**alone, **settings})


@contextmanager
def _closing(consumer: Any) -> Iterator[Any]:
    """Closes a consumer without a commit."""
    try:
        yield consumer
    finally:
        consumer.close(autocommit=False)


def _taken(consumer: Any, count: int) -> list[tuple[int, Record]]:
    found: list[tuple[int, Record]] = []
    ends = time.monotonic() + WAIT_S
    while len(found) < count:
        if time.monotonic() > ends:
            raise TimeoutError(f"{len(found)} of {count} records")
        for polled in consumer.poll(timeout_ms=1_000, max_records=count - len(found)).values():
            for each in polled:
                ((_, what),) = each.headers
                found.append((each.offset, Record(each.key, each.value, what, each.timestamp)))
    return found


def _name_of(problem: Exception) -> str:
    return type(problem).__name__


if __name__ == "__main__":
    run(steps(KafkaPython(*sys.argv[1:])), _name_of)
