"""Logins by SCRAM that a controller answers for gateways: whose credentials count, and what ends an exchange."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from typing import Any

import pytest

from quorate.controller.access.delegation_tokens import TokenSettings, token_hmac
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.listeners.scram_logins import ScramLogins
from quorate.metadata.scram import MECHANISMS
from quorate.metadata.state import ClusterState
from quorate.nouns import Principal
from quorate.protocol.sasl.mechanism import Login, SaslError
from quorate.protocol.sasl.scram import ScramClient
from quorate.records import RemoveUserScramCredentialRecord
from tests.protocol.pair import nonce
from tests.protocol.test_sasl import PASSWORD, USER, credential
from tests.services.engines import NOW_MS, TOKEN, TOKENS, active, commit, logins, standing_by, write

both = pytest.mark.parametrize("mechanism", MECHANISMS)


def user(mechanism: int = 1, password: str = PASSWORD, name: str = USER) -> ScramClient:
    return ScramClient(mechanism, name, password, nonce=nonce)


def token(mechanism: int = 1, settings: TokenSettings = TOKENS, token_id: str = "t1") -> ScramClient:
    password = base64.b64encode(token_hmac(settings, token_id)).decode()
    return ScramClient(mechanism, token_id, password, nonce=nonce, is_token=True)


def logged_in(asked: ScramLogins, client: ScramClient) -> Login | None:
    """What the controller says at the end; the client has checked that the server knows the password, too."""
    messages: list[bytes] = []
    login = None
    challenge = b""
    while (said := client.evaluate(challenge)) is not None:
        answer = asked.answer(client.name, [*messages, said])
        messages += [said, answer.message]
        challenge, login = answer.message, answer.login
    return login


@both
def test_a_user_of_the_log_logs_in_at_any_controller(mechanism: int) -> None:
    for engine in (active(credential(mechanism)), standing_by(credential(mechanism))):
        assert Login(principal=Principal("User", USER)) == logged_in(logins(engine), user(mechanism))


@both
@pytest.mark.parametrize(
    ("password", "name", "why"),
    [("guess", USER, "the proof does not fit"), (PASSWORD, "nobody", "there is no such user")],
)
def test_who_does_not_know_the_password_does_not(mechanism: int, password: str, name: str, why: str) -> None:
    with pytest.raises(SaslError, match=why) as refused:
        logged_in(logins(standing_by(credential(mechanism))), user(mechanism, password, name))
    assert refused.value.client_message is None


def test_a_credential_for_one_mechanism_is_none_for_the_other() -> None:
    with pytest.raises(SaslError, match="has no credential for this mechanism"):
        logged_in(logins(standing_by(credential(2))), user(1))


def test_what_is_not_committed_does_not_count() -> None:
    engine = active()
    asked = logins(engine)
    write(engine, credential(1))
    with pytest.raises(SaslError, match="there is no such user"):
        logged_in(asked, user())
    commit(engine)

    assert logged_in(asked, user()) is not None
    write(engine, RemoveUserScramCredentialRecord(USER, 1))
    assert logged_in(asked, user()) is not None
    commit(engine)
    with pytest.raises(SaslError, match="there is no such user"):
        logged_in(asked, user())


def test_a_password_that_changes_in_the_middle_ends_the_exchange() -> None:
    engine, client = active(credential(1)), user()
    asked = logins(engine)
    first = client.evaluate(b"") or b""
    server_first = asked.answer(client.name, [first]).message
    final = client.evaluate(server_first) or b""
    write(engine, credential(1, iterations=8192))
    commit(engine)

    with pytest.raises(SaslError, match="the credential has changed since the exchange began"):
        asked.answer(client.name, [first, server_first, final])


@pytest.mark.parametrize("server_first", [b"", b"r=abc,s=AAAA,i=4096", b"r=other,s=AAAA,i=4096"])
def test_an_exchange_that_this_is_not_is_refused(server_first: bytes) -> None:
    """From any sender: no nonce of the server's own, or none that continues the client's."""
    asked = logins(standing_by(credential(1)))

    with pytest.raises(SaslError):
        asked.answer("SCRAM-SHA-256", [b"n,,n=user,r=abc", server_first, b"c=biws,r=abc,p=AAAA"])


@both
def test_a_delegation_token_logs_its_owner_in_until_it_ends(mechanism: int) -> None:
    login = logged_in(logins(standing_by(TOKEN)), token(mechanism))

    assert Login(principal=Principal("User", "ow:ner"), is_token=True, expires_at_ms=6_000) == login


def test_no_password_is_hashed_for_a_login_and_the_keys_of_a_token_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each message of each login would hold the controller for milliseconds; a SCRAM client hashes itself."""
    count, hashed = 0, hashlib.pbkdf2_hmac

    def counted(*given: Any) -> bytes:
        nonlocal count
        count += 1
        return hashed(*given)

    asked = logins(standing_by(credential(1, iterations=16_384), TOKEN))
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    counts = {}
    for name, of_client in (("a user", user()), ("nobody", user(name="nobody")), ("no token", token(token_id="t2"))):
        first, before = of_client.evaluate(b"") or b"", count
        with suppress(SaslError):
            asked.answer(of_client.name, [first])
        counts[name] = count - before
    first = token().evaluate(b"") or b""
    for _ in range(3):
        asked.answer("SCRAM-SHA-256", [first])

    assert {"a user": 0, "nobody": 0, "no token": 0} == counts
    assert count <= 1


@pytest.mark.parametrize(
    ("tokens", "now_ms", "client", "why"),
    [
        (TOKENS, 6_000, token(), "'t1' ended 0 ms ago by this node's clock, which says 6000 ms"),
        (TOKENS, NOW_MS, token(token_id="t2"), "there is no such delegation token"),
        (TokenSettings(), NOW_MS, token(), "there is no such delegation token"),
        (TOKENS, NOW_MS, token(settings=TokenSettings(secret_key="another")), "the proof does not fit"),
        (TOKENS, NOW_MS, user(name="t1"), "there is no such user"),
    ],
    ids=["it has expired", "another token", "tokens are off", "another cluster's", "as a user"],
)
def test_a_token_that_is_none_logs_nobody_in(tokens: TokenSettings, now_ms: int, client: ScramClient, why: str) -> None:
    with pytest.raises(SaslError, match=why):
        logged_in(logins(standing_by(TOKEN), tokens, now_ms), client)


@pytest.mark.parametrize(
    ("mechanism", "count", "why"),
    [
        ("PLAIN", 1, "mechanism is 'PLAIN'; it is one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("SCRAM-SHA-256", 0, "messages has 0; there is one, or three"),
        ("SCRAM-SHA-256", 2, "messages has 2"),
        ("SCRAM-SHA-256", 5, "messages has 5"),
    ],
)
def test_what_no_gateway_asks_is_refused_by_field(mechanism: str, count: int, why: str) -> None:
    with pytest.raises(ApiError, match=why) as refused:
        logins(standing_by()).answer(mechanism, [b"x"] * count)
    assert ErrorCode.INVALID_REQUEST == refused.value.code


def test_before_the_state_is_there_nobody_is_said_to_be_unknown() -> None:
    """A client does not try again after SASL_AUTHENTICATION_FAILED."""
    with pytest.raises(ApiError) as refused:
        logins(Engine(ClusterState())).answer("SCRAM-SHA-256", [b"n,,n=user,r=abc"])
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS == refused.value.code
