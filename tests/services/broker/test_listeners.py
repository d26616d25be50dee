"""A broker's listeners: their settings, logins by what it has applied, and how it speaks to other brokers."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorate.controller.access.delegation_tokens import TokenSettings, token_hmac
from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password, verifier_keys
from quorate.errors import ApiError, ErrorCode
from quorate.listeners.opening import listening_of, opened
from quorate.listeners.security import security_of
from quorate.metadata.state import ClusterState
from quorate.network.client import Timeouts, connect
from quorate.network.listening import ConnectedClient
from quorate.network.server import KafkaServer
from quorate.protocol import Request
from quorate.protocol.sasl.scram import ScramClient
from quorate.records import DelegationTokenRecord, UserScramCredentialRecord
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.settings.config import ConfigError, describe, load
from services.broker.config import BrokerConfig
from services.broker.logins import BrokerLogins
from services.broker.peers import Peers
from tests.network.certificates import Authority, authority
from tests.protocol.pair import SERVED
from tests.protocol.pair import describe as describe_versions

HOST = "127.0.0.1"
TIMEOUTS = Timeouts()
BROKER = {
    "node.id": "101",
    "log.dirs": "/a",
    "listeners": f"PLAINTEXT://{HOST}:0",
    "health.listeners": f"HEALTH://{HOST}:1",
    "controller.quorum.bootstrap.servers": f"{HOST}:2",
    "controller.endpoints": f"{HOST}:3",
    "heartbeat.endpoint": f"{HOST}:4",
    "grpc.security.protocol": "PLAINTEXT",
}
SCRAM = "listener.name.{}.scram-sha-512.sasl.jaas.config"
JAAS = 'ScramLoginModule required username="broker" password="of brokers";'
BOTH = {
    "listeners": f"CLIENTS://{HOST}:0,BROKERS://{HOST}:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_SSL",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    SCRAM.format("brokers"): JAAS,
    "ssl.keystore.location": "/a/store.pem",
    "ssl.truststore.location": "/a/trust.pem",
}


def config(settings: Mapping[str, str], others: Mapping[str, str] = BROKER) -> BrokerConfig:
    """A broker's settings; `others` are what it has besides."""
    argv = [word for name, value in {**others, **settings}.items() for word in ("--set", f"{name}={value}")]
    return load(BrokerConfig, argv, {})


def without(*keys: str) -> dict[str, str]:
    return {key: value for key, value in BOTH.items() if key not in keys}


@pytest.mark.parametrize(
    ("settings", "between"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": f"ONE://{HOST}:0"}, "ONE"),
        ({"listeners": f"ONE://{HOST}:0,PLAINTEXT://{HOST}:0"}, "PLAINTEXT"),
        (BOTH, "BROKERS"),
        ({**BOTH, "inter.broker.listener.name": "brokers"}, "BROKERS"),
    ],
)
def test_the_listener_between_brokers(settings: Mapping[str, str], between: str) -> None:
    assert between == config(settings).inter_broker


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (without("inter.broker.listener.name"), "inter.broker.listener.name = '': must be one of listeners"),
        ({**BOTH, "inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name = OTHER: must be one of"),
        (without("ssl.truststore.location"), "ssl.truststore.location: is missing; at BROKERS this broker speaks TLS"),
        (without("sasl.mechanism.inter.broker.protocol"), "sasl.mechanism.inter.broker.protocol = '': must be among"),
        (
            {**BOTH, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "sasl.mechanism.inter.broker.protocol = SCRAM-SHA-256: must be among sasl.enabled.mechanisms of BROKERS",
        ),
        (without(SCRAM.format("brokers")), "listener.name.brokers.scram-sha-512.sasl.jaas.config: is missing"),
        ({**BOTH, "advertised.listeners": "OTHER://h:1"}, "advertised.listeners = OTHER://h:1: must have a name that"),
        (without("ssl.keystore.location"), "ssl.keystore.location: is missing; the listener BROKERS speaks SASL_SSL"),
        ({**BOTH, "ssl.endpoint.identification.algorithm": "no"}, "must be https, or empty"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(settings: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(settings)

    assert problem in str(refused.value)
    assert "of brokers" not in str(refused.value)


def test_no_log_has_the_password_of_the_broker() -> None:
    told = describe(config(BOTH))

    assert "of brokers" not in str(told)
    assert "of brokers" not in repr(config(BOTH))


def test_a_caller_by_grpc_is_who_it_is_on_kafkas_wire(tmp_path: Path) -> None:
    """Else an entry that denies it something would be of somebody else there."""
    issuer = authority(tmp_path)
    store = issuer.issue("alice", "/O=cluster/CN=alice")
    of_grpc = {"grpc.ssl.keystore.location": str(store), "grpc.ssl.truststore.location": str(issuer.certificate)}
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=cluster$/$1/"}
    transport = config({"grpc.security.protocol": "SSL", **of_grpc, **rules}).transport()
    (pem,) = re.findall(r"-----BEGIN CERT.*?END CERTIFICATE-----", store.read_text(), re.DOTALL)[:1]
    context = SimpleNamespace(auth_context=lambda: {"x509_pem_cert": [pem.encode()]})

    assert "User:alice" == str(transport.principal(context))


# A listener that is open

TOKENS = TokenSettings(secret_key="of the cluster")
USERS = {"broker": "of brokers", "alice": "hers"}


def credential(user: str, password: str) -> UserScramCredentialRecord:
    salt = secrets.token_bytes(16)
    stored, server = verifier_keys(2, salted_password(2, password.encode(), salt, ITERATIONS_MIN))
    return UserScramCredentialRecord(user, 2, salt, stored, server, ITERATIONS_MIN)


class Listener:
    """A broker's listeners, without the broker."""

    def __init__(self, directory: Path) -> None:
        self.issuer: Authority = authority(directory)
        self.store = self.issuer.issue("broker", "/CN=broker")
        files = {"ssl.keystore.location": str(self.store), "ssl.truststore.location": str(self.issuer.certificate)}
        self.config = config({**BOTH, **files})
        self.state = ClusterState()
        self._offset = 0
        self.apply(*(credential(*each) for each in USERS.items()))
        self.logins = BrokerLogins(SimpleNamespace(state=self.state), TOKENS.secret_key, SystemClock())  # type: ignore[arg-type]
        self.security = security_of(self.config)
        self.servers: dict[str, KafkaServer] = {}

    def apply(self, *records: Message) -> None:
        self.state.apply_all(records, self._offset)
        self._offset += len(records)

    async def answer(self, _request: Request, _client: ConnectedClient) -> Message:
        return ApiVersionsResponse()

    async def login(self, user: str, password: str, *, is_token: bool = False) -> None:
        """Raises ApiError."""
        begin = lambda: ScramClient(2, user, password, nonce=lambda: secrets.token_hex(8), is_token=is_token)  # noqa: E731
        async with await connect(HOST, self.servers["CLIENTS"].port, begin=begin):
            pass

    async def reach(self, peers: Peers) -> None:
        """Connects as a broker. Raises OSError, ApiError."""
        async with await peers.connect(HOST, self.servers["BROKERS"].port, timeouts=TIMEOUTS) as connection:
            await connection.ask(ApiVersionsRequest("a", "1"))


@asynccontextmanager
async def listening(directory: Path) -> AsyncIterator[Listener]:
    made = Listener(directory)
    of_all = listening_of(made.config, made.answer, served=SERVED, describe_versions=describe_versions)
    async with opened(made.config, made.security, of_all, made.logins) as made.servers:
        yield made


async def refused(login: Any) -> ErrorCode:
    with pytest.raises(ApiError) as refusal:
        await login
    return refusal.value.code


async def test_users_of_the_log_log_in(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        listener.logins.begin()
        failed = ErrorCode.SASL_AUTHENTICATION_FAILED

        await listener.login("alice", "hers")
        assert failed == await refused(listener.login("alice", "another's"))
        assert failed == await refused(listener.login("nobody", "hers"))


async def test_a_login_waits_until_the_broker_has_caught_up() -> None:
    """Before that it would not find a user who is in the log."""
    state = ClusterState()
    logins = BrokerLogins(SimpleNamespace(state=state), None, SystemClock())  # type: ignore[arg-type]
    first = ScramClient(2, "alice", "hers", nonce=lambda: "nonce").evaluate(b"")
    assert first is not None
    asking = asyncio.ensure_future(logins("SCRAM-SHA-512").ask(first))
    await asyncio.sleep(0)
    state.apply_all((credential("alice", "hers"),), 0)
    logins.begin()

    assert (await asking).message.startswith(b"r=nonce")


async def test_a_broker_logs_in_at_another_over_tls_and_takes_new_files(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        listener.logins.begin()
        peers = Peers.of_brokers(listener.config)
        await listener.reach(peers)
        other = authority(tmp_path, "other")
        renewed = other.issue("renewed", "/CN=broker")
        listener.store.write_text(renewed.read_text())
        tls = listener.security["BROKERS"].tls
        assert tls is not None
        assert peers.tls is not None
        tls.look()
        with pytest.raises(OSError, match=r"(?i)certificate"):
            await listener.reach(peers)
        listener.issuer.certificate.write_text(other.certificate.read_text())
        peers.tls.look()

        await listener.reach(peers)


async def test_a_delegation_token_logs_in_until_it_is_removed(tmp_path: Path) -> None:
    token = DelegationTokenRecord(
        owner="User:alice", requester="User:alice", token_id="t1", expiration_timestamp=1 << 50, max_timestamp=1 << 50
    )
    password = base64.b64encode(token_hmac(TOKENS, "t1")).decode()
    async with listening(tmp_path) as listener:
        listener.logins.begin()
        before = await refused(listener.login("t1", password, is_token=True))
        listener.apply(token)
        await listener.login("t1", password, is_token=True)

        assert ErrorCode.SASL_AUTHENTICATION_FAILED == before
        assert ErrorCode.SASL_AUTHENTICATION_FAILED == await refused(listener.login("t1", "another", is_token=True))
