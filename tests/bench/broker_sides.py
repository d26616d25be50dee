"""Three brokers of ours on our control plane, and three of a Kafka release on its controllers, for benches.

A group of Kafka's consumer needs a coordinator, which brokers of ours are not: a fourth broker of our cluster is
Kafka's, and has the topic of the groups and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from deploy.kafka.release import SERVER
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.metadata import MetadataRequest, MetadataResponse
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId
from services.broker.coordinators import TOPICS
from tests.bench.measure import cpu_seconds
from tests.e2e.calls import eventually
from tests.e2e.own_brokers import OwnBrokers
from tests.interop.busy_brokers import Brokers
from tests.interop.mixed_quorum import MixedQuorum

__all__ = ["IDS", "Side", "kafkas_side", "our_side"]

IDS: Final = (101, 102, 103)
COORDINATOR: Final = 109
OPTIONS: Final = (*SERVER, "-Xmx1g")
"""Of a broker's JVM, as by kafka-server-start.sh."""
DEFAULTS: Final = {"num.network.threads": 3, "num.io.threads": 8}
"""Kafka's; brokers of the tests have fewer threads. They keep the small buffer of the log cleaner."""
HEARTBEAT: Final = {"broker.heartbeat.interval.ms": "2000"}
"""Kafka's default."""
TIMEOUT_MS: Final = 60_000
WITHIN_S: Final = 180.0

_Partition = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition


@dataclass(slots=True, kw_only=True)
class Side:
    """Three brokers of one make, and their controllers."""

    name: str
    quorum: MixedQuorum
    addresses: Mapping[NodeId, str]
    pid: Callable[[NodeId], int]
    start: Callable[[NodeId], Awaitable[None]]
    kill: Callable[[NodeId], Awaitable[None]]

    @property
    def servers(self) -> str:
        return ",".join(self.addresses.values())

    @property
    def cpu_s(self) -> float:
        """What the three brokers have used so far."""
        return sum(cpu_seconds(self.pid(each)) for each in IDS)

    async def create(self, topic: str, assignments: Sequence[Sequence[NodeId]]) -> None:
        """Makes a topic with these replicas of each partition, and waits until all are in sync."""
        wanted = CreateTopicsRequest.CreatableTopic
        placed = enumerate(map(tuple, assignments))
        asked = wanted(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(wanted.CreatableReplicaAssignment(index, ids) for index, ids in placed),
            configs=(wanted.CreatableTopicConfig("min.insync.replicas", str(min(2, len(assignments[0])))),),
        )
        request = CreateTopicsRequest(topics=(asked,), timeout_ms=TIMEOUT_MS)
        made = await self.quorum.ask(await self._active(), request)
        assert isinstance(made, CreateTopicsResponse), made
        assert not made.topics[0].error_code, made.topics[0]
        await self.in_sync(topic, assignments)
        await self.led(topic, assignments)

    async def in_sync(self, topic: str, assignments: Sequence[Sequence[NodeId]]) -> None:
        """Waits until each broker tells of each partition that all its replicas are in the ISR."""
        expected = {index: sorted(ids) for index, ids in enumerate(assignments)}
        await self._told(
            topic, lambda found: {each.partition_index: sorted(each.isr_nodes) for each in found} == expected
        )

    async def led(self, topic: str, assignments: Sequence[Sequence[NodeId]]) -> None:
        """Waits until each broker tells of each partition that its first replica leads it."""
        expected = {index: ids[0] for index, ids in enumerate(assignments)}
        await self._told(topic, lambda found: {each.partition_index: each.leader_id for each in found} == expected)

    async def prefer(self) -> None:
        """Gives all leaderships back to the first replicas."""
        request = ElectLeadersRequest(topic_partitions=None, timeout_ms=TIMEOUT_MS)
        await self.quorum.ask(await self._active(), request)

    async def _active(self) -> NodeId:
        return (await self.quorum.described_by_one_of(self.quorum.first_voters)).leader_id

    async def _told(self, topic: str, holds: Callable[[Sequence[_Partition]], bool]) -> None:
        """Waits until what each broker tells of the topic's partitions is so."""
        asked = MetadataRequest.MetadataRequestTopic(name=topic)
        request = MetadataRequest(topics=(asked,), allow_auto_topic_creation=False)

        async def told(client: Connection) -> Sequence[_Partition]:
            (found,) = (await client.ask_for(MetadataResponse, request)).topics
            return found.partitions

        for address in self.addresses.values():
            host, _, port = address.rpartition(":")
            async with await connect(host, int(port)) as client:
                await eventually(partial(told, client), holds, within_s=WITHIN_S)


async def kafkas_side(name: str, quorum: MixedQuorum, life: AsyncExitStack) -> Side:
    """Starts three brokers of Kafka; `life` ends them."""
    brokers = await _kafkas(quorum, IDS, life)

    async def start(broker_id: NodeId) -> None:
        await asyncio.to_thread(brokers.nodes[broker_id].start().wait_ready)

    async def kill(broker_id: NodeId) -> None:
        await asyncio.to_thread(brokers.nodes[broker_id].kill)

    return Side(
        name=name,
        quorum=quorum,
        addresses=dict(zip(IDS, brokers.servers.split(","), strict=True)),
        pid=lambda broker_id: brokers.nodes[broker_id].pid,
        start=start,
        kill=kill,
    )


async def our_side(name: str, quorum: MixedQuorum, life: AsyncExitStack, *, with_groups: bool) -> Side:
    """Starts three brokers of ours, `with_groups` one of Kafka's for groups; `life` ends it, and the quorum ours."""
    own = OwnBrokers(quorum, ids=IDS, settings=HEARTBEAT)
    await own.start()

    async def kill(broker_id: NodeId) -> None:
        await own.kill(broker_id)

    side = Side(
        name=name,
        quorum=quorum,
        addresses={each: own[each].kafka_address for each in IDS},
        pid=lambda broker_id: quorum.running.pid(own[broker_id]),
        start=own.start,
        kill=kill,
    )
    if with_groups:
        await _kafkas(quorum, [COORDINATOR], life)
        await side.create(TOPICS[0], [[COORDINATOR]])
    return side


async def _kafkas(quorum: MixedQuorum, ids: Sequence[NodeId], life: AsyncExitStack) -> Brokers:
    brokers = Brokers(quorum, ids, quorum.first_voters, DEFAULTS, options=OPTIONS)
    life.push_async_callback(brokers.close)
    await brokers.start()
    return brokers
