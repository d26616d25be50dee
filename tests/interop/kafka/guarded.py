"""Brokers of two releases with an authorizer, on our control plane or on a Kafka controller, and their clients.

Each broker has a listener for clients that log in by SCRAM, and one for tools, where everybody is a super user.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node
from deploy.local.kafka import HEAP, SETTINGS
from deploy.local.ports import HOST, free_ports
from kraft.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId, uuid_text
from quorate.protocol.sasl.scram import ScramClient
from quorate.random_uuid import random_uuid
from tests.e2e.calls import eventually
from tests.interop.kafka.clients import Clients
from tests.interop.kafka.drive import Drive
from tests.interop.kafka.fleet import SettingsOf, fleet_of
from tests.interop.kafka.quorum import QUIET
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM

BROKERS: Final = {101: OLDEST_POM, 102: OPERATIONS_POM}
LEVEL: Final = "4.0-IV3"
"""The highest metadata.version that the oldest release takes."""
AT: Final = {f"at-{broker_id}": broker_id for broker_id in BROKERS}
"""A topic with one partition at each broker."""
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SUPER: Final = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
SECRET: Final = {"delegation.token.secret.key": "of this cluster"}
OF_CONTROLLERS: Final = {**SUPER, **SECRET}
CONTROLLER_ID: Final = 1
ITERATIONS: Final = 4096
SHA_256: Final = 1
"""The mechanism, as a record has it."""


def login(name: str, password: str, more: str = "") -> dict[str, str]:
    """A client's properties for a login by SCRAM."""
    jaas = f'{MODULE} username="{name}" password="{password}"{more};'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}


def password_of(user: str) -> str:
    """What Drive.java gives a SCRAM user."""
    return f"not a secret: {user}"


def settings_of(login_ports: Mapping[NodeId, int]) -> SettingsOf:
    """What such a broker has beyond what all have, by its id and its port for tools."""

    def own(broker_id: NodeId, port: int) -> dict[str, object]:
        return {
            **OF_CONTROLLERS,
            "listeners": f"PLAINTEXT://{HOST}:{port},CLIENTS://{HOST}:{login_ports[broker_id]}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{MODULE};",
            "quota.window.num": 2,
            "offsets.topic.replication.factor": 2,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 2,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 2,
            "share.coordinator.state.topic.min.isr": 1,
        }

    return own


class Side:
    """The brokers on one side. `tool_ports` and `login_ports` are those of the two listeners, by broker id."""

    def __init__(
        self,
        tool_ports: Mapping[NodeId, int],
        login_ports: Mapping[NodeId, int],
        drive: Drive,
        clients: Clients,
    ) -> None:
        self.tool_ports = dict(tool_ports)
        self.login_ports = dict(login_ports)
        self.servers = _servers(login_ports)
        self.clients = clients
        self._drive = drive

    async def change(self, what: str, **fields: object) -> None:
        """A change by Kafka's Admin client as a super user. Raises AssertionError when it is refused."""
        await asyncio.to_thread(lambda: self._drive.change(what, **fields))

    async def add_user(self, name: str) -> dict[str, str]:
        """A new SCRAM user; a client's properties for its login."""
        await self.change("upsertScram", user=name, mechanism="SCRAM_SHA_256", iterations=ITERATIONS)
        return {"bootstrap.servers": self.servers, **login(name, password_of(name))}

    async def logged_in(self, broker_id: NodeId, user: str, password: str, *, is_token: bool = False) -> Connection:
        """A client of ours at a broker, after its login by SCRAM. Raises ApiError if the broker refuses it."""

        def begin() -> ScramClient:
            return ScramClient(SHA_256, user, password, nonce=secrets.token_urlsafe, is_token=is_token)

        return await connect(HOST, self.login_ports[broker_id], begin=begin)

    async def gets_in(self, user: str, password: str, *, wanted: bool = True, is_token: bool = False) -> None:
        """Waits until each broker lets the user log in, or until none does."""

        async def is_let_in(broker_id: NodeId) -> bool:
            try:
                await (await self.logged_in(broker_id, user, password, is_token=is_token)).close()
            except ApiError as refused:
                assert refused.code is ErrorCode.SASL_AUTHENTICATION_FAILED, refused
                return False
            return True

        for broker_id in self.login_ports:
            await eventually(partial(is_let_in, broker_id), lambda seen: seen == wanted)

    async def settled(self) -> None:
        """Waits until every broker has applied what was changed: it has an ACL that was added after it."""
        marker = f"marker-{secrets.token_hex(8)}"
        entry = {"principal": "User:nobody", "host": "*", "operation": "READ", "permission": "DENY"}
        await self.change("createAcl", type="TOPIC", name=marker, pattern="LITERAL", **entry)
        for port in self.tool_ports.values():
            await eventually(lambda at=port: _has_acls_on(at, marker))


async def _has_acls_on(port: int, topic: str) -> bool:
    filters = DescribeAclsRequest(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    async with await connect(HOST, port) as client:
        return bool((await client.ask_for(DescribeAclsResponse, filters)).resources)


def _servers(ports: Mapping[NodeId, int]) -> str:
    return ",".join(f"{HOST}:{port}" for port in ports.values())


@asynccontextmanager
async def on_ours(
    directory: Path, releases: Mapping[NodeId, Path] = BROKERS, level: str = LEVEL
) -> AsyncIterator[Side]:
    """The brokers on three nodes of ours, by their gateways."""
    login_ports = dict(zip(releases, free_ports(len(releases)), strict=True))
    own = settings_of(login_ports)
    async with (
        fleet_of(directory, releases, level=level, controller_settings=OF_CONTROLLERS, settings_of=own) as fleet,
        _at_work(fleet.ports, login_ports) as side,
    ):
        yield side


@asynccontextmanager
async def on_kafkas(
    directory: Path, releases: Mapping[NodeId, Path] = BROKERS, level: str = LEVEL
) -> AsyncIterator[Side]:
    """The same brokers on a controller of the newest release."""
    controller_port, *ports = free_ports(1 + 2 * len(releases))
    tool_ports = dict(zip(releases, ports[: len(releases)], strict=True))
    login_ports = dict(zip(releases, ports[len(releases) :], strict=True))
    own, cluster_id = settings_of(login_ports), uuid_text(random_uuid())
    voters = {"controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{controller_port}"}
    with ExitStack() as stack:
        controller = stack.enter_context(_controller(directory, controller_port, voters))
        brokers = [
            stack.enter_context(_broker(directory, broker_id, releases[broker_id], {**voters, **own(broker_id, port)}))
            for broker_id, port in tool_ports.items()
        ]
        for node in (controller, *brokers):
            await asyncio.to_thread(node.format, cluster_id, "--release-version", level)
            node.start()
        for node in (controller, *brokers):
            await asyncio.to_thread(node.wait_ready)
        async with _at_work(tool_ports, login_ports) as side:
            yield side


SIDES: Final[Mapping[str, Callable[..., AbstractAsyncContextManager[Side]]]] = {
    "Quorate": on_ours,
    "Kafka": on_kafkas,
}


def _controller(directory: Path, port: int, voters: Mapping[str, object]) -> Node:
    own = {
        "process.roles": "controller",
        "node.id": CONTROLLER_ID,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "listeners": f"CONTROLLER://{HOST}:{port}",
        "log.dirs": directory / "controller" / "data",
    }
    return Node(directory / "controller", {**own, **QUIET, **OF_CONTROLLERS, **voters}, pom=OPERATIONS_POM, heap=HEAP)


def _broker(directory: Path, broker_id: NodeId, pom: Path, settings: Mapping[str, object]) -> Node:
    home = directory / f"broker-{broker_id}"
    own = {"node.id": broker_id, "log.dirs": home / "data"}
    return Node(home, {**SETTINGS, **own, **settings}, pom=pom, heap=HEAP)


@asynccontextmanager
async def _at_work(tool_ports: Mapping[NodeId, int], login_ports: Mapping[NodeId, int]) -> AsyncIterator[Side]:
    """The topics `AT` are made; the JVMs of the clients end with it."""
    with Drive(_servers(tool_ports)) as drive, Clients() as clients:
        side = Side(tool_ports, login_ports, drive, clients)
        for topic, broker_id in AT.items():
            await side.change("createTopic", name=topic, assignment=[[broker_id]])
        yield side
