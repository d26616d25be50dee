"""A Kafka's controllers are moved to Quorate and back, with brokers and a client at work: MIXED.md, step by step.

Three controllers of a released Kafka; three of our nodes that join them; ours alone; three new Kafkas that join ours;
Kafkas alone. A broker's client writes all the time, and a topic is made through a broker at each stage.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka import admin as confluent

pytest.register_assert_rewrite("tests.interop.mixed_quorum", "tests.e2e.cluster")

from deploy.kafka.node import Node  # noqa: E402
from deploy.kafka.release import POM  # noqa: E402
from deploy.local.kafka import broker_of  # noqa: E402
from deploy.local.ports import HOST, free_ports  # noqa: E402
from kraft.api.describe_quorum import DescribeQuorumResponse  # noqa: E402
from quorate.cli.offline import load  # noqa: E402  # assertions of the helpers tell values from here on
from quorate.errors import ApiError  # noqa: E402
from quorate.nouns import NodeId  # noqa: E402
from tests.e2e.calls import eventually  # noqa: E402
from tests.interop.kafka.release import absent  # noqa: E402
from tests.interop.mixed_quorum import MixedQuorum, kafkas_alone  # noqa: E402

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]

OURS: Final = (1, 2, 3)
KAFKAS: Final = (4, 5, 6)
BROKERS: Final = (101, 102)
PARTITIONS: Final = 2
WITHIN_S: Final = 300.0
"""Against hanging alone."""
WRITTEN: Final = "written-all-the-time"
SEND_EVERY_S: Final = 0.02


class Brokers:
    """Kafka's brokers, which know every controller of both sides from the beginning, and a client of theirs."""

    def __init__(self, quorum: MixedQuorum) -> None:
        ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        servers = ",".join(quorum.kafka_address(node_id) for node_id in (*KAFKAS, *OURS))
        known = {"controller.quorum.bootstrap.servers": servers, "controller.quorum.voters": ""}
        self._nodes: list[Node] = [
            broker_of(quorum.plan, broker_id, port, pom=POM, settings=known) for broker_id, port in ports.items()
        ]
        self._cluster_id = quorum.plan.cluster_id
        self.servers = ",".join(f"{HOST}:{port}" for port in ports.values())
        self.acknowledged: list[int] = []
        self.refused: list[str] = []
        self._writes = True

    async def start(self) -> None:
        for node in self._nodes:
            await asyncio.to_thread(node.format, self._cluster_id)
            node.start()
        for node in self._nodes:
            await asyncio.to_thread(node.wait_ready)

    async def close(self) -> None:
        for node in self._nodes:
            if node.is_running:
                await asyncio.to_thread(node.kill)

    async def create(self, topic: str) -> None:
        """Makes a topic on both, through a broker: the first try has to do."""
        admin = confluent.AdminClient({"bootstrap.servers": self.servers})
        wanted = confluent.NewTopic(topic, num_partitions=PARTITIONS, replication_factor=len(BROKERS))
        made = admin.create_topics([wanted], operation_timeout=WITHIN_S, request_timeout=WITHIN_S)
        await asyncio.to_thread(made[topic].result, WITHIN_S)

    async def write(self) -> None:
        """Writes numbers with acks=all, each once, until `finish`; refusals that are not retriable are kept."""
        settings = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "message.timeout.ms": WITHIN_S * 1000,
        }
        producer = confluent_kafka.Producer(settings)
        number = 0
        while self._writes:
            producer.produce(WRITTEN, str(number).encode(), on_delivery=self._delivered)
            producer.poll(0)
            number += 1
            await asyncio.sleep(SEND_EVERY_S)
        await asyncio.to_thread(producer.flush, WITHIN_S)

    def finish(self) -> None:
        self._writes = False

    def _delivered(self, error: confluent_kafka.KafkaError | None, record: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged.append(int(record.value()))
        else:
            self.refused.append(str(error))

    def read(self, count: int) -> list[int]:
        """The first records of all partitions; fewer if there are no more in time."""
        settings = {"bootstrap.servers": self.servers, "group.id": "readers", "auto.offset.reset": "earliest"}
        reader = confluent_kafka.Consumer(settings)
        try:
            places = [confluent_kafka.TopicPartition(WRITTEN, number, 0) for number in range(PARTITIONS)]
            reader.assign(places)  # a group would need a topic of three replicas
            return [int(each.value()) for each in reader.consume(count, WITHIN_S)]
        finally:
            reader.close()


@asynccontextmanager
async def at_work(quorum: MixedQuorum) -> AsyncIterator[Brokers]:
    """The brokers run, and a client writes; at the end it has written the last, and all is compared."""
    brokers = Brokers(quorum)
    try:
        await brokers.start()
        await brokers.create(WRITTEN)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(brokers.write())
            try:
                yield brokers
            finally:
                brokers.finish()
        read = await asyncio.to_thread(brokers.read, len(brokers.acknowledged))

        assert [] == brokers.refused
        assert sorted(brokers.acknowledged) == sorted(read)
    finally:
        await brokers.close()


async def test_controllers_move_to_quorate_and_back_while_brokers_and_a_client_work(tmp_path: Path) -> None:
    async with kafkas_alone(tmp_path, ours=len(OURS), kafkas=len(KAFKAS)) as quorum, at_work(quorum) as brokers:
        await brokers.create("by-kafkas")

        await quorum.start_ours()
        await voters(quorum, {*KAFKAS, *OURS})
        await brokers.create("by-both")

        for node_id in KAFKAS:
            await quorum.stop_kafka(node_id)
            await quorum.change_voters("remove-controller", node_id)
        await voters(quorum, {*OURS})
        assert (await quorum.led_by(OURS)).leader_id in OURS
        await brokers.create("by-ours")

        for node_id in KAFKAS:
            await quorum.format_kafka(node_id)
            await quorum.start_kafka(node_id)
            await quorum.change_voters("add-controller", node_id)
        await voters(quorum, {*KAFKAS, *OURS})
        await brokers.create("by-both-again")
        by_both = await committed(quorum, KAFKAS + OURS)

        for node_id in OURS:
            await quorum.end_ours(node_id)
            await quorum.change_voters("remove-controller", node_id, by=KAFKAS)
        await voters(quorum, {*KAFKAS})
        await brokers.create("by-kafkas-again")
        in_the_end = await committed(quorum, KAFKAS)

    stages = ["by-kafkas", "by-both", "by-ours", "by-both-again", "by-kafkas-again"]
    for node_id in KAFKAS:
        assert {WRITTEN, *stages} <= {topic.name for topic in load(quorum.data(node_id)).state.topics}, node_id
    assert stages == [topic for topic in quorum.topics_in(KAFKAS[0]) if topic in stages]
    assert {*OURS} & {*quorum.leaders_in(KAFKAS[0])}
    for others, end in ((KAFKAS, in_the_end), (OURS, by_both)):
        for node_id in others:
            assert quorum.log_of(KAFKAS[0], below=end) == quorum.log_of(node_id, below=end), node_id


async def committed(quorum: MixedQuorum, nodes: Iterable[NodeId]) -> int:
    """The high watermark, once every one of these nodes has all that is below it."""
    told = await eventually(lambda: described(quorum, nodes))
    assert told is not None
    end = told.high_watermark

    async def ends() -> list[int]:
        found = await described(quorum, nodes)
        return [] if found is None else [each.log_end_offset for each in found.current_voters]

    await eventually(ends, lambda seen: bool(seen) and min(seen) >= end, within_s=WITHIN_S)
    return int(end)


async def voters(quorum: MixedQuorum, wanted: Iterable[NodeId]) -> None:
    """Waits until these vote, as whoever is active tells it on Kafka's wire."""

    async def told() -> set[NodeId]:
        found = await described(quorum, wanted)
        return set() if found is None else {each.replica_id for each in found.current_voters}

    await eventually(told, lambda seen: seen == set(wanted), within_s=WITHIN_S)


async def described(
    quorum: MixedQuorum, nodes: Iterable[NodeId]
) -> DescribeQuorumResponse.TopicData.PartitionData | None:
    """The quorum, as the one of these nodes that is active tells it; None if none is."""
    for node_id in nodes:
        try:
            return await quorum.described(at=node_id)
        except (ApiError, OSError):
            continue
    return None
