"""Gateways that want to know who their clients are, beside real nodes: TLS and SASL, and whose rights count."""

from __future__ import annotations

import asyncio
import base64
import secrets
import struct
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from kraft import Message
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.envelope import EnvelopeResponse
from kraft.api.fetch import FetchRequest
from kraft.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.api.sasl_handshake import SaslHandshakeRequest
from kraft.api.vote import VoteRequest
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.network.client import Connection
from quorate.nouns import NodeId
from quorate.protocol.apis import api_of
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS
from tests.e2e.secured import (
    PLAIN_PASSWORD,
    REAUTH_MS,
    WITH_BOTH,
    WITH_SASL,
    WITH_TLS,
    Secured,
    by,
    enclosed,
    secured_plane,
)
from tests.network.test_tls import ended

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

NONE, REFUSED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
FETCH: Final = FetchRequest(
    cluster_id="another", topics=(FetchRequest.FetchTopic(partitions=(FetchRequest.FetchTopic.FetchPartition(),)),)
)
VOTE: Final = VoteRequest(cluster_id="another")
PASSWORD: Final = "pässword, =x"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    async with secured_plane(tmp_path_factory.mktemp("secured")) as plane:
        await plane.set_password("bob", PASSWORD)
        yield plane


def topics(*names: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(tuple(topic(name, 1, 3) for name in names), 10_000)


async def created(client: Connection, *names: str) -> list[int]:
    answer = await client.ask_for(CreateTopicsResponse, topics(*names))
    return [each.error_code for each in answer.topics]


async def test_a_certificates_rights_count(secured: Secured) -> None:
    mine, other = (f"{name}-{secrets.token_hex(4)}" for name in ("mine", "other"))
    await secured.allow("User:alice", AclOperation.CREATE, ResourceType.TOPIC, mine)
    async with await secured.as_user("Alice") as alice:
        assert [NONE, REFUSED] == await created(alice, mine, other)
    async with await secured.as_user("mallory") as mallory:
        assert [REFUSED] == await created(mallory, f"more-{mine}")

    assert mine in await secured.cluster.topics(at=VOTERS[1])
    assert other not in await secured.cluster.topics(at=VOTERS[1])


async def test_an_envelope_is_believed_from_a_broker_that_may_act_for_the_cluster(secured: Secured) -> None:
    """The right of the broker's own principal counts, not that of its address. KIP-590."""
    name = f"enclosed-{secrets.token_hex(4)}"
    await secured.allow("User:carol", AclOperation.CREATE, ResourceType.TOPIC, name)
    envelope = enclosed(topics(name), "carol")
    async with await secured.as_user("broker-7") as broker:
        assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == (await broker.ask_for(EnvelopeResponse, envelope)).error_code
        await secured.allow("User:broker-7", AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
        # the controller beside this gateway answers from what it has replayed
        answer = await eventually(
            lambda: broker.ask_for(EnvelopeResponse, envelope), lambda each: each.error_code == NONE
        )

    _, position = decode_response_header(api_of(CreateTopicsRequest), 7, answer.response_data or b"")
    (topic,) = decode_body(CreateTopicsResponse, answer.response_data or b"", position, 7).topics
    assert (name, NONE) == (topic.name, topic.error_code)


@pytest.mark.parametrize("request_", [FETCH, VOTE, BrokerHeartbeatRequest(7)], ids=lambda each: type(each).__name__)
async def test_raft_and_heartbeats_take_cluster_action(secured: Secured, request_: Message) -> None:
    """Kafka: ControllerApis, authHelper.authorizeClusterOperation. Super users have it."""
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    user = f"acts-{secrets.token_hex(4)}"
    async with await secured.as_user("mallory") as mallory:
        assert refused == code_of(await mallory.ask(request_))
    async with await secured.as_user("admin") as admin:
        expected = code_of(await admin.ask(request_))
    assert expected != refused
    await secured.allow(f"User:{user}", AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    async with await secured.as_user(user) as member:
        # the controller beside this gateway answers from what it has replayed
        assert expected == code_of(
            await eventually(lambda: member.ask(request_), lambda each: code_of(each) != refused)
        )


def code_of(answer: Any) -> int:
    return int(answer.error_code)


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


EVERY: Final = [
    (WITH_BOTH, "PLAIN", "paul", PLAIN_PASSWORD),
    (WITH_BOTH, "SCRAM-SHA-256", "bob", PASSWORD),
    (WITH_BOTH, "SCRAM-SHA-512", "bob", PASSWORD),
    (WITH_SASL, "SCRAM-SHA-256", "bob", PASSWORD),
    (WITH_SASL, "SCRAM-SHA-512", "bob", PASSWORD),
]


@pytest.mark.parametrize(("node_id", "mechanism", "user", "password"), EVERY)
async def test_a_users_rights_count(
    secured: Secured, node_id: NodeId, mechanism: str, user: str, password: str
) -> None:
    mine, other = (f"{name}-{secrets.token_hex(4)}" for name in ("mine", "other"))
    await secured.allow(f"User:{user}", AclOperation.CREATE, ResourceType.TOPIC, mine)
    async with await secured.logged_in(node_id, by(mechanism, user, password)) as client:
        assert [NONE, REFUSED] == await created(client, mine, other)


@pytest.mark.parametrize(("node_id", "mechanism", "user", "_"), EVERY)
async def test_a_wrong_password_or_an_unknown_user_is_refused_in_kafkas_words(
    secured: Secured, node_id: NodeId, mechanism: str, user: str, _: str
) -> None:
    """The client hears not which of the two it was; our log does."""
    expected = "Authentication failed: Invalid username or password"
    if mechanism != "PLAIN":
        expected = (
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )
    for name, password in ((user, "guess"), (f"no-{user}", PASSWORD)):
        with pytest.raises(ApiError) as refused:
            await secured.login(node_id, by(mechanism, name, password))
        assert (ErrorCode.SASL_AUTHENTICATION_FAILED, expected) == (refused.value.code, refused.value.message)

    for line in await secured.told(node_id, f"authentication with {mechanism} failed: "):
        assert "guess" not in line
        assert PASSWORD not in line


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(secured: Secured) -> None:
    with pytest.raises(ApiError, match="it accepts SCRAM-SHA-256, SCRAM-SHA-512") as refused:
        await secured.login(WITH_SASL, by("PLAIN", "paul", PLAIN_PASSWORD))
    assert ErrorCode.UNSUPPORTED_SASL_MECHANISM == refused.value.code

    await secured.told(WITH_SASL, "SASL mechanism 'PLAIN' is not supported; enabled are SCRAM-SHA-256, SCRAM-SHA-512")


async def test_a_delegation_token_logs_its_owner_in_and_makes_no_other_token(secured: Secured) -> None:
    """It is made at one gateway and used at another, for as long as it lasts. KIP-48, KIP-368."""
    topic = f"by-token-{secrets.token_hex(4)}"
    await secured.allow("User:bob", AclOperation.CREATE, ResourceType.TOPIC, topic)
    async with await secured.logged_in(WITH_BOTH, by("SCRAM-SHA-256", "bob", PASSWORD)) as bob:
        made = await bob.ask_for(CreateDelegationTokenResponse, CreateDelegationTokenRequest(max_lifetime_ms=300_000))
    assert (NONE, "bob") == (made.error_code, made.principal_name)
    password = base64.b64encode(made.hmac).decode()
    begin = by("SCRAM-SHA-512", made.token_id, password, is_token=True)
    async with await secured.logged_in(WITH_SASL, begin) as client:
        assert [NONE] == await created(client, topic)
        again = await client.ask_for(CreateDelegationTokenResponse, CreateDelegationTokenRequest())
    assert ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED == again.error_code

    with pytest.raises(ApiError, match="invalid credentials with SASL mechanism SCRAM-SHA-512"):
        await secured.login(WITH_SASL, by("SCRAM-SHA-512", made.token_id, password))
    with pytest.raises(ApiError, match="invalid credentials with SASL mechanism SCRAM-SHA-512"):
        await secured.login(WITH_SASL, by("SCRAM-SHA-512", made.token_id, "AAAA", is_token=True))


async def test_a_login_tells_how_long_it_lasts(secured: Secured) -> None:
    reader, writer = await asyncio.open_connection(*secured.at(WITH_SASL))
    exchange = by("SCRAM-SHA-256", "bob", PASSWORD)()
    await asked(reader, writer, SaslHandshakeRequest("SCRAM-SHA-256"), 1)
    challenge, answer = b"", SaslAuthenticateResponse()
    while (token := exchange.evaluate(challenge)) is not None:
        answer = await asked(reader, writer, SaslAuthenticateRequest(token), 2)
        assert isinstance(answer, SaslAuthenticateResponse)
        challenge = answer.auth_bytes
    assert REAUTH_MS == answer.session_lifetime_ms
    out_of_place = await asked(reader, writer, SaslAuthenticateRequest(b""), 2)
    writer.close()

    assert isinstance(out_of_place, SaslAuthenticateResponse)
    assert ErrorCode.ILLEGAL_SASL_STATE == out_of_place.error_code


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Message, version: int) -> Message:
    """The answer to one request, as raw bytes have it."""
    api = api_of(type(request))
    sent = encode_request(api, request, version=version, correlation_id=7, client_id="raw")
    writer.write(struct.pack(">i", len(sent)) + sent)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    data = await reader.readexactly(size)
    _, position = decode_response_header(api, version, data)
    return decode_body(api.response, data, position, version)


def framed(request: Message, version: int) -> bytes:
    sent = encode_request(api_of(type(request)), request, version=version, correlation_id=7, client_id="raw")
    return struct.pack(">i", len(sent)) + sent


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (framed(topics("early"), 7), "CreateTopics came before the login; the client has to send SaslHandshake first"),
        (
            framed(SaslHandshakeRequest("SCRAM-SHA-256"), 1) + framed(topics("early"), 7),
            "CreateTopics came in the middle of a login; the client has to send SaslAuthenticate",
        ),
        (framed(SaslAuthenticateRequest(b"x"), 2), "SaslAuthenticate came before the login"),
        (
            framed(SaslHandshakeRequest("SCRAM-SHA-256"), 1) + framed(SaslAuthenticateRequest(bytes(5_000)), 2),
            "it must be from 1 to 4096",
        ),
        (
            framed(SaslHandshakeRequest("SCRAM-SHA-256"), 1) + framed(SaslAuthenticateRequest(bytes(50)), 2),
            "client first message of 50 bytes is not of the form",
        ),
        (framed(SaslHandshakeRequest("SCRAM-SHA-256"), 0) + struct.pack(">i", 3) + b"n,,", "first message of 3 bytes"),
        (framed(SaslHandshakeRequest("SCRAM"), 1)[:-2] + b"\xff\x7f", "SaslHandshakeRequest.mechanism: not UTF-8"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600), "frame size is 369295618"),
    ],
    ids=[
        "a request first", "a request in between", "no handshake", "an oversized token", "a token that is none",
        "a bare token that is none", "a broken handshake", "TLS",
    ],
)  # fmt: skip
async def test_what_is_no_login_ends_its_connection_and_no_other(secured: Secured, sent: bytes, reason: str) -> None:
    async with await secured.logged_in(WITH_SASL, by("SCRAM-SHA-256", "bob", PASSWORD)) as beside:
        reader, writer = await asyncio.open_connection(*secured.at(WITH_SASL))
        writer.write(sent)
        await ended(reader)
        writer.close()

        assert [REFUSED] == await created(beside, "beside")
    await secured.told(WITH_SASL, reason)


async def test_without_its_controller_no_login_is_said_to_have_failed(secured: Secured) -> None:
    """A client tries another gateway after a lost connection; after SASL_AUTHENTICATION_FAILED it gives up."""
    controller = secured.cluster.controller(WITH_SASL)
    await secured.cluster.kill(controller)
    with pytest.raises(OSError, match=r".*"):
        await secured.login(WITH_SASL, by("SCRAM-SHA-256", "bob", PASSWORD))
    await secured.told(WITH_SASL, "a login with SCRAM-SHA-256: the controller does not answer")
    await secured.cluster.restart(controller)

    await (await secured.logged_in(WITH_SASL, by("SCRAM-SHA-256", "bob", PASSWORD))).close()
