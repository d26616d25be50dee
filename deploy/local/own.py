"""Brokers of our own on the control plane, written to and read by librdkafka: what `make run BROKERS=1` shows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console

from deploy.local import show
from deploy.local.client import Admin
from deploy.local.plan import HERE, STOP_MS, ClusterPlan, Process, ProcessHost
from deploy.local.ports import free_ports
from deploy.local.processes import NotReady, Running
from quorate.cli import formatting
from quorate.cli.node_config import read_node_config
from quorate.nouns import NodeId

__all__ = ["OwnBrokers", "disks_of", "format_broker", "planned"]

RECORDS: Final = 200
"""Written before a leader is killed, and again after it."""
PATIENCE_S: Final = 60.0
SLICE_S: Final = 0.5
LISTENER: Final = "PLAINTEXT"


def planned(
    plan: ClusterPlan,
    broker_id: NodeId,
    ports: Iterator[int],
    *,
    directories: int = 1,
    settings: Mapping[str, str] | None = None,
    place: ProcessHost = HERE,
) -> Process:
    """Returns a broker of the plan with so many log directories, in its rack; `settings` come after those of all."""
    home = plan.directory / f"broker-{broker_id}"
    health = next(ports)
    rack = {"broker.rack": plan.racks[broker_id]} if broker_id in plan.racks else {}
    own = {
        **rack,
        "process.roles": "broker",
        "node.id": str(broker_id),
        "log.dirs": ",".join(str(home / f"disk-{number}") for number in range(1, directories + 1)),
        "listeners": f"{LISTENER}://{place.host}:{next(ports)}",
        "health.listeners": f"HEALTH://{place.host}:{health}",
        "controller.quorum.bootstrap.servers": ",".join(each.address for each in plan.quorum),
        "controller.endpoints": ",".join(each.address for each in plan.controllers),
        "heartbeat.endpoint": plan.heartbeat.address,
        "broker.heartbeat.interval.ms": "500",
        "shutdown.graceful.timeout.ms": STOP_MS,
        "grpc.security.protocol": "PLAINTEXT",
        **(settings or {}),
    }
    return Process(service="broker", name=f"broker-{broker_id}", port=health, settings=own, place=place)


def disks_of(broker: Process) -> list[Path]:
    """Returns a broker's log directories."""
    return [Path(each) for each in broker.settings["log.dirs"].split(",")]


def format_broker(plan: ClusterPlan, broker: Process) -> None:
    """Formats a broker's directories, as `quorate storage format` does; those that are, stay."""
    for disk in disks_of(broker):
        disk.mkdir(parents=True, exist_ok=True)
    config = plan.directory / f"{broker.name}.format.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in broker.settings.items()))
    asked = formatting.FormatOptions(cluster_id=plan.cluster_id, ignore_formatted=True)
    formatting.write(formatting.plan(asked, read_node_config(config)), timestamp_ms=0)


class OwnBrokers:
    """The plan's brokers, each a process of `services.broker`."""

    called: Final = "brokers of ours"

    def __init__(self, plan: ClusterPlan, running: Running) -> None:
        ports = iter(free_ports(2 * len(plan.brokers)))
        self._plan = plan
        self._running = running
        self._processes = {each: planned(plan, each, ports) for each in plan.brokers}
        self.bootstrap_servers = ",".join(each.kafka_address for each in self._processes.values())
        self._is_over = threading.Event()

    async def start(self) -> None:
        """Formats and starts them; each is unfenced at the end. Raises NotReady."""
        for broker in self._processes.values():
            format_broker(self._plan, broker)
            await self._running.spawn(broker)
        await self._running.ready(self._processes.values())

    async def close(self) -> None:
        """Has librdkafka's calls end; the brokers are ended with the processes of the plan."""
        self._is_over.set()

    async def show_records(self, console: Console, admin: Admin, topic: str) -> None:
        """Writes, shows the trace of a write, kills a leader, writes on, and reads all. Raises NotReady, ApiError."""
        console.print("librdkafka writes, with acks=all and enable.idempotence=true", markup=False)
        writer = _Writer(self.bootstrap_servers, topic, self._is_over)
        await asyncio.to_thread(writer.write, RECORDS)
        struck = await self._leader(admin, topic)
        console.print(f"{len(writer.acknowledged)} records are acknowledged; of one of these requests")
        traced = await admin.latest_trace(root="Produce", span_name="replicate")
        show.trace_lines(console, await admin.trace(traced, involved=()))  # all spans are of the one leader
        console.print(f"kill -9 of broker {struck}, which leads {topic}-0")
        await self._running.kill(self._processes[struck])
        began = time.monotonic()
        await asyncio.to_thread(writer.write, RECORDS)
        waited_s = time.monotonic() - began
        told = len(writer.acknowledged)
        console.print(f"{told} are acknowledged, {waited_s:.1f} s later: first its session had to end")
        await self._running.spawn(self._processes[struck])
        await self._running.ready([self._processes[struck]])
        if missing := await asyncio.to_thread(writer.missing):
            raise NotReady(f"{len(missing)} records were acknowledged and are not read at their offsets: {missing[:5]}")
        console.print(f"broker {struck} is back; all {told} are read, each at its offset\n")

    async def _leader(self, admin: Admin, topic: str) -> NodeId:
        """Returns who leads the topic's first partition. Raises NotReady if nobody does."""
        leader: NodeId = (await admin.describe_topic(topic)).topics[0].partitions[0].leader_id
        if leader not in self._processes:
            raise NotReady(f"nobody leads {topic}-0")
        return leader


class _Writer:
    """librdkafka, as anybody has it; `acknowledged` are values by partition and offset."""

    def __init__(self, servers: str, topic: str, is_over: threading.Event) -> None:
        """`is_over` ends its calls, which run in threads, within half a second."""
        import confluent_kafka  # only this part of the demonstration needs it

        self._kafka = confluent_kafka
        self._servers = servers
        self._topic = topic
        self._is_over = is_over
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._problems: list[str] = []
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all", "log_level": 0}
        )

    def write(self, count: int) -> None:
        """Waits until so many more are acknowledged. Raises NotReady."""
        for number in range(count):
            value = f"record {len(self.acknowledged) + number}".encode()
            self._producer.produce(self._topic, value, on_delivery=self._delivered)
        ends = time.monotonic() + PATIENCE_S
        while (left := self._producer.flush(SLICE_S)) and time.monotonic() < ends and not self._is_over.is_set():
            pass
        if left or self._problems:
            raise NotReady(f"{left} records have no answer, {len(self._problems)} are refused: {self._problems[:3]}")

    def missing(self) -> list[tuple[int, int]]:
        """Reads every partition from its start; returns what was acknowledged and is not there."""
        settings = {"bootstrap.servers": self._servers, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
        consumer = self._kafka.Consumer(settings)
        partitions = Counter(partition for partition, _ in self.acknowledged)
        consumer.assign([self._kafka.TopicPartition(self._topic, each, 0) for each in partitions])
        found: dict[tuple[int, int], bytes] = {}
        ends = time.monotonic() + PATIENCE_S
        while len(found) < len(self.acknowledged) and time.monotonic() < ends and not self._is_over.is_set():
            message = consumer.poll(SLICE_S)
            if message is not None and message.error() is None:
                found[message.partition() or 0, message.offset() or 0] = message.value() or b""
        consumer.close()
        return [at for at, value in self.acknowledged.items() if found.get(at) != value]

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._problems.append(str(error))
            return
        assert isinstance(message, self._kafka.Message), message
        self.acknowledged[message.partition() or 0, message.offset() or 0] = message.value() or b""
