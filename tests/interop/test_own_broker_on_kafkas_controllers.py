"""A broker of our own beside two of Kafka's, on a quorum of Kafka's own controllers, which ask for TLS and a login.

The tests are one story: each leaves all brokers ready and every replica in sync. KAFKAS_CONTROLLERS names the release
of the controllers, of those in CONTROLLERS; CI has the first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from deploy.kafka.node import tool
from kraft.api.metadata import MetadataRequest, MetadataResponse
from quorate.network.client import connect
from quorate.nouns import NodeId
from quorate.partition_log.clean_shutdown import read_mark
from quorate.protocol.sasl.plain import PLAIN
from tests.e2e.calls import eventually
from tests.e2e.own_brokers import OwnBrokers
from tests.e2e.records import stored
from tests.interop.busy_brokers import Brokers
from tests.interop.kafka.fleet import CONSUMER, PERFORMANCE, TOOLS
from tests.interop.kafka.quorum import QUIET
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM, absent
from tests.interop.mixed_plan import Peers, Settings
from tests.interop.mixed_quorum import MixedQuorum, kafkas_alone
from tests.network.certificates import authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

CONTROLLERS: Final = {
    "4.3.1": Peers(),
    "4.0.0": Peers(pom=OLDEST_POM, level="4.0-IV3"),
    "4.4.0": Peers(pom=OPERATIONS_POM, level="4.3-IV0"),
}
RELEASE: Final = os.environ.get("KAFKAS_CONTROLLERS", "4.3.1")
OURS: Final = 101
THEIRS: Final = (102, 103)
ALL: Final = (OURS, *THEIRS)
QUORUM: Final[Settings] = {
    "controller.quorum.fetch.timeout.ms": 2_000,
    "broker.session.timeout.ms": 4_000,
    **QUIET,
}
FOR_OURS: Final = ("controller.endpoints", "heartbeat.endpoint", "grpc.security.protocol")
"""What a broker has whose control plane is ours."""
MANY: Final = 500
TOPIC: Final = "orders"
Partition = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition


@dataclass(frozen=True, slots=True)
class Cluster:
    """Kafka's controllers, two brokers of Kafka's and one of ours."""

    quorum: MixedQuorum
    theirs: Brokers
    own: OwnBrokers

    @property
    def through_ours(self) -> tuple[str, str]:
        return "--bootstrap-server", self.own[OURS].kafka_address

    def replica(self, broker_id: NodeId, name: str) -> Path:
        (disk,) = self.own.disks(OURS) if broker_id == OURS else [self.theirs.nodes[broker_id].directory / "data"]
        return disk / name

    async def partition(self, *, at: NodeId, topic: str = TOPIC) -> Partition | None:
        """The only partition of the topic as a broker has applied it; None if that does not know the topic."""
        own, theirs = self.own[OURS].kafka_address, dict(zip(THEIRS, self.theirs.servers.split(","), strict=True))
        host, port = (own if at == OURS else theirs[at]).split(":")
        asked = MetadataRequest((MetadataRequest.MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        async with await connect(host, int(port)) as client:
            (told,) = (await client.ask_for(MetadataResponse, asked)).topics
        return told.partitions[0] if told.partitions else None

    async def led_by(self, leader: NodeId, isr: Sequence[NodeId] = ALL, *, topic: str = TOPIC) -> None:
        """Waits until each of the ISR says that it is so."""

        async def seen() -> list[tuple[NodeId, set[NodeId]]]:
            told = [await self.partition(at=each, topic=topic) for each in isr]
            return [(-1, set()) if each is None else (each.leader_id, set(each.isr_nodes)) for each in told]

        await eventually(seen, lambda told: told == [(leader, set(isr))] * len(isr))

    async def create(self, topic: str) -> str:
        """A topic by kafka-topics, which knows our broker alone: ours leads."""
        how = ("--replica-assignment", ":".join(map(str, ALL)), "--config", "min.insync.replicas=2")
        create = (*self.through_ours, "--create", "--topic", topic, *how)
        said = await asyncio.to_thread(tool, TOOLS + "TopicCommand", *create)
        await self.led_by(OURS, topic=topic)
        return said

    async def produce(self, topic: str = TOPIC) -> str:
        """Writes by Kafka's own producer, with acks=all; what the tool says at the end counts what was acknowledged."""
        records = ("--topic", topic, "--num-records", MANY, "--record-size", 100, "--throughput", -1)
        servers = f"bootstrap.servers={self.own[OURS].kafka_address},{self.theirs.servers}"
        # Of two batches in flight to a broker that has just become leader, Kafka's may refuse the first and take the
        # second: then the first is out of order for ever.
        props = ("--producer-props", servers, "acks=all", "max.in.flight.requests.per.connection=1")
        return (await asyncio.to_thread(tool, PERFORMANCE, *records, *props)).splitlines()[-1].partition(",")[0]

    async def consume(self, topic: str, count: int) -> list[str]:
        """The lines that Kafka's consumer reads from the beginning on, of the only partition."""
        until = ("--max-messages", count, "--timeout-ms", 120_000)
        at = ("--topic", topic, "--partition", 0, "--offset", "earliest")
        said = await asyncio.to_thread(tool, CONSUMER, *self.through_ours, *at, *until)
        return [line for line in said.splitlines() if len(line) == 100]

    async def logs(self, topic: str, end: int) -> list[list[tuple[int, bytes]]]:
        """What is stored of the partition by each broker, once each has so much."""

        async def found() -> list[list[tuple[int, bytes]]]:
            return [stored(self.replica(each, f"{topic}-0")) for each in ALL]

        return await eventually(found, lambda logs: all(len(each) >= end for each in logs))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    directory = tmp_path_factory.mktemp("on-kafkas")
    peers = replace(CONTROLLERS[RELEASE], issuer=authority(directory), mechanism=PLAIN)
    async with kafkas_alone(directory / "quorum", ours=1, kafkas=3, settings=QUORUM, peers=peers) as quorum:
        above = {
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:{peers.protocol},PLAINTEXT:PLAINTEXT",
            **peers.listener(),
            "broker.heartbeat.interval.ms": "500",
        }
        theirs = Brokers(quorum, THEIRS, [*quorum.kafkas], above)
        servers = ",".join(quorum.kafka_address(each) for each in quorum.kafkas)
        known = {"controller.quorum.bootstrap.servers": servers, "shutdown.graceful.timeout.ms": "30000"}
        own = OwnBrokers(quorum, (OURS,), settings={**above, **known})
        for name in FOR_OURS:
            del own[OURS].settings[name]
        try:
            await asyncio.gather(theirs.start(), own.start())
            yield Cluster(quorum, theirs, own)
        finally:
            await theirs.close()
            if quorum.running.is_up(own[OURS]):  # asked to stop, it would wait for controllers that are gone
                await own.kill(OURS)


async def test_a_topic_is_made_through_ours_and_each_leads_is_killed_and_comes_back(cluster: Cluster) -> None:
    """Ours is killed while it leads, and comes back; it leads again while a broker of Kafka's is killed."""
    made = await cluster.create(TOPIC)
    told = [await cluster.produce()]
    await cluster.own.kill(OURS)
    told.append(await cluster.produce())
    await cluster.led_by(THEIRS[0], THEIRS)
    await cluster.own.start(OURS)
    await cluster.led_by(THEIRS[0])
    told.append(await cluster.produce())
    elect = ("--election-type", "preferred", "--topic", TOPIC, "--partition", 0)
    await asyncio.to_thread(tool, TOOLS + "LeaderElectionCommand", *cluster.through_ours, *elect)
    await cluster.led_by(OURS)
    struck = cluster.theirs.nodes[THEIRS[0]]
    await asyncio.to_thread(struck.kill)
    told.append(await cluster.produce())
    await cluster.led_by(OURS, (OURS, THEIRS[1]))
    await asyncio.to_thread(struck.start().wait_ready)
    await cluster.led_by(OURS)
    told.append(await cluster.produce())
    read = await cluster.consume(TOPIC, len(told) * MANY)
    logs = await cluster.logs(TOPIC, len(told) * MANY)

    assert f"Created topic {TOPIC}." in made
    assert [f"{MANY} records sent"] * len(told) == told
    assert len(told) * MANY == len(read)
    assert [logs[0]] * len(ALL) == logs
    assert [*range(len(told) * MANY)] == [offset for offset, _ in logs[0]]


async def test_another_controller_leads_and_ours_goes_on(cluster: Cluster) -> None:
    """The active controller is killed: ours is not fenced, finds the next one, and has a topic made there."""
    (leader,) = {(await cluster.quorum.described_by_one_of([*cluster.quorum.kafkas])).leader_id}
    listed = (await cluster.quorum.described(at=leader)).observers
    said = cluster.own.log(OURS).count("is unfenced")
    await asyncio.to_thread(cluster.quorum.kafkas[leader].kill)
    made = await cluster.create("after")
    sent = await cluster.produce("after")
    logs = await cluster.logs("after", MANY)
    await cluster.quorum.start_kafka(leader)

    assert {*ALL} <= {each.replica_id for each in listed}
    assert "Created topic after." in made
    assert f"{MANY} records sent" == sent
    assert [logs[0]] * len(ALL) == logs
    assert said == cluster.own.log(OURS).count("is unfenced")


async def test_before_it_stops_its_leaderships_have_moved(cluster: Cluster) -> None:
    """A controlled shutdown; the marks that it leaves have the broker epoch, by which the next process is known."""
    await cluster.led_by(OURS)
    await cluster.own.stop(OURS)
    await cluster.led_by(THEIRS[0], THEIRS)
    said = cluster.own.log(OURS)
    (disk,) = cluster.own.disks(OURS)
    epoch = read_mark(disk)
    await cluster.own.start(OURS)
    await cluster.led_by(THEIRS[0])
    sent = await cluster.produce()

    assert 'event="may stop: it leads nothing any more"' in said
    assert "stops without a controlled shutdown" not in said
    assert f"broker_epoch={epoch} " in said
    assert f"previous_broker_epoch={epoch}" in cluster.own.log(OURS)[len(said) :]
    assert f"{MANY} records sent" == sent
