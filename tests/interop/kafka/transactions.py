"""Transactional producers that follow commands: Kafka's own and librdkafka's. Each call blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import confluent_kafka

from tests.interop.kafka.jvm import AnsweringJvm
from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Transactions.java")
PATIENCE_S: Final = 60.0


class Transactional(Protocol):
    """One transactional id. Raises AssertionError for what its user would get as an error."""

    def begin(self) -> None: ...

    def send(self, topic: str, values: Sequence[tuple[int, str]]) -> None:
        """Writes values to partitions, and waits until they are acknowledged."""

    def end(self, *, commits: bool) -> None: ...


class KafkasProducer:
    """The producer of Kafka's own client, in a JVM."""

    def __init__(self, jvm: AnsweringJvm) -> None:
        self._jvm = jvm
        self._do("init")

    def begin(self) -> None:
        self._do("begin")

    def send(self, topic: str, values: Sequence[tuple[int, str]]) -> None:
        self._do("send", topic=topic, values=values)

    def end(self, *, commits: bool) -> None:
        self._do("commit" if commits else "abort")

    def _do(self, what: str, **fields: object) -> None:
        answer: dict[str, Any] = self._jvm.ask({"do": what, **fields})
        assert answer == {"ok": True}, (what, answer)


class Librdkafkas:
    """The producer of librdkafka."""

    def __init__(self, servers: str, transactional_id: str) -> None:
        self._problems: list[str] = []
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": transactional_id, "linger.ms": 0}
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[tuple[int, str]]) -> None:
        for partition, value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=self._delivered)
        assert (0, []) == (self._producer.flush(PATIENCE_S), self._problems)

    def end(self, *, commits: bool) -> None:
        if commits:
            self._producer.commit_transaction(PATIENCE_S)
        else:
            self._producer.abort_transaction(PATIENCE_S)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._problems.append(str(error))


@contextmanager
def transactional(kind: str, servers: str, transactional_id: str) -> Iterator[Transactional]:
    """A producer of this kind, "kafka" or "librdkafka"."""
    if kind == "librdkafka":
        yield Librdkafkas(servers, transactional_id)
        return
    with AnsweringJvm(java("Transactions", servers, transactional_id, level="off", source=PROGRAM)) as jvm:
        yield KafkasProducer(jvm)


def read(servers: str, topic: str, partitions: int, *, committed: bool) -> dict[int, list[str]]:
    """The records from the beginning to the end offset that a consumer gets, by partition.

    With `committed` the end is the last stable offset.
    """
    settings: Mapping[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "none",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    consumer = confluent_kafka.Consumer(dict(settings))
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(partitions)])
    found: dict[int, list[str]] = {each: [] for each in range(partitions)}
    at_end: set[int] = set()
    while len(at_end) < partitions:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, found
        if (error := message.error()) is None:
            found[message.partition() or 0].append((message.value() or b"").decode())
        else:
            assert confluent_kafka.KafkaError._PARTITION_EOF == error.code(), error
            at_end.add(message.partition() or 0)
    consumer.close()
    return found
