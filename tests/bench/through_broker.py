"""Topics that Java's Admin clients create through Kafka brokers, on our control plane and on Kafka's controllers.

Both control planes have three voters and three brokers of the same release, are alive at once on loopback in the clear,
and are measured in turns. Measured are topics one at a time and 64 at once, and the time after them until the brokers
have applied what the log has; one topic of a thousand partitions, with brokers at rest before it, until each broker's
metadata has all; and a topic after kill -9 of the active controller: of the whole node on our side, its quorum node,
controller and gateway. The controllers of both sides have made and deleted 6,400 topics before the brokers came, so
that their JVMs have compiled; the brokers are warm after a round that does not count.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import Final

from deploy.kafka.release import SERVER
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.api.metadata import MetadataRequest, MetadataResponse
from kraft.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId
from tests.bench.beside_kafka import BROKERS, IN_FLIGHT, TIMEOUT_MS, at_once, by_wire
from tests.bench.both_sides import DEFAULTS, Rounds, run_both
from tests.bench.measure import Table, cpu_seconds, ratio_table
from tests.bench.stand_ins import beating
from tests.interop.busy_brokers import Brokers
from tests.interop.kafka.topics import Topics
from tests.interop.mixed_quorum import MixedQuorum

ROUNDS: Final = int(os.environ.get("BROKER_ROUNDS", "3"))
WARM_UP: Final = 6_400
SERIAL: Final = 50
AT_ONCE: Final = 320
LARGE: Final = 1_000
LOOK_AGAIN_S: Final = 0.02
REST_S: Final = 0.5
AT_REST: Final = 0.3
"""Of a processor, by the three brokers together, over `REST_S`: idle they take up to 0.2, with thousands of logs."""
REST_MAX_S: Final = 30.0
PREPARED_S: Final = 5.0
"""After a killed node is back, so that its voters and brokers have found each other."""
KAFKA, OURS = SIDES = ("Kafka's controllers", "Quorate")

HEAP: Final = "-Xmx1g"
"""Of a broker, as kafka-server-start.sh has it: with 256 MB it does not answer any more in a third round."""


@dataclass(slots=True, kw_only=True)
class Fleet:
    """One control plane with its brokers, and clients of these; `at` has a connection to each broker."""

    name: str
    quorum: MixedQuorum
    brokers: Brokers
    topics: Topics
    at: Sequence[Connection]

    @property
    def cpu_s(self) -> float:
        """What the processes of the control plane have used so far."""
        return sum(map(cpu_seconds, self.quorum.pids))

    @property
    def brokers_cpu_s(self) -> float:
        """What the brokers have used so far."""
        return sum(cpu_seconds(node.pid) for node in self.brokers.nodes.values())

    async def everywhere(self, topic: str, partitions: int) -> None:
        """Waits until each broker's metadata has so many partitions of the topic."""
        asked = MetadataRequest.MetadataRequestTopic(name=topic)
        request = MetadataRequest(topics=(asked,), allow_auto_topic_creation=False)
        for connection in self.at:
            while True:
                (told,) = (await connection.ask_for(MetadataResponse, request)).topics
                if len(told.partitions) == partitions:
                    break
                await asyncio.sleep(LOOK_AGAIN_S)

    async def caught_up(self) -> float:
        """Seconds until each broker has applied all that the log has by now.

        A broker makes the logs of new partitions after its metadata names them, and looks at no later record until
        then: so a topic that all of them name is made after what was there before it.
        """
        began = time.perf_counter()
        (last,) = (await self.topics.create(prefix="last")).names
        await self.everywhere(last, partitions=1)
        return time.perf_counter() - began

    async def at_rest(self) -> None:
        """Waits until the brokers have ended what they do after topics have been made, as far as their CPU tells."""
        ends, used = time.perf_counter() + REST_MAX_S, self.brokers_cpu_s
        while time.perf_counter() < ends:
            await asyncio.sleep(REST_S)
            before, used = used, self.brokers_cpu_s
            if used - before < AT_REST * REST_S:
                return
        print(f"{self.name}: the brokers were not at rest within {REST_MAX_S:g} s", flush=True)

    async def kill_active(self) -> float:
        """Seconds from kill -9 of the active controller's node until a client's next topic is there."""
        nodes = self.quorum.first_voters
        leader_id = (await self.quorum.described_by_one_of(nodes)).leader_id
        plan, is_ours = self.quorum.plan, leader_id not in self.quorum.kafkas
        place = leader_id - 1
        own = [plan.quorum[place], plan.controllers[place], plan.gateways[place]] if is_ours else []
        pids = [self.quorum.running.pid(each) for each in own] or [self.quorum.kafkas[leader_id].pid]
        began = time.perf_counter()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        await self.topics.create()
        took = time.perf_counter() - began
        for process in own:
            await self.quorum.ended(process)
            await self.quorum.running.spawn(process)
        await self.quorum.running.ready(own)
        if not is_ours:
            self.quorum.kafkas[leader_id].kill()
            await self.quorum.start_kafka(leader_id)
        await asyncio.sleep(PREPARED_S)
        return took


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; about ten minutes."""
    return run_both(_measure, DEFAULTS)


async def _measure(kafkas: MixedQuorum, ours: MixedQuorum, life: AsyncExitStack) -> list[Table]:
    fleets = [await _fleet(name, each, life) for name, each in zip(SIDES, (kafkas, ours), strict=True)]
    rounds = Rounds(ROUNDS)
    for fleet in fleets:
        await _measure_round(fleet)
    for _ in rounds:
        for fleet in fleets:
            rounds.add(fleet.name, await _measure_round(fleet))
    for _ in range(ROUNDS):
        for fleet in fleets:
            rounds.add(fleet.name, {"kill -9 of the active controller": await fleet.kill_active()})
    return [ratio_table(f"Through Kafka brokers: {rounds.told}", "CreateTopics, RF 3", rounds.found, SIDES)]


async def _fleet(name: str, quorum: MixedQuorum, life: AsyncExitStack) -> Fleet:
    nodes = quorum.first_voters
    await _warm(quorum, nodes)
    brokers = Brokers(quorum, BROKERS, nodes, options=(*SERVER, HEAP))
    life.push_async_callback(brokers.close)
    await brokers.start()
    topics = life.enter_context(Topics(brokers.servers, clients=IN_FLIGHT, replicas=len(BROKERS)))
    at = []
    for server in brokers.servers.split(","):
        host, _, port = server.rpartition(":")
        at.append(await life.enter_async_context(await connect(host, int(port))))
    return Fleet(name=name, quorum=quorum, brokers=brokers, topics=topics, at=at)


async def _warm(quorum: MixedQuorum, nodes: list[NodeId]) -> None:
    """The controllers make topics on stand-ins of the brokers, over Kafka's wire, and forget all of them."""
    async with AsyncExitStack() as life:
        side = await by_wire("", quorum, nodes, life)
        leader_id = (await quorum.described_by_one_of(nodes)).leader_id
        async with beating(quorum):
            await at_once(side, count(), WARM_UP)
    names = tuple(f"bench-{number}" for number in range(WARM_UP))
    every = tuple(DeleteTopicsRequest.DeleteTopicState(name=name) for name in names)
    deleted = await quorum.ask(leader_id, DeleteTopicsRequest(topics=every, timeout_ms=TIMEOUT_MS))
    assert isinstance(deleted, DeleteTopicsResponse), deleted
    assert not any(each.error_code for each in deleted.responses), deleted.responses[0]
    for broker_id in BROKERS:
        gone = await quorum.ask(leader_id, UnregisterBrokerRequest(broker_id=broker_id))
        assert isinstance(gone, UnregisterBrokerResponse), gone
        assert not gone.error_code, gone


async def _measure_round(fleet: Fleet) -> dict[str, float]:
    """One round of a side but for its failover."""
    figures = {}
    used, by_brokers = fleet.cpu_s, fleet.brokers_cpu_s
    created = await fleet.topics.create(SERIAL)
    figures["one at a time, p50"] = statistics.median(created.took)
    figures["one at a time, CPU of the control plane"] = (fleet.cpu_s - used) / SERIAL
    figures["one at a time, CPU of the brokers"] = (fleet.brokers_cpu_s - by_brokers) / SERIAL
    used, by_brokers = fleet.cpu_s, fleet.brokers_cpu_s
    created = await fleet.topics.create(AT_ONCE, at_once=IN_FLIGHT)
    figures[f"{IN_FLIGHT} in flight, topics/s"] = AT_ONCE / created.seconds
    figures[f"{IN_FLIGHT} in flight, p50"] = statistics.median(created.took)
    figures[f"{IN_FLIGHT} in flight, CPU of the control plane"] = (fleet.cpu_s - used) / AT_ONCE
    figures[f"{IN_FLIGHT} in flight, CPU of the brokers"] = (fleet.brokers_cpu_s - by_brokers) / AT_ONCE
    figures[f"{IN_FLIGHT} in flight, until the brokers have caught up"] = await fleet.caught_up()
    await fleet.at_rest()
    used, began = fleet.cpu_s, time.perf_counter()
    large = await fleet.topics.create(partitions=LARGE, prefix="large")
    figures[f"1 × {LARGE:,}, answered"] = large.seconds
    await fleet.everywhere(large.names[0], LARGE)
    figures[f"1 × {LARGE:,}, at every broker"] = time.perf_counter() - began
    figures[f"1 × {LARGE:,}, CPU of the control plane"] = fleet.cpu_s - used
    await fleet.caught_up()
    return figures
