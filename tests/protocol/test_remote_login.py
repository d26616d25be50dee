"""A login that another process answers: it waits for that, in order, and what it says counts as if said here."""

from __future__ import annotations

import pytest

from kraft import Message
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.api.sasl_handshake import SaslHandshakeRequest
from quorate.errors import ErrorCode
from quorate.nouns import Principal
from quorate.protocol import Close, Evaluate, Request, ServerConnection, ServerSettings, Taken, api_of
from quorate.protocol.frames import Frames, frame
from quorate.protocol.messages import decode_body
from quorate.protocol.sasl.mechanism import Answered, Login, SaslError
from tests.protocol.pair import SERVED, describe
from tests.protocol.test_connection import raw

ALICE = Principal("User", "alice")
DELAY_MS = 100


class Elsewhere:
    """One exchange that somebody else answers."""

    def name_in(self, response: bytes) -> str:
        raise AssertionError("the driver asks, and there is none here")

    async def ask(self, response: bytes) -> Answered:
        raise AssertionError("the driver asks, and there is none here")


def sent(message: Message, version: int) -> bytes:
    return raw(api_of(type(message)), message, version)


def connection(reauth_ms_max: int = 0) -> ServerConnection:
    settings = ServerSettings(failed_authentication_delay_ms=DELAY_MS, reauth_ms_max=reauth_ms_max)
    made = ServerConnection(
        settings,
        served=SERVED,
        describe_versions=describe,
        mechanisms={"ELSEWHERE": Elsewhere},
        now_ms=0,
        wall_ms=lambda: 0,
    )
    made.receive_data(sent(SaslHandshakeRequest("ELSEWHERE"), 1), 0)
    assert Taken() == made.next_event(0)
    made.data_to_send(0)
    return made


def answer_in(data: bytes) -> SaslAuthenticateResponse:
    frames = Frames(size_max=1 << 20)
    frames.receive_data(data)
    return decode_body(SaslAuthenticateResponse, frames.take() or b"", 5, 2)


def test_nothing_more_is_read_before_the_answer_is_there() -> None:
    server = connection()
    server.receive_data(sent(SaslAuthenticateRequest(b"one"), 2) + sent(DescribeClusterRequest(), 1), 0)
    asked = server.next_event(0)

    assert isinstance(asked, Evaluate)
    assert (b"one", False, None, b"") == (
        asked.message,
        server.wants_data,
        server.next_event(0),
        server.data_to_send(0),
    )
    assert server.evaluated(Answered(message=b"two", login=Login(principal=ALICE)), 0) is None
    assert b"two" == answer_in(server.data_to_send(0)).auth_bytes
    request = server.next_event(0)

    assert isinstance(request, Request)
    assert (ALICE, True) == (request.principal, server.wants_data)
    server.respond(request, DescribeClusterResponse())


def test_an_exchange_of_several_messages() -> None:
    server = connection()
    for message, answer in ((b"one", Answered(message=b"1")), (b"two", Answered(message=b"2"))):
        server.receive_data(sent(SaslAuthenticateRequest(message), 2), 0)
        asked = server.next_event(0)
        assert isinstance(asked, Evaluate)
        assert message == asked.message
        assert server.evaluated(answer, 0) is None
        assert answer.message == answer_in(server.data_to_send(0)).auth_bytes
        assert server.session is None


def test_a_refusal_ends_the_connection_after_a_while() -> None:
    """And its reason is for our log alone."""
    server = connection()
    server.receive_data(sent(SaslAuthenticateRequest(b"one"), 2) + sent(SaslAuthenticateRequest(b"more"), 2), 0)
    assert isinstance(server.next_event(0), Evaluate)
    close = server.evaluated(SaslError("there is no such user"), 0)

    assert Close(reason="authentication with ELSEWHERE failed: there is no such user", delay_ms=DELAY_MS) == close
    assert (None, False) == (server.next_event(0), server.wants_data)
    answer = answer_in(server.data_to_send(0))
    assert ErrorCode.SASL_AUTHENTICATION_FAILED == answer.error_code
    assert "no such user" not in (answer.error_message or "")


def test_messages_without_headers_after_the_first_version_of_the_handshake() -> None:
    server = ServerConnection(
        ServerSettings(),
        served=SERVED,
        describe_versions=describe,
        mechanisms={"ELSEWHERE": Elsewhere},
        now_ms=0,
        wall_ms=lambda: 0,
    )
    server.receive_data(sent(SaslHandshakeRequest("ELSEWHERE"), 0) + frame(b"bare"), 0)
    assert Taken() == server.next_event(0)
    asked = server.next_event(0)

    assert isinstance(asked, Evaluate)
    assert b"bare" == asked.message
    server.data_to_send(0)
    assert server.evaluated(Answered(message=b"done", login=Login(principal=ALICE)), 0) is None
    assert frame(b"done") == server.data_to_send(0)


@pytest.mark.parametrize(("principal", "is_refused"), [(ALICE, False), (Principal("User", "bob"), True)])
def test_a_login_is_renewed_by_the_same_user_while_a_request_is_under_way(
    principal: Principal, is_refused: bool
) -> None:
    """KIP-368. Requests under way are answered first, in the order of the requests."""
    server, later_ms = connection(reauth_ms_max=10_000), 5_000
    server.receive_data(sent(SaslAuthenticateRequest(b"one"), 2), 0)
    assert isinstance(server.next_event(0), Evaluate)
    assert server.evaluated(Answered(message=b"", login=Login(principal=ALICE)), 0) is None
    assert 10_000 == answer_in(server.data_to_send(0)).session_lifetime_ms

    server.receive_data(sent(DescribeClusterRequest(), 1) + sent(SaslHandshakeRequest("ELSEWHERE"), 1), later_ms)
    request = server.next_event(later_ms)
    assert Taken() == server.next_event(later_ms)
    assert isinstance(request, Request)
    server.receive_data(sent(SaslAuthenticateRequest(b"again"), 2), later_ms)
    asked = server.next_event(later_ms)
    assert isinstance(asked, Evaluate)
    assert b"again" == asked.message
    close = server.evaluated(Answered(message=b"", login=Login(principal=principal)), later_ms)

    assert is_refused == (close is not None)
    assert b"" == server.data_to_send(later_ms)
    server.respond(request, DescribeClusterResponse())
    assert server.data_to_send(later_ms)
    if close is not None:
        assert "Cannot change principals during re-authentication from User.alice: User.bob" in close.reason
    else:
        assert server.session is not None
        assert later_ms + 10_000 == server.session.expires_at_ms
