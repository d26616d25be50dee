"""The server's side of a connection: bytes in, requests out; responses in, bytes out. No socket, no own clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.sasl_authenticate import SaslAuthenticateResponse
from kraft.api.sasl_handshake import SaslHandshakeResponse
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ErrorCode
from quorate.nouns import ANONYMOUS
from quorate.protocol.api_versions import Versions, for_version, has_valid_software, unsupported_version
from quorate.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, ApiMessageType
from quorate.protocol.errors import ProtocolError
from quorate.protocol.events import Close, Evaluate, LargeRequest, Request, Taken
from quorate.protocol.frames import Frames, frame_in_pieces
from quorate.protocol.messages import (
    decode_body,
    decode_body_in_steps,
    decode_request_header,
    encoded_response_header,
    response_pieces,
    response_pieces_in_steps,
)
from quorate.protocol.sasl.mechanism import Answered, SaslError
from quorate.protocol.sasl.server import Mechanisms, ServerAuthenticator
from quorate.protocol.sasl.session import Session
from quorate.protocol.settings import ServerSettings
from quorate.wire.items import Steps

__all__ = ["DescribeVersions", "ServerConnection"]

DescribeVersions = Callable[[ApiVersionsRequest, int], ApiVersionsResponse]
"""(request, its version) → what the node supports."""

_OUT_OF_PLACE: dict[int, Message] = {
    SASL_HANDSHAKE: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
    SASL_AUTHENTICATE: SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    ),
}
"""Answers outside of a login, as Kafka's `AuthHelper` and `ControllerApis` give them."""


class ServerConnection:
    """One connection. `served` are the versions of each API that the listener accepts, ApiVersions among them.

    The driver calls `receive_data` with what it read, takes events with `next_event`, of which each is one frame of the
    client's, until that is None, and sends `data_to_send`. Between two of them it lets other connections have theirs.
    It reads on only while `wants_data`: so a client that sends more than `in_flight_max` requests, or a large one, is
    not read from.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        served: Versions,
        describe_versions: DescribeVersions,
        mechanisms: Mechanisms | None = None,
        now_ms: int,
        wall_ms: Callable[[], int],
    ) -> None:
        """`now_ms`, here and below, is by a clock that is never set; `wall_ms` is now in ms since 1970."""
        self._settings = settings
        self._wall_ms = wall_ms
        self._served = served
        self._describe_versions = describe_versions
        self._mechanisms = mechanisms
        self._login = self._authenticator() if mechanisms is not None else None
        size_max = settings.sasl_receive_bytes_max if self._login else settings.request_bytes_max
        self._frames = Frames(size_max=size_max)
        self._slots: deque[_Slot] = deque()
        self._large: RequestHeader | None = None
        """The large request that is not answered yet."""
        self._in_flight_bytes = 0
        self._out: list[bytes] = []
        self._active_at_ms = now_ms
        self.session: Session | None = None
        self.principal = ANONYMOUS
        """Whose requests they are without a login: the driver knows it by the client's certificate, if by anything."""
        self.software = ("unknown", "unknown")
        """Name and version of the client's library, if it sent them. KIP-511."""
        self.is_known = False
        """Whether the client has logged in; where there are no logins, whether it has asked for anything."""
        self.closing: Close | None = None

    @property
    def wants_data(self) -> bool:
        """Whether more of the client's bytes are to be read.

        Not once the connection is closing, nor while a large request or a login is being worked on, or as many requests
        are in flight as may be.
        """
        evaluates = self._login is not None and self._login.asking is not None
        if self.closing is not None or evaluates or self._large is not None:
            return False
        return len(self._slots) < self._settings.in_flight_max

    @property
    def has_event(self) -> bool:
        """Whether `next_event` has one more: then the driver need not read on."""
        return self.wants_data and self._frames.is_ready

    @property
    def held_bytes(self) -> int:
        """How many bytes are held here for the client: requests that are not whole or not answered, and answers."""
        return len(self._frames) + self._in_flight_bytes

    @property
    def in_flight(self) -> int:
        """How many requests are not answered yet, or wait for an answer before theirs."""
        return len(self._slots)

    def idle_deadline(self) -> int:
        """Returns when (ms, by the clock of `now_ms`) to close the connection unless bytes come or go before."""
        return self._active_at_ms + self._settings.idle_ms_max

    def receive_data(self, data: bytes | memoryview, now_ms: int) -> None:
        """Takes bytes from the client, and keeps no view of them."""
        assert now_ms >= self._active_at_ms, (now_ms, self._active_at_ms)
        self._active_at_ms = now_ms
        self._frames.receive_data(data)

    def data_to_send(self, now_ms: int) -> bytes:
        """Returns the bytes that go to the client now, and takes them away: each is returned once."""
        return b"".join(self.pieces_to_send(now_ms))

    def pieces_to_send(self, now_ms: int) -> list[bytes]:
        """Returns the bytes for the client, once, in pieces in order; a Fetch's records are one, and not copied."""
        if self._out:
            self._active_at_ms = now_ms
        pieces, self._out = self._out, []
        return pieces

    def next_event(self, now_ms: int) -> Request | LargeRequest | Evaluate | Taken | Close | None:
        """Takes one frame: returns a request or a login's message to answer, or Taken; Close for a breach of protocol.

        None if more bytes or answers are needed first, and after Close.
        """
        if not self.wants_data:
            return None
        try:
            taken = self._frames.take()
            if taken is None:
                return None
            event = self._logging_in(taken, now_ms) if self._login else self._request(taken, now_ms)
        except ProtocolError as problem:
            return self._close(str(problem))
        return Taken() if event is None else event

    def forget(self) -> None:
        """Gives back the memory of a connection that has ended; answers that still come are dropped."""
        self._frames.clear()
        self._slots.clear()
        self._in_flight_bytes = 0
        self._out.clear()

    def evaluated(self, outcome: Answered | SaslError, now_ms: int) -> Close | None:
        """Takes the answer to the message of the last Evaluate, or its refusal. Returns Close if the login fails."""
        assert self._login is not None, "no login is under way"
        return self._step(self._login, self._login.answered(outcome, now_ms))

    def respond(self, request: Request, response: Message | None) -> None:
        """Answers a request, once; None if it takes no answer (Produce with acks 0).

        The answer is in `data_to_send` once all requests before this one are answered. Raises what
        `wire.codec.encode` raises for a response that the request's version cannot carry.
        """
        header = request.header
        slot = self._slot_of(request)
        if response is not None:
            pieces = response_pieces(
                request.api, response, version=header.request_api_version, correlation_id=header.correlation_id
            )
            slot.fill(frame_in_pieces(pieces))
        self._answered(slot, header)

    def respond_in_steps(self, request: Request, response: Message) -> Steps[None]:
        """Answers a request, once, as `respond` does, but encodes a response of many list items in steps.

        If `forget` ends the connection between two steps, the answer is dropped. Raises as `respond`.
        """
        header = request.header
        slot = self._slot_of(request)
        pieces = yield from response_pieces_in_steps(
            request.api, response, version=header.request_api_version, correlation_id=header.correlation_id
        )
        slot.fill(frame_in_pieces(pieces))
        self._answered(slot, header)

    def respond_encoded(self, request: Request, body: Sequence[bytes]) -> None:
        """Answers a request, once, with the pieces of a body that is encoded in the request's version already.

        The size and the response header are put before it. The body is not checked.
        """
        header = request.header
        slot = self._slot_of(request)
        slot.fill(frame_in_pieces((encoded_response_header(request.api, header), *body)))
        self._answered(slot, header)

    def _slot_of(self, request: Request) -> _Slot:
        header = request.header
        for slot in self._slots:
            if slot.header is header and not slot.is_filled:
                return slot
        raise AssertionError(f"{request.api.name} {header.correlation_id} is not in flight")

    def _answered(self, slot: _Slot, header: RequestHeader) -> None:
        """Sends the answers that are next, now that this one is there."""
        assert not slot.is_filled, f"request {header.correlation_id} is answered twice"
        if self._large is header:
            self._large = None
        if not self._slots:
            return  # it was forgotten meanwhile
        self._in_flight_bytes += slot.answer_bytes
        slot.is_filled = True
        while self._slots and self._slots[0].is_filled:
            slot = self._slots.popleft()
            self._in_flight_bytes -= slot.size + slot.answer_bytes
            self._out += slot.pieces
        assert self._in_flight_bytes >= 0, self._in_flight_bytes
        assert self._slots or not self._in_flight_bytes, f"{self._in_flight_bytes} bytes count for ever"

    def _close(self, reason: str, delay_ms: int = 0) -> Close:
        assert self.closing is None, (self.closing, reason)
        self.closing = Close(reason=reason, delay_ms=delay_ms)
        return self.closing

    # -- requests

    def _request(self, data: bytes, now_ms: int) -> Request | LargeRequest | Evaluate | Close | None:
        api, header, position = decode_request_header(data)
        version = header.request_api_version
        session = self.session
        if api.key == SASL_HANDSHAKE and session is not None and session.may_be_renewed(now_ms):
            self._login = self._authenticator(renewed=session)
            return self._logging_in(data, now_ms)
        if session is not None and session.has_expired(now_ms):
            return self._close(f"the session of {session.login.principal} has expired ({session.ended_by})")
        if version not in self._served.get(api.key, ()):
            self._refuse_version(api, header, data)
            return None
        self.is_known = True
        self._await_answer(header, data)
        if len(data) > self._settings.large_bytes:
            assert self._large is None, (self._large, header)
            self._large = header
            return LargeRequest(api=api, steps=self._decoded(api, header, data, position))
        return self._taken(api, header, decode_body(api.request, data, position, version))

    def _refuse_version(self, api: ApiMessageType, header: RequestHeader, data: bytes) -> None:
        """Answers an ApiVersions of an unknown version, without reading it. Raises ProtocolError for other APIs."""
        if api.key != API_VERSIONS:
            version = header.request_api_version
            raise ProtocolError(f"request_api_version is {version}; {api.name} is not enabled in it on this listener")
        self._await_answer(header, data)
        self._answer(api, header, unsupported_version())

    def _decoded(self, api: ApiMessageType, header: RequestHeader, data: bytes, position: int) -> Steps[Request | None]:
        """Decodes a large request in steps. Raises ProtocolError."""
        version, items_max = header.request_api_version, self._settings.items_max
        message = yield from decode_body_in_steps(api.request, data, position, version, items_max=items_max)
        return self._taken(api, header, message)

    def _taken(self, api: ApiMessageType, header: RequestHeader, message: Message) -> Request | None:
        """Returns a request for the driver to answer; None if the connection has answered it by itself."""
        if isinstance(message, ApiVersionsRequest):
            self._answer(api, header, self._versions(message, header.request_api_version))
        elif api.key in _OUT_OF_PLACE:
            self._answer(api, header, _OUT_OF_PLACE[api.key])
        else:
            return self._to_answer(api, header, message)
        return None

    def _to_answer(self, api: ApiMessageType, header: RequestHeader, message: Message) -> Request:
        assert self._mechanisms is None or self.session is not None, f"{api.name} came before a login (KIP-152)"
        login = self.session.login if self.session else None
        if login is None:
            return Request(api=api, header=header, message=message, principal=self.principal)
        return Request(api=api, header=header, message=message, principal=login.principal, is_token=login.is_token)

    def _await_answer(self, header: RequestHeader, data: bytes) -> None:
        """Keeps a place for the answer among those of the requests before and after."""
        self._slots.append(_Slot(header, size=len(data)))
        self._in_flight_bytes += len(data)
        assert len(self._slots) <= self._settings.in_flight_max, len(self._slots)

    def _answer(self, api: ApiMessageType, header: RequestHeader, response: Message) -> None:
        self.respond(Request(api=api, header=header, message=response), response)

    def _versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        if not has_valid_software(request, version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if version >= 3:
            self.software = (request.client_software_name, request.client_software_version)
        return for_version(self._describe_versions(request, version), version)

    def _versions_before_login(self, header: RequestHeader, data: bytes, position: int) -> ApiVersionsResponse:
        """Raises ProtocolError for a body that is not one."""
        version = header.request_api_version
        if version not in self._served[API_VERSIONS]:
            return unsupported_version()
        return self._versions(decode_body(ApiVersionsRequest, data, position, version), version)

    # -- logins

    def _authenticator(self, renewed: Session | None = None) -> ServerAuthenticator:
        assert self._mechanisms is not None
        return ServerAuthenticator(
            self._mechanisms,
            reauth_ms_max=self._settings.reauth_ms_max,
            wall_ms=self._wall_ms,
            answer_api_versions=self._versions_before_login,
            renewed=renewed,
        )

    def _logging_in(self, data: bytes, now_ms: int) -> Evaluate | Close | None:
        login = self._login
        assert login is not None
        answer = login.receive(data, now_ms)
        if login.asking is not None:
            exchange, message = login.asking
            return Evaluate(exchange=exchange, message=message)
        return self._step(login, answer)

    def _step(self, login: ServerAuthenticator, answer: bytes) -> Close | None:
        """Sends the answer to one frame of a login, and ends the login or the connection if that was the last."""
        if answer:
            self._after_all(answer)
        if login.failure is not None:
            return self._close(login.failure, self._settings.failed_authentication_delay_ms)
        if login.session is not None:
            assert login.asking is None, login.session
            self.session, self._login = login.session, None
            self.is_known = True
            self._frames.size_max = self._settings.request_bytes_max
        return None

    def _after_all(self, data: bytes) -> None:
        """Sends bytes after the answers that are still to come."""
        if self._slots:
            slot = _Slot(None)
            slot.fill([data])
            slot.is_filled = True
            self._slots.append(slot)
            self._in_flight_bytes += len(data)
        else:
            self._out.append(data)


class _Slot:
    """The place of one answer in the order of requests."""

    __slots__ = ("answer_bytes", "header", "is_filled", "pieces", "size")

    def __init__(self, header: RequestHeader | None, *, size: int = 0) -> None:
        """`size` is the request's, in bytes."""
        self.size = size
        self.header = header
        self.pieces: list[bytes] = []
        self.answer_bytes = 0
        self.is_filled = False

    def fill(self, pieces: list[bytes]) -> None:
        self.pieces, self.answer_bytes = pieces, sum(map(len, pieces))
