"""Brokers of a Kafka release on the control plane, and Kafka's own tools: what `make run KAFKA=1` shows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from rich.console import Console

from deploy.kafka.node import Node, NodeFailed, Properties, tool
from deploy.kafka.release import POM, QUICK, jars, version
from deploy.local.plan import ClusterPlan
from deploy.local.ports import HOST, free_ports

__all__ = ["KafkaBrokers", "broker_of", "create_topic", "produce_and_consume"]

HEAP: Final = "256m"
TOOLS: Final = "org.apache.kafka.tools."
RECORDS: Final = ("first", "second", "third")
CONSUME_TIMEOUT_MS: Final = 60_000
SETTINGS: Final = {
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4 << 20,  # 128 MiB by default: half of the heap
    "num.network.threads": 1,
    "num.io.threads": 2,
}


class KafkaBrokers:
    """The plan's brokers, each a Kafka process that has the gateways as its controllers."""

    called: Final = "brokers of Kafka"

    def __init__(self, plan: ClusterPlan) -> None:
        ports = dict(zip(plan.brokers, free_ports(len(plan.brokers)), strict=True))
        self.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in ports.values())
        self._cluster_id = plan.cluster_id
        self._nodes = [broker_of(plan, broker_id, port) for broker_id, port in ports.items()]

    async def fetch(self, console: Console) -> None:
        """Fetches the release, if it is not there yet. Raises NotFetched."""
        console.print(f"Kafka {version()}, of Maven: 150 MB if it is not there yet")
        await asyncio.to_thread(jars)

    async def start(self) -> None:
        """Formats and starts all brokers; each is unfenced at the end. Raises NodeFailed and ToolFailed."""
        try:
            async with asyncio.TaskGroup() as starting:
                for node in self._nodes:
                    starting.create_task(self._start(node))
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None

    async def close(self) -> None:
        """Asks each broker that runs for a controlled shutdown, and waits for its end. Raises NodeFailed."""
        await asyncio.gather(*(asyncio.to_thread(_stop, node) for node in self._nodes if node.is_running))

    async def _start(self, node: Node) -> None:
        await asyncio.to_thread(node.format, self._cluster_id)
        node.start()  # not in a thread, which would do it after this task was cancelled
        await asyncio.to_thread(node.wait_ready)


def _stop(node: Node) -> None:
    """Stops a broker; it is killed if it does not end in time. Raises NodeFailed."""
    try:
        node.stop()
    except TimeoutExpired:
        node.kill()
        raise NodeFailed(f"{node.directory.name} did not stop when it was asked to, and was killed") from None


def broker_of(
    plan: ClusterPlan,
    broker_id: int,
    port: int,
    *,
    pom: Path = POM,
    settings: Properties | None = None,
    options: Sequence[str] = QUICK,
) -> Node:
    """Returns a broker of the release that `pom` names, whose JVM has these options.

    `settings` come before those that every broker here has; one that the plan does not have is in no rack.
    """
    directory = plan.directory / f"broker-{broker_id}"
    rack = {"broker.rack": plan.racks[broker_id]} if broker_id in plan.racks else {}
    own = {
        "node.id": broker_id,
        "controller.quorum.voters": plan.gateways[0].settings["controller.quorum.voters"],
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": directory / "data",
    }
    return Node(directory, SETTINGS | own | rack | dict(settings or {}), pom=pom, heap=HEAP, options=options)


async def create_topic(console: Console, brokers: KafkaBrokers, topic: str) -> None:
    """Makes a topic with kafka-topics, which asks a broker, which asks a gateway. Raises ToolFailed."""
    arguments = ("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3")
    await _shown(console, brokers, "kafka-topics.sh", "TopicCommand", *arguments)


async def produce_and_consume(console: Console, brokers: KafkaBrokers, topic: str) -> None:
    """Writes records with Kafka's console producer, and reads them with its console consumer. Raises ToolFailed."""
    lines = "".join(f"{record}\n" for record in RECORDS)
    await _shown(console, brokers, "kafka-console-producer.sh", "ConsoleProducer", "--topic", topic, stdin=lines)
    until = ("--max-messages", str(len(RECORDS)), "--timeout-ms", str(CONSUME_TIMEOUT_MS))
    arguments = ("--topic", topic, "--from-beginning", *until)
    await _shown(console, brokers, "kafka-console-consumer.sh", "consumer.ConsoleConsumer", *arguments)


async def _shown(
    console: Console, brokers: KafkaBrokers, script: str, main: str, *arguments: str, stdin: str | None = None
) -> None:
    """Prints the command with the name of its script in Kafka's tarball, runs it, and prints what it says."""
    fed = "" if stdin is None else f"echo '{' '.join(stdin.split())}' | tr ' ' '\\n' | "
    console.print(f"$ {fed}{script} --bootstrap-server $BROKERS {' '.join(arguments)}", markup=False, soft_wrap=True)
    where = ("--bootstrap-server", brokers.bootstrap_servers)
    said = await asyncio.to_thread(tool, TOOLS + main, *where, *arguments, stdin=stdin)
    console.print(said, markup=False, soft_wrap=True)
