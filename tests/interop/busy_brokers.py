"""Brokers of a Kafka release on the controllers of a quorum, and their clients, which write all the time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol

import confluent_kafka
from confluent_kafka import admin as confluent

from deploy.kafka.node import Node, Properties
from deploy.kafka.release import QUICK
from deploy.local.kafka import broker_of
from deploy.local.plan import ClusterPlan
from deploy.local.ports import HOST, free_ports
from quorate.nouns import NodeId
from tests.e2e.calls import eventually

PARTITIONS: Final = 2
WITHIN_S: Final = 300.0
"""Against hanging alone."""
ASK_S: Final = 10.0
SEND_EVERY_S: Final = 0.02
A_TRANSACTION: Final = 5
"""Records in each."""
IN_SYNC_MIN: Final = 2
IN_ORDER: Final = {"max.in.flight.requests.per.connection": 1}
"""With more, librdkafka begins a new producer epoch when a leader that has just come refuses a batch and takes the next
as out of order; it then sends again, as new, what an earlier leader may have written (librdkafka #4953)."""


class Controllers(Protocol):
    """A plan's cluster, and where Kafka brokers reach its nodes."""

    plan: ClusterPlan

    def kafka_address(self, node_id: NodeId) -> str:
        """The host and port of the node for Kafka's wire."""


class Brokers:
    """Kafka's brokers, which know all of `controllers` from the beginning."""

    def __init__(
        self,
        quorum: Controllers,
        ids: Sequence[NodeId],
        controllers: Sequence[NodeId],
        settings: Properties | None = None,
        options: Sequence[str] = QUICK,
    ) -> None:
        ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        servers = ",".join(quorum.kafka_address(node_id) for node_id in controllers)
        known = {"controller.quorum.bootstrap.servers": servers, "controller.quorum.voters": ""}
        self.nodes: dict[NodeId, Node] = {
            broker_id: broker_of(quorum.plan, broker_id, port, settings=known | dict(settings or {}), options=options)
            for broker_id, port in ports.items()
        }
        self.servers = ",".join(f"{HOST}:{port}" for port in ports.values())
        self._cluster_id = quorum.plan.cluster_id
        self.admin = confluent.AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    @property
    def ids(self) -> list[NodeId]:
        """Those that replicate each topic."""
        return [*self.nodes]

    async def start(self) -> None:
        """Formats and starts them; each is unfenced at the end."""
        for node in self.nodes.values():
            await asyncio.to_thread(node.format, self._cluster_id)
            node.start()
        for node in self.nodes.values():
            await asyncio.to_thread(node.wait_ready)

    async def whole(self, topics: Sequence[str]) -> dict[tuple[str, int], NodeId]:
        """The leader of each partition of these topics, once every broker is in the ISR of each."""

        async def leaders() -> dict[tuple[str, int], NodeId]:
            try:
                found = (await asyncio.to_thread(self.admin.list_topics, timeout=ASK_S)).topics
            except confluent_kafka.KafkaException:
                return {}
            if not set(topics) <= found.keys():
                return {}  # __transaction_state is made when it is first needed
            parts = {(name, each.id): each for name in topics for each in found[name].partitions.values()}
            is_whole = all(len(each.isrs) == len(self.ids) and each.leader in self.ids for each in parts.values())
            return {name: each.leader for name, each in parts.items()} if is_whole else {}

        return await eventually(leaders, within_s=WITHIN_S)

    async def close(self) -> None:
        """Ends those that run."""
        for node in self.nodes.values():
            if node.is_running:
                await asyncio.to_thread(node.kill)

    async def create(self, topic: str) -> None:
        """Makes a topic on all of them, through one: the first request has to do, with any leader by then.

        It has `min.insync.replicas` itself: with ELRs (KIP-966) the controllers have one for the cluster, and no broker
        looks at its own.
        """
        least = str(min(IN_SYNC_MIN, len(self.ids)))
        wanted = confluent.NewTopic(
            topic,
            num_partitions=PARTITIONS,
            replication_factor=len(self.ids),
            config={"min.insync.replicas": least},
        )
        made = self.admin.create_topics([wanted], operation_timeout=WITHIN_S, request_timeout=WITHIN_S)
        await asyncio.to_thread(made[topic].result, WITHIN_S)

    def read(self, topic: str) -> list[Found]:
        """All that is in a topic by now, but for the records of open and aborted transactions."""
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": "none",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        reader = confluent_kafka.Consumer(settings)
        found: list[Found] = []
        ended: set[int] = set()
        try:
            # Not as a group: that would need a topic for offsets.
            reader.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
            while len(ended) < PARTITIONS:
                record = reader.poll(WITHIN_S)
                assert record is not None, f"{topic} was not read to its end in {WITHIN_S} s: {found[-3:]}"
                if (error := record.error()) is None:
                    found.append(Found(int(record.value()), record.partition(), record.offset()))
                    ended.discard(record.partition())
                else:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    ended.add(record.partition())
        finally:
            reader.close()
        return found


class Found(NamedTuple):
    """A number that was read, and where it is."""

    number: int
    partition: int
    offset: int


class Writer:
    """An idempotent producer that writes numbers to a topic, acks=all, until it is asked to finish.

    `refused` has what was not retriable.
    """

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[int] = []
        self.refused: list[str] = []
        self._wait_s = 0.0
        self._brokers = brokers
        self._writes = True
        self._sent_s: dict[int, float] = {}
        """When each number was first sent that is not acknowledged yet."""

    def finish(self) -> None:
        """Lets it write what it has begun, and no more."""
        self._writes = False

    def producer(self, **settings: Any) -> confluent_kafka.Producer:
        common = {"bootstrap.servers": self._brokers.servers, "enable.idempotence": True, "log_level": 0}
        return confluent_kafka.Producer({**common, "message.timeout.ms": int(WITHIN_S * 1000), **settings})

    async def run(self) -> None:
        """Sends a record every 20 ms."""
        producer = self.producer(**IN_ORDER)
        number = 0
        while self._writes:
            self.send(number)
            producer.produce(self.topic, str(number).encode(), on_delivery=self._delivered)
            producer.poll(0)
            number += 1
            await asyncio.sleep(SEND_EVERY_S)
        left = await asyncio.to_thread(producer.flush, 2 * WITHIN_S)
        assert 0 == left, f"{self.topic}: nobody said what became of these"

    def _delivered(self, error: confluent_kafka.KafkaError | None, record: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledge(int(record.value()))
        else:
            self.refused.append(str(error))

    def send(self, *numbers: int) -> None:
        """Notes that these are about to be sent, perhaps once more."""
        now_s = time.monotonic()
        for number in numbers:
            self._sent_s.setdefault(number, now_s)

    def acknowledge(self, *numbers: int) -> None:
        now_s = time.monotonic()
        self._wait_s = max(self._wait_s, *(now_s - self._sent_s.pop(number) for number in numbers))
        self.acknowledged += numbers

    def longest_wait_s(self) -> float:
        """The longest time (s) from a record's first sending to its acknowledgement since this was last asked.

        A request that waits now counts as far as it has waited.
        """
        now_s = time.monotonic()
        first_s = min(list(self._sent_s.values()), default=now_s)
        longest_s, self._wait_s = max(self._wait_s, now_s - first_s), 0.0
        return longest_s

    async def judge(self) -> None:
        """Raises AssertionError unless what was acknowledged is there, once, and nothing else, and none was refused."""
        read = await asyncio.to_thread(self._brokers.read, self.topic)

        assert [] == self.refused
        told, found = Counter(self.acknowledged), Counter(each.number for each in read)
        doubled = found - told
        wrong = sorted((told - found).elements()), [each for each in read if each.number in doubled]
        assert ([], []) == wrong, f"{self.topic}: lost, and doubled or never acknowledged"


class TransactionalWriter(Writer):
    """The same in transactions; one that fails is aborted, and its records are written in the next."""

    async def run(self) -> None:
        await asyncio.to_thread(self._run)

    def _run(self) -> None:
        producer = self.producer(**{"transactional.id": self.topic, "transaction.timeout.ms": int(WITHIN_S * 1000)})
        producer.init_transactions(WITHIN_S)
        number = 0
        while self._writes:
            producer.begin_transaction()
            numbers = range(number, number + A_TRANSACTION)
            self.send(*numbers)
            try:
                for each in numbers:
                    producer.produce(self.topic, str(each).encode())
                _commit(producer)
            except confluent_kafka.KafkaException as failed:
                if not failed.args[0].txn_requires_abort():
                    self.refused.append(str(failed))
                    return
                producer.abort_transaction(WITHIN_S)
                continue
            self.acknowledge(*numbers)
            number = numbers.stop
            time.sleep(SEND_EVERY_S)


def _commit(producer: confluent_kafka.Producer) -> None:
    """Commits; asks again where that may be done, since the first request may have done it. Raises KafkaException."""
    while True:
        try:
            producer.commit_transaction(WITHIN_S)
        except confluent_kafka.KafkaException as failed:
            if not failed.args[0].retriable():
                raise
        else:
            return


@asynccontextmanager
async def at_work(brokers: Brokers, *writers: Writer) -> AsyncIterator[None]:
    """The brokers run, and clients write; at the end each writer is judged, and all are ended."""
    try:
        await brokers.start()
        for writer in writers:
            await brokers.create(writer.topic)
        async with asyncio.TaskGroup() as tasks:
            for writer in writers:
                tasks.create_task(writer.run())
            try:
                yield
            finally:
                for writer in writers:
                    writer.finish()
        for writer in writers:
            await writer.judge()
    finally:
        await brokers.close()
