"""The script's first target: a quorum of Kafka controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node
from deploy.local.ports import free_ports
from kraft import Message
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kraft.errors import ErrorCode
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId, Offset
from tests.interop.kafka.release import OPERATIONS_POM
from tests.interop.operations.names import CLUSTER_ID
from tests.interop.operations.settings import COMMON, QUORUM, RELEASE
from tests.interop.operations.targets import LOOK_EVERY_S, WITHIN_S, Outcome

LOOPBACK: Final = "127.0.0.1"
ONLY_THEIRS: Final = {
    "process.roles": "controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


class Theirs:
    """The active Kafka controller, over one connection for the script and one for heartbeats."""

    name = "Kafka"

    def __init__(self, active_id: NodeId, log_dir: Path, client: Connection) -> None:
        self.active_id = active_id
        self.log_dir = log_dir
        self._client = client

    @property
    def acknowledged(self) -> Offset:
        """The leader writes to its log before anybody hears of it: whatever there is, is enough."""
        return 0

    async def ask(self, request: Message, *, version: int | None = None) -> Outcome:
        return Outcome(response=await self._client.ask(request, version=version))


@asynccontextmanager
async def running(scratch: Path, voters: tuple[NodeId, ...]) -> AsyncIterator[Theirs]:
    """Static voters, formatted and started; the one that leads is asked."""
    ports = dict(zip(voters, free_ports(len(voters)), strict=True))
    with ExitStack() as stack:
        nodes = {node_id: stack.enter_context(_node(scratch, node_id, ports)) for node_id in voters}
        for node in nodes.values():
            node.format(CLUSTER_ID, "--release-version", RELEASE)
            node.start()
        for node in nodes.values():
            node.wait_ready()
        leader_id = await _active(ports)
        async with await connect(LOOPBACK, ports[leader_id]) as client:
            yield Theirs(leader_id, scratch / f"kafka-{leader_id}" / "data", client)
        for node in nodes.values():
            node.stop()


def _node(scratch: Path, node_id: NodeId, ports: Mapping[NodeId, int]) -> Node:
    directory = scratch / f"kafka-{node_id}"
    own = {
        "node.id": node_id,
        "listeners": f"CONTROLLER://127.0.0.1:{ports[node_id]}",
        "controller.quorum.voters": ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in ports.items()),
        "log.dirs": directory / "data",
    }
    return Node(directory, ONLY_THEIRS | COMMON | QUORUM | own, pom=OPERATIONS_POM)


async def _active(ports: Mapping[NodeId, int]) -> NodeId:
    """The controller that is ready to decide: it refuses a broker that it does not know, the others refuse to
    decide."""
    nobody = AllocateProducerIdsRequest(broker_id=0, broker_epoch=0)
    async with asyncio.timeout(WITHIN_S):
        while True:
            for node_id, port in ports.items():
                async with await connect(LOOPBACK, port) as client:
                    answer = await client.ask(nobody)
                assert isinstance(answer, AllocateProducerIdsResponse), answer
                if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
                    return node_id
            await asyncio.sleep(LOOK_EVERY_S)
