"""The client's side of a connection: requests in, bytes out; bytes in, responses out. No socket, no clock."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.sasl_handshake import SaslHandshakeRequest
from quorate.errors import ApiError, ErrorCode, error_of
from quorate.protocol.api_versions import FALLBACK_VERSION, Versions, usable_version, versions_of
from quorate.protocol.apis import API_VERSIONS, ApiMessageType, all_apis, api_of
from quorate.protocol.errors import ProtocolError
from quorate.protocol.events import Close, ConnectionReady, Response
from quorate.protocol.frames import Frames, frame
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.protocol.sasl.client import HANDSHAKE_VERSION_MIN, Begin, ClientAuthenticator
from quorate.protocol.settings import ClientSettings

__all__ = ["ClientConnection"]

RENEW_AT: Final = 0.85
"""The part of a session's lifetime after which the login is renewed; Kafka draws from 0.85 to 0.95."""


class _Sent(NamedTuple):
    correlation_id: int
    api: ApiMessageType
    version: int
    is_own: bool  # sent by the connection itself, for versions or a login


class ClientConnection:
    """One connection: ApiVersions first, then the login if `begin` is given, then `ConnectionReady` and requests.

    The driver sends `data_to_send`, calls `receive_data` with what it read, and takes events with `next_event` until
    that is None. `api_versions_version` is in which version it asks first; a node that does not know it tells which it
    knows (KIP-511).
    """

    def __init__(
        self, settings: ClientSettings, *, begin: Begin | None = None, api_versions_version: int | None = None
    ) -> None:
        api = all_apis()[API_VERSIONS]
        self._settings = settings
        self._begin = begin
        self._frames = Frames(size_max=settings.response_bytes_max)
        self._sent: deque[_Sent] = deque()
        self._out: list[bytes] = []
        self._correlation_id = -1
        self._login: ClientAuthenticator | None = None
        self._lifetime_ms = 0
        self.is_ready = False
        self.versions: Versions = {}
        """The node's table, from ApiVersions on."""
        self.node: ApiVersionsResponse | None = None
        """The APIs and versions of the node, from ApiVersions on."""
        self.closing: Close | None = None
        self._ask_versions(api.versions[-1] if api_versions_version is None else api_versions_version)

    @property
    def can_send(self) -> bool:
        """Whether a request may be sent now."""
        return self.is_ready and len(self._sent) < self._settings.in_flight_max

    @property
    def renew_after_ms(self) -> int | None:
        """After how many ms since ConnectionReady to call `renew`; None if the session does not end. KIP-368."""
        return int(self._lifetime_ms * RENEW_AT) if self._lifetime_ms else None

    def version_of(self, request: type[Message]) -> int:
        """Returns the version that `send` would choose. Raises ApiError(UNSUPPORTED_VERSION)."""
        return usable_version(self.versions, request)

    def send(self, request: Message, *, version: int | None = None) -> int:
        """Adds a request to `data_to_send`, in the highest version of both sides or in `version`.

        Returns its correlation id. `can_send` must be true. Raises ApiError(UNSUPPORTED_VERSION) if there is no such
        version, or if it lacks a field that is set; ValueError for a value outside its field's type.
        """
        assert self.can_send, "not ready, or as many requests are open as may be"
        kind = type(request)
        chosen = usable_version(self.versions, kind, oldest=version, latest=version)
        return self._send(request, chosen, is_own=False)

    def renew(self) -> None:
        """Logs in again. No request may be sent until ConnectionReady comes again; answers still come. KIP-368."""
        assert self.is_ready, "there is no session to renew"
        self._log_in()

    def receive_data(self, data: bytes) -> None:
        """Takes bytes from the node; `next_event` then says what is in them."""
        self._frames.receive_data(data)

    def data_to_send(self) -> bytes:
        """Returns the bytes that go to the node now, once."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def next_event(self) -> ConnectionReady | Response | Close | None:
        """Returns what came; None if more bytes are needed. Close, for a breach of the protocol, is the last event.

        Raises ApiError when the node refuses the login or has no version in common; then close the connection.
        """
        while self.closing is None:
            try:
                taken = self._frames.take()
                if taken is None:
                    return None
                event = self._received(taken)
            except ProtocolError as problem:
                self.closing = Close(reason=str(problem))
                return self.closing
            except ApiError as refusal:
                self.closing = Close(reason=str(refusal))
                raise
            if event is not None:
                return event
        return None

    def _send(self, request: Message, version: int, *, is_own: bool) -> int:
        api = api_of(type(request))
        number = (self._correlation_id + 1) & 0x7FFFFFFF
        assert not self._sent or number != self._sent[0].correlation_id, f"{len(self._sent)} requests are open"
        client_id = self._settings.client_id
        data = encode_request(api, request, version=version, correlation_id=number, client_id=client_id)
        self._correlation_id = number
        self._sent.append(_Sent(number, api, version, is_own))
        self._out.append(frame(data))
        return number

    def _received(self, data: bytes) -> ConnectionReady | Response | None:
        if not self._sent:
            raise ProtocolError(f"a response of {len(data)} bytes came; no request is open")
        sent = self._sent[0]
        header, position = decode_response_header(sent.api, sent.version, data)
        if header.correlation_id != sent.correlation_id:
            raise ProtocolError(
                f"correlation_id is {header.correlation_id}; the oldest open request, {sent.api.name}, has "
                f"{sent.correlation_id}, and responses come in the order of requests"
            )
        self._sent.popleft()
        if sent.api.key == API_VERSIONS and sent.is_own:
            return self._learn(_versions_response(data, position, sent.version), sent.version)
        message = decode_body(sent.api.response, data, position, sent.version)
        if sent.is_own:
            return self._logging_in(message)
        return Response(api=sent.api, correlation_id=sent.correlation_id, message=message)

    # -- versions and logins

    def _ask_versions(self, version: int) -> None:
        name, number = self._settings.software_name, self._settings.software_version
        asked = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        self._send(asked, version, is_own=True)

    def _learn(self, response: ApiVersionsResponse, asked: int) -> ConnectionReady | None:
        assert self.node is None, "the versions are known"
        code = response.error_code
        if code == ErrorCode.UNSUPPORTED_VERSION and asked != FALLBACK_VERSION:
            known = versions_of(response)
            lower = usable_version(known, ApiVersionsRequest, latest=asked - 1) if API_VERSIONS in known else 0
            self._ask_versions(lower)
            return None
        if code != ErrorCode.NONE:
            raise ApiError(error_of(code), f"the node refuses ApiVersions in version {asked}")
        self.node, self.versions = response, versions_of(response)
        if self._begin is not None:
            self._log_in()
            return None
        self.is_ready = True
        return ConnectionReady()

    def _log_in(self) -> None:
        assert self._begin is not None
        self.is_ready = False
        self._login = ClientAuthenticator(self._begin)
        self._send_of_login(self._login.first)

    def _send_of_login(self, request: Message) -> None:
        oldest = HANDSHAKE_VERSION_MIN if isinstance(request, SaslHandshakeRequest) else None
        version = usable_version(self.versions, type(request), oldest=oldest)
        self._send(request, version, is_own=True)

    def _logging_in(self, response: Message) -> ConnectionReady | None:
        assert self._login is not None
        following = self._login.receive(response)
        if following is not None:
            self._send_of_login(following)
            return None
        self._lifetime_ms, self._login = self._login.lifetime_ms, None
        self.is_ready = True
        return ConnectionReady()


def _versions_response(data: bytes, position: int, version: int) -> ApiVersionsResponse:
    """Returns the response: a node that does not know the version answers in version 0. `ApiVersionsResponse.parse`.

    The error code comes first in every version.
    """
    if int.from_bytes(data[position : position + 2], signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = FALLBACK_VERSION
    return decode_body(ApiVersionsResponse, data, position, version)
