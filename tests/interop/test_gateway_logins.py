"""Kafka's own tools at gateways that require a login: TLS, PLAIN, SCRAM, a delegation token."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from deploy.kafka.node import Node, ToolFailed, tool
from deploy.local.ports import free_ports
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from tests.e2e.cluster import VOTERS
from tests.e2e.secured import PLAIN_PASSWORD, WITH_BOTH, WITH_TLS, Secured, by, secured_plane
from tests.interop.kafka.quorum import AS_BROKER, SECURITY
from tests.interop.kafka.release import absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

PASSWORD: Final = 'sé"cret, =x'
LOGIN_MODULES: Final = "org.apache.kafka.common.security."
QUORUM_TOOL: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
ACL_TOOL: Final = "org.apache.kafka.tools.AclCommand"
STATUS: Final = ("describe", "--status")

PATIENCE: Final = {
    "default.api.timeout.ms": "240000",
    "request.timeout.ms": "120000",
    "socket.connection.setup.timeout.ms": "120000",
    "socket.connection.setup.timeout.max.ms": "120000",
}
"""Against hanging alone: a machine may be busy."""

Properties = Mapping[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def with_tls(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    async with secured_plane(tmp_path_factory.mktemp("tls"), everywhere=WITH_TLS) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def with_both(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    async with secured_plane(tmp_path_factory.mktemp("both"), everywhere=WITH_BOTH) as plane:
        await plane.set_password("bob", PASSWORD)
        for user in ("bob", "paul"):
            await plane.allow(f"User:{user}", AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
        yield plane


async def says(plane: Secured, client: Properties, main: str, *arguments: object) -> str:
    """What a tool prints, with these properties. Raises ToolFailed."""
    config = plane.cluster.plan.directory / f"{secrets.token_hex(8)}.properties"
    properties = {**PATIENCE, **client}
    config.write_text("".join(f"{name}={in_properties(value)}\n" for name, value in properties.items()))
    where = ("--bootstrap-controller", plane.cluster.plan.bootstrap_controllers, "--command-config", config)
    return await asyncio.to_thread(tool, main, *where, *arguments)


def in_properties(value: str) -> str:
    """As a Java properties file has it: ASCII, and backslashes twice."""
    return value.replace("\\", "\\\\").encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")


def trusting(plane: Secured, protocol: str) -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(plane.issuer.certificate),
    }


def certificate(plane: Secured, name: str) -> dict[str, str]:
    """A client's properties for TLS with a certificate."""
    keystore = str(plane.issuer.issue(name, f"/O=test/CN={name}"))
    return {**trusting(plane, "SSL"), "ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}


def password(plane: Secured, mechanism: str, user: str, secret: str, more: str = "") -> dict[str, str]:
    """A client's properties for a login."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = secret.replace("\\", "\\\\").replace('"', '\\"')
    return {
        **trusting(plane, "SASL_SSL"),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{LOGIN_MODULES}{module} required username="{user}" password="{quoted}"{more};',
    }


async def describes(plane: Secured, client: Properties) -> bool:
    """Whether the tool gets in, and prints the cluster's id. Raises ToolFailed if it does not get in."""
    return plane.cluster.plan.cluster_id in await says(plane, client, QUORUM_TOOL, *STATUS)


async def test_a_certificates_rights_count(with_tls: Secured) -> None:
    """A tool of a super user gives another client one, ALTER: who asks for controllers needs it."""
    alice = certificate(with_tls, "Alice")
    with pytest.raises(ToolFailed, match="ClusterAuthorizationException"):
        await says(with_tls, alice, QUORUM_TOOL, *STATUS)
    may = ("--add", "--allow-principal", "User:alice", "--operation", "Alter", "--cluster")
    await says(with_tls, certificate(with_tls, "admin"), ACL_TOOL, *may)

    assert await describes(with_tls, alice)


async def test_without_a_certificate_a_tool_hears_of_it_by_tls(with_tls: Secured) -> None:
    with pytest.raises(ToolFailed, match=r"SslAuthenticationException|SSLHandshakeException"):
        await says(with_tls, trusting(with_tls, "SSL"), QUORUM_TOOL, *STATUS)


@pytest.mark.parametrize(
    ("mechanism", "user", "secret"),
    [("PLAIN", "paul", PLAIN_PASSWORD), ("SCRAM-SHA-256", "bob", PASSWORD), ("SCRAM-SHA-512", "bob", PASSWORD)],
)
async def test_a_tool_logs_in(with_both: Secured, mechanism: str, user: str, secret: str) -> None:
    for node_id in VOTERS:  # by now every controller has the user
        await (await with_both.logged_in(node_id, by(mechanism, user, secret))).close()

    assert await describes(with_both, password(with_both, mechanism, user, secret))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_told_in_kafkas_words(with_both: Secured, mechanism: str) -> None:
    with pytest.raises(ToolFailed, match=r"SaslAuthenticationException: Authentication failed"):
        await says(with_both, password(with_both, mechanism, "bob", "guess"), QUORUM_TOOL, *STATUS)


async def test_a_mechanism_that_there_is_not_is_refused_with_those_that_there_are(with_both: Secured) -> None:
    client = {
        **trusting(with_both, "SASL_SSL"),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": (
            f'{LOGIN_MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="x";'
        ),
    }
    with pytest.raises(ToolFailed, match="UnsupportedSaslMechanismException") as refused:
        await says(with_both, client, QUORUM_TOOL, *STATUS)

    assert "[PLAIN, SCRAM-SHA-256, SCRAM-SHA-512]" in str(refused.value)


async def test_a_delegation_token_logs_in(with_both: Secured) -> None:
    async with await with_both.logged_in(1, by("SCRAM-SHA-256", "bob", PASSWORD)) as bob:
        made = await bob.ask_for(CreateDelegationTokenResponse, CreateDelegationTokenRequest())
    assert ErrorCode.NONE == made.error_code
    secret = base64.b64encode(made.hmac).decode()
    for node_id in VOTERS:
        begin = by("SCRAM-SHA-256", made.token_id, secret, is_token=True)
        await (await with_both.logged_in(node_id, begin)).close()

    assert await describes(with_both, password(with_both, "SCRAM-SHA-256", made.token_id, secret, ' tokenauth="true"'))


async def test_a_broker_with_a_certificate_runs_on_them(with_tls: Secured, tmp_path: Path) -> None:
    """It may act for the cluster, so it registers, follows the log and passes on what its clients ask."""
    (port,) = free_ports(1)
    user, topic = "broker-7", f"of-{secrets.token_hex(4)}"
    await with_tls.allow(f"User:{user}", AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    properties = {
        **SECURITY,
        **AS_BROKER,
        **{f"listener.name.controller.{name}": value for name, value in certificate(with_tls, user).items()},
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
        "process.roles": "broker",
        "node.id": 7,
        "controller.quorum.voters": with_tls.cluster.plan.gateways[0].settings["controller.quorum.voters"],
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": tmp_path / "broker" / "data",
    }
    with Node(tmp_path / "broker", properties) as broker:
        await asyncio.to_thread(broker.format, with_tls.cluster.plan.cluster_id)
        await asyncio.to_thread(broker.start().wait_ready)
        create = ("--create", "--topic", topic, "--replica-assignment", "7")
        where = ("--bootstrap-server", f"127.0.0.1:{port}")
        await asyncio.to_thread(tool, "org.apache.kafka.tools.TopicCommand", *where, *create)
        made = (await with_tls.cluster.topics(at=1))[topic]
        await asyncio.to_thread(broker.stop)  # the other brokers live on this loop, and the shutdown waits for them

    assert [7] == [partition.leader_id for partition in made.partitions]
