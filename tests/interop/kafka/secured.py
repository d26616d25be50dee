"""A Kafka controller at which every client must log in, over TLS, and that asks for rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node
from deploy.local.ports import free_ports
from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.network.client import connect
from quorate.protocol.sasl.plain import PlainClient
from tests.interop.test_live_readers import CLUSTER_ID
from tests.interop.test_wire_client import PASSWORD
from tests.network.test_network import contexts

HOST: Final = "localhost"
"""As the certificate has it."""
USER: Final = "alice"
_SUPER: Final = ("controller", "of controllers")
_JAAS: Final = "org.apache.kafka.common.security"


class SecuredController:
    """The only controller of its cluster; `USER` may log in by SCRAM, and may do nothing until `allow`."""

    def __init__(self, directory: Path, pom: Path) -> None:
        _, self._trust = contexts(directory)
        key, certificate = (directory / name for name in ("key.pem", "certificate.pem"))
        (directory / "both.pem").write_text(key.read_text() + certificate.read_text())
        (self.port,) = free_ports(1)
        self._directory = directory
        self.node = Node(directory / "node", self._properties(), pom=pom)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def client(self, password: str = PASSWORD) -> dict[str, str]:
        """A client's properties, as Kafka's tools take them."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{_JAAS}.scram.ScramLoginModule required username="{USER}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._directory / "certificate.pem"),
        }

    async def allow(self, operation: AclOperation) -> None:
        """Lets `USER` do it on the cluster."""
        entry = CreateAclsRequest.AclCreation(
            resource_type=ResourceType.CLUSTER,
            resource_name="kafka-cluster",
            resource_pattern_type=PatternType.LITERAL,
            principal=f"User:{USER}",
            host="*",
            operation=operation,
            permission_type=AclPermission.ALLOW,
        )
        async with await connect(HOST, self.port, tls=self._trust, begin=lambda: PlainClient(*_SUPER)) as client:
            answer = await client.ask_for(CreateAclsResponse, CreateAclsRequest(creations=(entry,)))
        assert [0] == [each.error_code for each in answer.results], answer

    def _properties(self) -> dict[str, object]:
        name, (user, password) = "listener.name.controller", _SUPER
        plain = f'{_JAAS}.plain.PlainLoginModule required username="{user}" password="{password}"'
        return {
            "process.roles": "controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{self.address}",
            "listener.security.protocol.map": "CONTROLLER:SASL_SSL",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{name}.plain.sasl.jaas.config": f'{plain} user_{user}="{password}";',
            f"{name}.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
            f"{name}.ssl.keystore.type": "PEM",
            f"{name}.ssl.keystore.location": self._directory / "both.pem",
            f"{name}.ssl.truststore.type": "PEM",
            f"{name}.ssl.truststore.location": self._directory / "certificate.pem",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{user}",
            "log.dirs": self.node_data,
        }

    @property
    def node_data(self) -> Path:
        """Its log directory."""
        return self._directory / "node" / "data"


@contextmanager
def secured_controller(directory: Path, pom: Path) -> Iterator[SecuredController]:
    """Formats and starts the controller; it is ready."""
    made = SecuredController(directory, pom)
    with made.node as node:
        node.format(CLUSTER_ID, "--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]")
        node.start().wait_ready()
        yield made
