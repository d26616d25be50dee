"""A whole quorum of Kafka controllers: led through a short life from its first format on, or started on directories."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node, tool
from deploy.local.ports import free_ports
from tests.interop.kafka.drive import Drive

CLUSTER_ID: Final = "n3Vb0q7mSlW8cYkXe2RtZw"
TOPICS: Final = {"plain": 3, "orders": 2}
BROKER: Final = 4
"""The broker beside three controllers; a quorum of one is controller and broker in one process."""

QUIET: Final = {"metadata.max.idle.interval.ms": "5000"}
"""Of a controller. Each NoOpRecord, by default two a second, wakes every node and client that has the log: at rest our
nodes with all their services take a quarter less of the processor, and a node of Kafka's two fifths."""
SECURITY: Final[dict[str, object]] = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
}
AS_BROKER: Final[dict[str, object]] = {
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "num.network.threads": 1,
    "num.io.threads": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Voters:
    """Where the voters listen, by id. They are static at kraft.version 0, in the log at 1 (KIP-853)."""

    addresses: Mapping[int, str]
    are_static: bool

    @property
    def properties(self) -> dict[str, object]:
        """The settings of every node of the cluster about them."""
        if self.are_static:
            voters = (f"{node_id}@{address}" for node_id, address in self.addresses.items())
            return {"controller.quorum.voters": ",".join(voters)}
        return {"controller.quorum.bootstrap.servers": ",".join(self.addresses.values())}


@contextmanager
def controllers_on(sources: Mapping[int, Path], scratch: Path, voters: Voters) -> Iterator[dict[int, Node]]:
    """A controller over a copy of each directory (`scratch/node-<id>/data`), all of them ready."""
    with ExitStack() as stack:
        nodes = {}
        for node_id, source in sources.items():
            data = data_of(scratch, node_id)
            shutil.copytree(source, data)
            nodes[node_id] = stack.enter_context(_controller(data, node_id, voters)).start()
        for node in nodes.values():
            node.wait_ready()
        yield nodes


def short_life(scratch: Path, *, count: int, are_static: bool) -> dict[int, Path]:
    """A quorum of one or three is formatted and started, has topics made, and stops: its directories by node id."""
    assert count in (1, 3), count
    *ports, port = free_ports(count + 1)
    addresses = {node_id: f"127.0.0.1:{each}" for node_id, each in enumerate(ports, 1)}
    voters = Voters(addresses=addresses, are_static=are_static)
    with ExitStack() as stack:
        nodes = {node_id: stack.enter_context(node) for node_id, node in _cluster(scratch, voters, port).items()}
        _format(nodes, voters)
        for node in nodes.values():
            node.start()
        for node in nodes.values():
            node.wait_ready()
        with Drive(f"127.0.0.1:{port}") as drive:
            for topic, partitions in TOPICS.items():
                drive.change("createTopic", name=topic, partitions=partitions, replicas=1)
            drive.change("alterConfigs", type="TOPIC", name="plain", SET={"retention.ms": "60000"})
        for node in reversed(nodes.values()):  # the broker while there are controllers
            node.stop()
    return {node_id: data_of(scratch, node_id) for node_id in addresses}


def data_of(scratch: Path, node_id: int) -> Path:
    """The log directory of a node below `scratch`."""
    return scratch / f"node-{node_id}" / "data"


def _cluster(scratch: Path, voters: Voters, port: int) -> dict[int, Node]:
    if len(voters.addresses) == 1:
        return {1: combined(data_of(scratch, 1), 1, voters, port)}
    controllers = {node_id: _controller(data_of(scratch, node_id), node_id, voters) for node_id in voters.addresses}
    return controllers | {BROKER: _broker(data_of(scratch, BROKER), BROKER, voters, port)}


def _format(nodes: Mapping[int, Node], voters: Voters) -> None:
    named = {node_id: tool("kafka.tools.StorageTool", "random-uuid").strip() for node_id in voters.addresses}
    first = ",".join(f"{node_id}@{voters.addresses[node_id]}:{directory}" for node_id, directory in named.items())
    how: tuple[str, ...] = ("--standalone",) if len(named) == 1 else ("--initial-controllers", first)
    for node_id, node in nodes.items():
        node.format(CLUSTER_ID, *(how if node_id in named and not voters.are_static else ()))


def _controller(data: Path, node_id: int, voters: Voters) -> Node:
    listener = f"CONTROLLER://{voters.addresses[node_id]}"
    own = {"process.roles": "controller", "node.id": node_id, "listeners": listener, "log.dirs": data}
    return Node(data.parent, SECURITY | voters.properties | own)


def _broker(data: Path, node_id: int, voters: Voters, port: int) -> Node:
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    own = {"process.roles": "broker", "node.id": node_id, "listeners": listener, "log.dirs": data}
    return Node(data.parent, SECURITY | AS_BROKER | voters.properties | own)


def combined(data: Path, node_id: int, voters: Voters, port: int) -> Node:
    """A controller and broker in one process, whose clients come to `port`."""
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{voters.addresses[node_id]}"
    own = {"process.roles": "broker,controller", "node.id": node_id, "listeners": listeners, "log.dirs": data}
    return Node(data.parent, SECURITY | AS_BROKER | voters.properties | own)
