"""Brokers of Kafka releases on gateways, and the tools that ask them or the gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node, Properties, ToolFailed, tool
from deploy.kafka.release import POM, QUICK
from deploy.local.kafka import broker_of
from deploy.local.ports import HOST, free_ports
from tests.e2e.calls import eventually
from tests.e2e.cluster import PATIENT, Cluster, control_plane
from tests.interop.kafka.quorum import QUIET

TOOLS: Final = "org.apache.kafka.tools."
CONFIGS: Final = "kafka.admin.ConfigCommand"
PERFORMANCE: Final = TOOLS + "ProducerPerformance"
CONSUMER: Final = TOOLS + "consumer.ConsoleConsumer"
SESSION_TIMEOUT_MS: Final = 15_000
NOT_KNOWN_YET: Final = ("UnknownTopicOrPartition", "does not exist")
CONSUME_TIMEOUT_MS: Final = 120_000

SettingsOf = Callable[[int, int], Properties]
"""What a broker of this id and this port for tools has beyond what all have here."""


def _nothing_more(_broker_id: int, _port: int) -> Properties:
    return {}


class Fleet:
    """A control plane with gateways, and brokers of Kafka on it by id."""

    def __init__(
        self,
        plane: Cluster,
        ports: Mapping[int, int],
        releases: Mapping[int, Path],
        settings_of: SettingsOf,
        options: Sequence[str] = QUICK,
    ) -> None:
        self.plane = plane
        self._options = options
        self.ports = dict(ports)
        self._settings_of = settings_of
        self.brokers = {broker_id: self._broker(broker_id, pom) for broker_id, pom in releases.items()}
        self.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in ports.values())

    async def start(self, *broker_ids: int) -> None:
        """Starts brokers that do not run; each is unfenced at the end."""
        nodes = [self.brokers[broker_id].start() for broker_id in broker_ids]
        await asyncio.gather(*(asyncio.to_thread(node.wait_ready) for node in nodes))

    async def stop(self, *broker_ids: int) -> None:
        """A controlled shutdown of each, all at once."""
        await asyncio.gather(*(asyncio.to_thread(self.brokers[broker_id].stop) for broker_id in broker_ids))

    async def restart_as(self, broker_id: int, pom: Path) -> None:
        """A broker that has ended starts again on its directories, as another release."""
        self.brokers[broker_id] = self._broker(broker_id, pom)
        await self.start(broker_id)

    def _broker(self, broker_id: int, pom: Path) -> Node:
        port, plan = self.ports[broker_id], self.plane.plan
        known = {"controller.quorum.bootstrap.servers": plan.bootstrap_controllers, "controller.quorum.voters": ""}
        own = (known if plan.directory_ids else {}) | dict(self._settings_of(broker_id, port))
        return broker_of(plan, broker_id, port, pom=pom, settings=own, options=self._options)

    async def ask(self, main: str, *arguments: object, pom: Path = POM) -> str:
        """What a tool says that asks the brokers; asked again while one does not know a topic yet. Raises ToolFailed.

        A broker hears of a topic some time after the controller has answered that it made it.
        """

        async def asked() -> str | ToolFailed:
            try:
                return await self.run(main, "--bootstrap-server", self.bootstrap_servers, *arguments, pom=pom)
            except ToolFailed as failed:
                return failed

        said = await eventually(asked, lambda seen: not any(each in str(seen) for each in NOT_KNOWN_YET))
        if isinstance(said, ToolFailed):
            raise said
        return said

    async def ask_until(self, holds: Callable[[str], object], main: str, *arguments: object, pom: Path = POM) -> str:
        """The same until it is so: what a broker tells is what it has applied."""
        return await eventually(lambda: self.ask(main, *arguments, pom=pom), holds)

    async def ask_controller(self, main: str, *arguments: object, pom: Path = POM) -> str:
        """What a tool says that asks the gateways. Raises ToolFailed."""
        where = ("--bootstrap-controller", self.plane.plan.bootstrap_controllers)
        return await self.run(main, *where, *arguments, pom=pom)

    async def run(self, main: str, *arguments: object, pom: Path = POM) -> str:
        """What a tool says. Raises ToolFailed."""
        return await asyncio.to_thread(tool, main, *arguments, pom=pom)

    async def produce(self, topic: str, count: int, *more: object, size: int = 100) -> str:
        """Writes records with acks=all; what the tool says at the end counts those that were acknowledged."""
        records = ("--topic", topic, "--num-records", count, "--record-size", size, "--throughput", -1)
        # A broker takes any first sequence number of a producer: of two batches in flight to one that has just become
        # leader, the first may be refused and the second be taken, and then the first is out of order for ever.
        one = "max.in.flight.requests.per.connection=1"
        to = ("--producer-props", f"bootstrap.servers={self.bootstrap_servers}", "acks=all", one)
        said = await self.run(PERFORMANCE, *records, *to, *more)
        return said.splitlines()[-1]

    async def consume(self, topic: str, count: int, *more: object) -> list[str]:
        """So many records from the beginning on; fewer if there are no more."""
        until = ("--from-beginning", "--max-messages", count, "--timeout-ms", CONSUME_TIMEOUT_MS)
        return (await self.ask(CONSUMER, "--topic", topic, *until, *more)).splitlines()

    async def leaders(self, topic: str) -> list[int]:
        """The leader of each partition."""
        return [each.leader_id for each in (await self.plane.topics(at=1))[topic].partitions]

    async def in_sync(self, topic: str) -> None:
        """Waits until every replica of the topic is in the ISR."""

        async def behind() -> list[int]:
            partitions = (await self.plane.topics(at=1))[topic].partitions
            return [each.partition_index for each in partitions if set(each.isr_nodes) != set(each.replica_nodes)]

        await eventually(behind, lambda seen: not seen)


@asynccontextmanager
async def fleet_of(
    directory: Path,
    releases: Mapping[int, Path],
    *,
    level: str,
    controller_settings: Mapping[str, str] | None = None,
    settings_of: SettingsOf = _nothing_more,
    dynamic: bool = False,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    options: Sequence[str] = QUICK,
) -> AsyncIterator[Fleet]:
    """A control plane at a metadata.version, with a broker of the release that each POM names; all are ready.

    The voters are in the log if `dynamic`; the brokers then know only where to ask for a leader.
    `settings_of` are a broker's own, `options` its JVM's.
    """
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(
            control_plane(
                directory,
                quorum_settings=PATIENT,
                controller_settings={**QUIET, **(controller_settings or {})},
                session_timeout_ms=session_timeout_ms,
                with_gateways=True,
                announces_gateways=True,
                dynamic=dynamic,
                with_stand_ins=False,
                is_observed=False,
                release=level,
            )
        )
        ports = dict(zip(releases, free_ports(len(releases)), strict=True))
        fleet = Fleet(plane, ports, releases, settings_of, options)
        stack.callback(lambda: [node.kill() for node in fleet.brokers.values() if node.is_running])
        formatting = (asyncio.to_thread(node.format, plane.plan.cluster_id) for node in fleet.brokers.values())
        await asyncio.gather(*formatting)
        await fleet.start(*fleet.brokers)
        yield fleet
