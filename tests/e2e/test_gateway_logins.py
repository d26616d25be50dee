"""Gateways that want to know who their clients are, beside real nodes: TLS, and whose rights count for a request."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import struct
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import pytest
import pytest_asyncio

from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId
from quorate.protocol.apis import api_of
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.wire.codec import encode
from services.controller.config import STANDARD_AUTHORIZER
from tests.e2e.calls import eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane
from tests.network.certificates import Authority, authority
from tests.network.test_tls import ended

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CONTROLLER_SETTINGS: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:admin",
}
"""Everybody over gRPC is ANONYMOUS; at the gateways nobody is, as each wants a certificate or a password."""
RULES: Final = r"RULE:^CN=(.*?),O=test$/$1/L,DEFAULT"
NONE, REFUSED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
WITH_TLS: Final = 1


class Secured(NamedTuple):
    """A control plane whose gateways know their clients, and who issues certificates."""

    cluster: Cluster
    issuer: Authority

    def tls(self, name: str | None = None) -> ssl.SSLContext:
        """TLS for a client, with a certificate for the name if one is said."""
        return self.issuer.client(self.issuer.issue(name, f"/O=test/CN={name}") if name else None)

    async def connect(self, node_id: NodeId, **login: object) -> Connection:
        host, port = self.at(node_id)
        return await connect(host, port, **login)

    async def as_user(self, name: str) -> Connection:
        """A connection with a certificate."""
        return await self.connect(WITH_TLS, tls=self.tls(name))

    def at(self, node_id: NodeId) -> tuple[str, int]:
        host, _, port = self.cluster.plan.bootstrap_controllers.split(",")[node_id - 1].rpartition(":")
        return host, int(port)

    def log(self, node_id: NodeId) -> str:
        """What a gateway has written."""
        return (self.cluster.plan.directory / f"gateway-{node_id}.log").read_text()

    async def told(self, node_id: NodeId, reason: str) -> list[str]:
        """Waits until a gateway has told this reason, and returns the lines that have it."""

        async def lines() -> list[str]:
            return [line for line in self.log(node_id).splitlines() if reason in line]

        return await eventually(lines)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    issuer = authority(directory)
    tls = {
        "ssl.keystore.location": str(issuer.issue("gateway", "/O=test/CN=localhost")),
        "ssl.truststore.location": str(issuer.certificate),
    }
    settings = {
        WITH_TLS: {
            **tls,
            "listener.security.protocol.map": "CONTROLLER:SSL",
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": RULES,
        }
    }
    async with control_plane(
        directory,
        quorum_settings=PATIENT,
        controller_settings=CONTROLLER_SETTINGS,
        with_gateways=True,
        gateway_settings=settings,
    ) as cluster:
        yield Secured(cluster, issuer)


def topics(*names: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(tuple(topic(name, 1, 3) for name in names), 10_000)


async def created(client: Connection, *names: str) -> list[int]:
    answer = await client.ask_for(CreateTopicsResponse, topics(*names))
    return [each.error_code for each in answer.topics]


async def allow(secured: Secured, principal: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
    """An entry by a super user, through the gateway with TLS."""
    entry = CreateAclsRequest.AclCreation(
        kind, name, PatternType.LITERAL, principal, "*", operation, AclPermission.ALLOW
    )
    async with await secured.as_user("admin") as admin:
        answer = await admin.ask_for(CreateAclsResponse, CreateAclsRequest((entry,)))
    assert [NONE] == [each.error_code for each in answer.results]


async def test_a_certificates_rights_count(secured: Secured) -> None:
    mine, other = (f"{name}-{secrets.token_hex(4)}" for name in ("mine", "other"))
    await allow(secured, "User:alice", AclOperation.CREATE, ResourceType.TOPIC, mine)
    async with await secured.as_user("Alice") as alice:
        assert [NONE, REFUSED] == await created(alice, mine, other)
    async with await secured.as_user("mallory") as mallory:
        assert [REFUSED] == await created(mallory, f"more-{mine}")

    assert mine in await secured.cluster.topics(at=VOTERS[1])
    assert other not in await secured.cluster.topics(at=VOTERS[1])


async def test_an_envelope_is_believed_from_a_broker_that_may_act_for_the_cluster(secured: Secured) -> None:
    """The right of the broker's own principal counts, not that of its address. KIP-590."""
    name = f"enclosed-{secrets.token_hex(4)}"
    await allow(secured, "User:carol", AclOperation.CREATE, ResourceType.TOPIC, name)
    inside = encode_request(api_of(CreateTopicsRequest), topics(name), version=7, correlation_id=5, client_id="app")
    principal = bytes(2) + encode(DefaultPrincipalData("User", "carol"), 0)
    envelope = EnvelopeRequest(inside, principal, bytes([10, 0, 0, 1]))
    async with await secured.as_user("broker-7") as broker:
        assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == (await broker.ask_for(EnvelopeResponse, envelope)).error_code
        await allow(secured, "User:broker-7", AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
        answer = await broker.ask_for(EnvelopeResponse, envelope)

    assert NONE == answer.error_code
    _, position = decode_response_header(api_of(CreateTopicsRequest), 7, answer.response_data or b"")
    (topic,) = decode_body(CreateTopicsResponse, answer.response_data or b"", position, 7).topics
    assert (name, NONE) == (topic.name, topic.error_code)


async def test_who_shows_no_certificate_is_sent_away_and_the_log_says_why(secured: Secured) -> None:
    with pytest.raises(OSError, match=r".*"):
        await secured.connect(WITH_TLS, tls=secured.tls())

    (line,) = await secured.told(WITH_TLS, "peer did not return a certificate")
    assert "level=info" in line
    assert "a connection was closed" in line


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">ihhih", 10, 18, 3, 1, -1), "wrong version number"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600), "the TLS handshake failed"),
    ],
    ids=["clear text", "a broken hello"],
)
async def test_what_is_no_tls_disturbs_nobody(secured: Secured, sent: bytes, reason: str) -> None:
    async with await secured.as_user("admin") as beside:
        reader, writer = await asyncio.open_connection(*secured.at(WITH_TLS))
        writer.write(sent)
        await ended(reader)
        writer.close()

        assert [NONE] == await created(beside, f"beside-{secrets.token_hex(4)}")
    await secured.told(WITH_TLS, reason)
