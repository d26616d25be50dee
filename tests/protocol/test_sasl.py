"""Logins of a client and a server of ours: PLAIN, SCRAM, delegation tokens, sessions; and what ends one."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.sasl_authenticate import SaslAuthenticateRequest
from kraft.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from quorate.controller.access.scram_keys import salted_password, verifier_keys
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Principal
from quorate.protocol import Close, ConnectionReady, Request, ServerSettings, Taken, api_of
from quorate.protocol.frames import frame
from quorate.protocol.messages import decode_body, encode_request
from quorate.protocol.sasl.mechanism import SaslError
from quorate.protocol.sasl.plain import PlainClient, PlainServer
from quorate.protocol.sasl.scram import ScramClient, ScramServer, TokenCredential, token_credential
from quorate.records import UserScramCredentialRecord
from tests.protocol.pair import Pair, nonce
from tests.protocol.test_connection import frames_of

USER, PASSWORD = "a=b,c", "pässword"
SALT = bytes(range(16))
TOKEN_HMAC = bytes(range(64))


def credential(mechanism: int, user: str = USER, iterations: int = 4096) -> UserScramCredentialRecord:
    stored, server = verifier_keys(mechanism, salted_password(mechanism, PASSWORD.encode(), SALT, iterations))
    return UserScramCredentialRecord(user, mechanism, SALT, stored, server, iterations)


TOKENS = {
    number: TokenCredential(
        owner=Principal("User", "owner"),
        credential=token_credential(number, "token-1", TOKEN_HMAC, SALT),
        expires_at_ms=60_000,
    )
    for number in (1, 2)
}


def scram(mechanism: int, known: UserScramCredentialRecord | None = None) -> ScramServer:
    kept = known or credential(mechanism)
    return ScramServer(
        mechanism,
        nonce=nonce,
        find_user={kept.name: kept}.get,
        find_token={"token-1": TOKENS[mechanism]}.get,
    )


MECHANISMS = {
    "PLAIN": lambda: PlainServer(lambda user, password: (user, password) == (USER, PASSWORD)),
    "SCRAM-SHA-256": lambda: scram(1),
    "SCRAM-SHA-512": lambda: scram(2),
}
CLIENTS = {
    "PLAIN": lambda: PlainClient(USER, PASSWORD),
    "SCRAM-SHA-256": lambda: ScramClient(1, USER, PASSWORD, nonce=nonce),
    "SCRAM-SHA-512": lambda: ScramClient(2, USER, PASSWORD, nonce=nonce),
}
FALSE_CLIENTS = {
    "PLAIN": lambda: PlainClient(USER, "guess"),
    "SCRAM-SHA-256": lambda: ScramClient(1, USER, "guess", nonce=nonce),
    "SCRAM-SHA-512": lambda: ScramClient(2, "nobody", PASSWORD, nonce=nonce),
}
every_mechanism = pytest.mark.parametrize("name", CLIENTS)


@every_mechanism
@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
def test_the_right_password_logs_in(name: str, piece_bytes: int) -> None:
    pair = Pair(begin=CLIENTS[name], mechanisms=MECHANISMS, piece_bytes=piece_bytes)
    pair.exchange()
    assert pair.events == [ConnectionReady()]
    pair.client.send(DescribeClusterRequest())
    pair.exchange(lambda _: DescribeClusterResponse())

    assert [Principal("User", USER)] == [request.principal for request in pair.requests]
    assert pair.client.renew_after_ms is None


@every_mechanism
def test_a_wrong_password_does_not_and_the_connection_closes_after_a_while(name: str) -> None:
    pair = Pair(begin=FALSE_CLIENTS[name], mechanisms=MECHANISMS)

    with pytest.raises(ApiError) as refusal:
        pair.exchange()
    assert refusal.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refusal.value.message == (
        "Authentication failed: Invalid username or password"
        if name == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism {name}"
    )
    assert pair.server_close is not None
    assert pair.server_close.delay_ms == 100
    assert pair.server_close.reason.startswith(f"authentication with {name} failed: ")
    assert PASSWORD not in pair.server_close.reason
    assert "guess" not in pair.server_close.reason
    assert not pair.server.wants_data


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    pair = Pair(begin=CLIENTS["PLAIN"], mechanisms={"SCRAM-SHA-512": MECHANISMS["SCRAM-SHA-512"]})

    with pytest.raises(ApiError, match="does not accept PLAIN; it accepts SCRAM-SHA-512") as refusal:
        pair.exchange()
    assert refusal.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert pair.server_close is not None


@pytest.mark.parametrize("mechanism", [1, 2])
def test_a_delegation_token_logs_its_owner_in(mechanism: int) -> None:
    password = base64.b64encode(TOKEN_HMAC).decode()
    pair = Pair(
        begin=lambda: ScramClient(mechanism, "token-1", password, nonce=nonce, is_token=True),
        mechanisms=MECHANISMS,
        now_ms=1_000_000,  # a token ends by the wall clock, whatever the connection's shows
    )
    pair.exchange()
    pair.client.send(DescribeClusterRequest())
    pair.exchange(lambda _: DescribeClusterResponse())

    (request,) = pair.requests
    assert (Principal("User", "owner"), True) == (request.principal, request.is_token)
    assert pair.client.renew_after_ms == 51_000  # of the 60,000 that the token has left


def test_a_token_is_no_user_and_a_user_is_no_token() -> None:
    password = base64.b64encode(TOKEN_HMAC).decode()
    for begin in (
        lambda: ScramClient(1, "token-1", password, nonce=nonce),
        lambda: ScramClient(1, USER, PASSWORD, nonce=nonce, is_token=True),
    ):
        with pytest.raises(ApiError, match="invalid credentials"):
            Pair(begin=begin, mechanisms=MECHANISMS).exchange()


# -- sessions, KIP-368


def test_a_session_is_renewed_on_the_open_connection_and_requests_in_flight_are_answered() -> None:
    pair = session()
    pair.client.send(DescribeClusterRequest())
    pair.now_ms = 8_500
    pair.exchange()
    pair.client.renew()
    pair.exchange()
    assert pair.events == []
    pair.server.respond(pair.requests[0], DescribeClusterResponse(cluster_id="a"))
    pair.exchange()
    pair.now_ms = 10_500  # after the first session's end
    pair.client.send(DescribeClusterRequest())
    pair.exchange(lambda _: DescribeClusterResponse())

    assert ["Response", "ConnectionReady", "Response"] == [type(event).__name__ for event in pair.events]
    assert pair.server_close is None


def test_a_session_that_has_ended_is_closed_at_the_next_request() -> None:
    pair = session()
    pair.now_ms = 10_001
    pair.client.send(DescribeClusterRequest())
    pair.exchange()

    assert pair.server_close is not None
    assert "has expired (connections.max.reauth.ms)" in pair.server_close.reason


@pytest.mark.parametrize(
    ("reauth_ms_max", "ends_ms", "why"),
    [
        (0, 60_000, "its delegation token has ended"),
        (70_000, 60_000, "its delegation token has ended"),
        (50_000, 50_000, "connections.max.reauth.ms"),
    ],
)
def test_the_log_has_what_ended_the_session_of_a_token(reauth_ms_max: int, ends_ms: int, why: str) -> None:
    password = base64.b64encode(TOKEN_HMAC).decode()
    pair = Pair(
        begin=lambda: ScramClient(1, "token-1", password, nonce=nonce, is_token=True),
        mechanisms=MECHANISMS,
        settings=ServerSettings(reauth_ms_max=reauth_ms_max),
    )
    pair.exchange()
    pair.now_ms = ends_ms + 1
    pair.client.send(DescribeClusterRequest())
    pair.exchange()

    assert pair.server_close is not None
    assert f"the session of User:owner has expired ({why})" == pair.server_close.reason


def test_a_renewal_within_a_second_is_out_of_place() -> None:
    pair = session()
    pair.now_ms = 900
    pair.server.receive_data(handshake("PLAIN"), pair.now_ms)
    assert Taken() == pair.server.next_event(pair.now_ms)
    (answer,) = frames_of(pair.server.data_to_send(pair.now_ms))

    assert decode_body(SaslHandshakeResponse, answer, 4, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("begin", "says"),
    [
        (CLIENTS["PLAIN"], "requested by client is not supported for re-authentication of mechanism 'SCRAM-SHA-256'"),
        (
            lambda: ScramClient(1, "token-1", base64.b64encode(TOKEN_HMAC).decode(), nonce=nonce, is_token=True),
            f"Cannot change principals during re-authentication from User.{USER}: User.owner",
        ),
    ],
)
def test_a_renewal_keeps_user_and_mechanism(begin: object, says: str) -> None:
    exchanges = iter((CLIENTS["SCRAM-SHA-256"], begin))
    pair = session(begin=lambda: next(exchanges)())  # noqa: PLW0108  # the next one each time
    pair.now_ms = 5_000
    pair.client.renew()

    with pytest.raises(ApiError) as refusal:
        pair.exchange()
    assert says in refusal.value.message
    assert pair.server_close is not None


def session(begin: object = CLIENTS["SCRAM-SHA-256"]) -> Pair:
    pair = Pair(begin=begin, mechanisms=MECHANISMS, settings=ServerSettings(reauth_ms_max=10_000))
    pair.exchange()
    assert pair.client.renew_after_ms == 8_500
    pair.events.clear()
    return pair


# -- the order of a login, and bytes that are none


def test_before_a_login_nothing_else_is_heard() -> None:
    pair = Pair(begin=CLIENTS["PLAIN"], mechanisms=MECHANISMS)
    api = api_of(DescribeClusterRequest)
    asked = encode_request(api, DescribeClusterRequest(), version=0, correlation_id=1, client_id=None)
    pair.server.receive_data(frame(asked), 0)

    assert pair.server.next_event(0) == Close(
        reason="DescribeCluster came before the login; the client has to send SaslHandshake first"
    )


def test_before_a_login_a_large_request_is_refused() -> None:
    pair = Pair(mechanisms=MECHANISMS, begin=CLIENTS["PLAIN"])
    pair.server.receive_data((65_537).to_bytes(4), 0)

    assert pair.server.next_event(0) == Close(reason="frame size is 65537; it must be from 1 to 65536")


def test_version_0_of_the_handshake_takes_messages_without_headers() -> None:
    pair = Pair(mechanisms=MECHANISMS, begin=CLIENTS["PLAIN"])
    pair.server.receive_data(handshake("PLAIN", version=0), 0)
    assert Taken() == pair.server.next_event(0)
    pair.server.data_to_send(0)
    pair.server.receive_data(frame(f"\0{USER}\0{PASSWORD}".encode()), 0)
    assert Taken() == pair.server.next_event(0)

    assert frame() == pair.server.data_to_send(0)
    assert pair.server.session is not None


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\0a", "expected 3 tokens, got 2"),
        (b"\0a\0b\0c", "expected 3 tokens, got 4"),
        (b"\0\0b", "username not specified"),
        (b"\0a\0", "password not specified"),
        (b"\0a\0\xff", "Invalid username or password"),
        (f"other\0{USER}\0{PASSWORD}".encode(), "authorization id that is different from username"),
    ],
)
def test_plain_says_what_is_wrong_as_kafka_does(message: bytes, says: str) -> None:
    with pytest.raises(SaslError, match=says) as refusal:
        MECHANISMS["PLAIN"]().evaluate(message)
    assert refusal.value.client_message == str(refusal.value)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=user",
        b"n,,r=nonce,n=user",
        b"p=tls-unique,,n=user,r=nonce",  # channel binding
        b"y,,n=user,r=nonce",
        b"n,,n=us=er,r=nonce",
        b"n,,n=,r=nonce",
        b"n,,n=user,r=",
        b"n,,n=user,r=nonce,=x",
        b"n,,n=user\0,r=nonce",
        "n,,n=ü,r=nonce".encode(),  # Kafka takes ASCII names only
        b"\xff\xfe",
    ],
)
def test_scram_refuses_a_first_message_of_another_form(message: bytes) -> None:
    with pytest.raises(SaslError, match=r"client first message of \d+ bytes is not of the form"):
        scram(1).evaluate(message)


def test_scram_is_that_of_rfc_7677() -> None:
    """The example of section 3: user "user", password "pencil"."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    stored, server_key = verifier_keys(1, salted_password(1, b"pencil", salt, 4096))
    kept = UserScramCredentialRecord("user", 1, salt, stored, server_key, 4096)
    server = ScramServer(
        1, nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", find_user={"user": kept}.get, find_token={}.get
    )
    client = ScramClient(1, "user", "pencil", nonce=lambda: "rOprNGfwEbeRWgbNEkqO")

    first = client.evaluate(b"")
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    second = server.evaluate(first)
    assert second == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    third = client.evaluate(second)
    assert third == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    fourth = server.evaluate(third)
    assert fourth == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.evaluate(fourth) is None


def test_scram_refuses_another_nonce_another_channel_and_a_second_exchange() -> None:
    def at_final() -> tuple[ScramServer, bytes]:
        server, client = scram(1), ScramClient(1, USER, PASSWORD, nonce=nonce)
        final = client.evaluate(server.evaluate(client.evaluate(b"") or b""))
        assert final is not None
        return server, final

    server, final = at_final()
    with pytest.raises(SaslError, match="another nonce"):
        server.evaluate(final.replace(b",r=", b",r=x"))
    server, final = at_final()
    with pytest.raises(SaslError, match="another channel binding"):
        server.evaluate(final.replace(b"c=biws", b"c=eSws"))
    server, final = at_final()
    server.evaluate(final)
    with pytest.raises(SaslError, match="complete"):
        server.evaluate(final)


@pytest.mark.parametrize(
    ("challenge", "says"),
    [
        (b"r=other,s=AAAA,i=4096", "does not begin with ours"),
        (b"r=mine2,s=AAAA,i=4095", "4095 iterations; accepted are 4096 to 1000000"),
        (b"r=mine2,s=AAAA,i=999999999", "999999999 iterations"),
        (b"r=mine2,s=A,i=4096", "not of the form"),
        (b"e=other-error", "not of the form"),
    ],
)
def test_a_client_refuses_a_server_that_is_not_one(challenge: bytes, says: str) -> None:
    client = ScramClient(1, USER, PASSWORD, nonce=lambda: "mine")
    client.evaluate(b"")

    with pytest.raises(SaslError, match=says):
        client.evaluate(challenge)


def test_a_client_refuses_a_server_without_the_credential() -> None:
    client = ScramClient(1, USER, PASSWORD, nonce=lambda: "mine")
    client.evaluate(b"")
    client.evaluate(b"r=mine2,s=AAAA,i=4096")

    with pytest.raises(SaslError, match="signature is wrong"):
        client.evaluate(b"v=" + base64.b64encode(bytes(32)))


def test_a_tokens_password_is_its_hmac_in_base64() -> None:
    """As Kafka's DelegationTokenManager makes it: PBKDF2 of the base64 text."""
    kept = TOKENS[2].credential
    salted = hashlib.pbkdf2_hmac("sha512", base64.b64encode(TOKEN_HMAC), SALT, 4096)

    assert kept.server_key == hmac.digest(salted, b"Server Key", "sha512")


@settings(max_examples=500, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4), st.sampled_from(["PLAIN", "SCRAM-SHA-256"]), st.booleans())
def test_any_bytes_in_a_login_are_refused_or_wait(tokens: list[bytes], name: str, framed: bool) -> None:
    pair = Pair(mechanisms=MECHANISMS, begin=CLIENTS["PLAIN"])
    pair.server.receive_data(handshake(name), 0)
    assert Taken() == pair.server.next_event(0)
    for token in tokens:
        pair.server.receive_data(authenticate(token) if framed else frame(token), 0)
        while (event := pair.server.next_event(0)) is not None:
            assert not isinstance(event, Request)
    frames_of(pair.server.data_to_send(0))
    assert pair.server.session is None


def handshake(mechanism: str, version: int = 1) -> bytes:
    api, message = api_of(SaslHandshakeRequest), SaslHandshakeRequest(mechanism=mechanism)
    return frame(encode_request(api, message, version=version, correlation_id=1, client_id=None))


def authenticate(token: bytes) -> bytes:
    api, message = api_of(SaslAuthenticateRequest), SaslAuthenticateRequest(auth_bytes=token)
    return frame(encode_request(api, message, version=2, correlation_id=2, client_id=None))
