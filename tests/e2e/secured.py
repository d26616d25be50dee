"""A control plane whose gateways want to know who their clients are: one by TLS, two by SASL."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft import Message
from kraft.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.api.envelope import EnvelopeRequest
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.metadata.scram import MECHANISMS
from quorate.network.client import Connection, Timeouts, connect
from quorate.nouns import NodeId
from quorate.protocol.apis import api_of
from quorate.protocol.messages import encode_request
from quorate.protocol.sasl.client import Begin
from quorate.protocol.sasl.plain import PLAIN, PlainClient
from quorate.protocol.sasl.scram import ScramClient, scram_number
from quorate.wire.codec import encode
from tests.e2e.calls import eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane
from tests.network.certificates import Authority, authority

CONTROLLER_SETTINGS: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "of this cluster",
}
"""Everybody over gRPC is ANONYMOUS; at the gateways nobody is, as each wants a certificate or a password."""
RULES: Final = r"RULE:^CN=(.*?),O=test$/$1/L,DEFAULT"
WITH_TLS, WITH_BOTH, WITH_SASL = 1, 2, 3
"""The gateways by what they speak: SSL, SASL_SSL, SASL_PLAINTEXT."""
PLAIN_PASSWORD: Final = 'p"l a\\in'
ADMIN_PASSWORD: Final = "root"
PATIENCE: Final = Timeouts(connect_ms=120_000, request_ms=120_000)
"""Against hanging alone: no test here is about how fast a login is."""
REAUTH_MS: Final = 600_000


class Secured(NamedTuple):
    """The control plane, and who issues certificates."""

    cluster: Cluster
    issuer: Authority
    everywhere: NodeId | None = None
    """The gateway that all speak like; None if each speaks otherwise."""

    def tls(self, name: str | None = None) -> ssl.SSLContext:
        """TLS for a client, with a certificate for the name if one is said."""
        return self.issuer.client(self.issuer.issue(name, f"/O=test/CN={name}") if name else None)

    async def connect(self, node_id: NodeId, **login: Any) -> Connection:
        host, port = self.at(node_id)
        return await connect(host, port, timeouts=PATIENCE, **login)

    async def as_user(self, name: str) -> Connection:
        """A connection with a certificate."""
        return await self.connect(WITH_TLS, tls=self.tls(name))

    def speaks(self, node_id: NodeId) -> NodeId:
        """The gateway like which this one speaks."""
        return self.everywhere or node_id

    async def admin(self) -> Connection:
        """A connection of a super user."""
        if self.speaks(WITH_TLS) == WITH_TLS:
            return await self.as_user("admin")
        return await self.login(WITH_TLS, by(PLAIN, "admin", ADMIN_PASSWORD))

    async def login(self, node_id: NodeId, begin: Begin) -> Connection:
        """A connection with a login. Raises ApiError."""
        return await self.connect(node_id, begin=begin, tls=self.tls() if self.speaks(node_id) == WITH_BOTH else None)

    async def logged_in(self, node_id: NodeId, begin: Begin) -> Connection:
        """The same once the controller beside the gateway has replayed that there is this user."""

        async def connection() -> Connection | None:
            try:
                return await self.login(node_id, begin)
            except ApiError as refusal:
                assert refusal.code is ErrorCode.SASL_AUTHENTICATION_FAILED, refusal
                return None
            except OSError:
                return None  # the gateway had no answer of its controller in time

        found = await eventually(connection)
        assert found is not None
        return found

    def at(self, node_id: NodeId) -> tuple[str, int]:
        host, _, port = self.cluster.plan.bootstrap_controllers.split(",")[node_id - 1].rpartition(":")
        return host, int(port)

    def log(self, node_id: NodeId) -> str:
        """What a gateway has written."""
        return (self.cluster.plan.directory / f"gateway-{node_id}.log").read_text()

    async def told(self, node_id: NodeId, reason: str) -> list[str]:
        """Waits until a gateway has logged this reason, and returns the lines that have it."""

        async def lines() -> list[str]:
            return [line for line in self.log(node_id).splitlines() if reason in line]

        return await eventually(lines)

    async def allow(self, principal: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """An entry by a super user."""
        entry = CreateAclsRequest.AclCreation(
            kind, name, PatternType.LITERAL, principal, "*", operation, AclPermission.ALLOW
        )
        async with await self.admin() as admin:
            answer = await admin.ask_for(CreateAclsResponse, CreateAclsRequest((entry,)))
        assert [ErrorCode.NONE] == [each.error_code for each in answer.results]

    async def set_password(self, user: str, password: str) -> None:
        """For both mechanisms, by a super user."""
        upsert = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
        upserts = []
        for mechanism in MECHANISMS:
            salt = secrets.token_bytes(16)
            salted = salted_password(mechanism, password.encode(), salt, ITERATIONS_MIN)
            upserts.append(upsert(user, mechanism, ITERATIONS_MIN, salt, salted))
        for each in upserts:  # a user comes but once in a request
            async with await self.admin() as admin:
                request = AlterUserScramCredentialsRequest(upsertions=(each,))
                answer = await admin.ask_for(AlterUserScramCredentialsResponse, request)
            assert [ErrorCode.NONE] == [result.error_code for result in answer.results]


def nonce() -> str:
    return secrets.token_hex(16)


def by(mechanism: str, user: str, password: str, *, is_token: bool = False) -> Begin:
    """What begins a login."""
    number = scram_number(mechanism)
    if number is None:
        assert mechanism == PLAIN
        return lambda: PlainClient(user, password)
    return lambda: ScramClient(number, user, password, nonce=nonce, is_token=is_token)


@asynccontextmanager
async def secured_plane(directory: Path, *, everywhere: NodeId | None = None) -> AsyncIterator[Secured]:
    """Started, and everything is ended at the end.

    A JVM's tool goes on to any gateway that an answer names, so for it all speak as the one that is `everywhere`.
    """
    issuer = authority(directory)
    tls = {
        "ssl.keystore.location": str(issuer.issue("gateway", "/O=test/CN=localhost")),
        "ssl.truststore.location": str(issuer.certificate),
    }
    quoted = PLAIN_PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    escaped = quoted.replace("\\", "\\\\")  # once more, for the properties file
    plain = {
        "listener.name.controller.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="x" password="y" user_paul="{escaped}" user_admin="{ADMIN_PASSWORD}";'
        ),
    }
    authorized = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
    settings = {
        WITH_TLS: {
            **authorized,
            **tls,
            "listener.security.protocol.map": "CONTROLLER:SSL",
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": RULES,
        },
        WITH_BOTH: {
            **authorized,
            **tls,
            **plain,
            "listener.security.protocol.map": "CONTROLLER:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        },
        WITH_SASL: {
            **authorized,
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256, SCRAM-SHA-512",
            "listener.name.controller.scram-sha-256.sasl.jaas.config": "ScramLoginModule required;",
            "listener.name.controller.connections.max.reauth.ms": str(REAUTH_MS),
            "sasl.server.max.receive.size": "4096",
        },
    }
    if everywhere is not None:
        settings = dict.fromkeys(VOTERS, settings[everywhere])
    async with control_plane(
        directory,
        quorum_settings=PATIENT,
        controller_settings=CONTROLLER_SETTINGS,
        with_gateways=True,
        gateway_settings=settings,
        is_observed=False,
    ) as cluster:
        yield Secured(cluster, issuer, everywhere)


def enclosed(request: Message, user: str) -> EnvelopeRequest:
    """A request of version 7 that a broker passes on for its client, a user at 10.0.0.1. KIP-590."""
    inside = encode_request(api_of(type(request)), request, version=7, correlation_id=5, client_id="app")
    principal = bytes(2) + encode(DefaultPrincipalData("User", user), 0)
    return EnvelopeRequest(inside, principal, bytes([10, 0, 0, 1]))
