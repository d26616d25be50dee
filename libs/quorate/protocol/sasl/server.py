"""The server's side of a login: ApiVersions, SaslHandshake, SaslAuthenticate. Kafka's SaslServerAuthenticator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

from kraft import Message
from kraft.api.api_versions import ApiVersionsResponse
from kraft.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ErrorCode
from quorate.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, Api
from quorate.protocol.errors import ProtocolError
from quorate.protocol.frames import frame
from quorate.protocol.messages import decode_body, decode_request_header, encode_response
from quorate.protocol.sasl.mechanism import SaslError, ServerMechanism
from quorate.protocol.sasl.session import Session, session_of

__all__ = ["AnswerApiVersions", "Mechanisms", "ServerAuthenticator"]

Mechanisms = Mapping[str, Callable[[], ServerMechanism]]
"""The mechanisms of a listener (Kafka's `sasl.enabled.mechanisms`), each with what begins an exchange."""

AnswerApiVersions = Callable[[RequestHeader, bytes, int], ApiVersionsResponse]
"""(header, frame, position of the body) → the response."""


class _State(Enum):
    HANDSHAKE = auto()
    """ApiVersions once, then SaslHandshake."""
    AUTHENTICATE = auto()
    DONE = auto()


class ServerAuthenticator:
    """One login on one connection: a frame in, a frame out.

    `renewed` is the session that is renewed on an open connection (KIP-368): user and mechanism must stay the same.
    """

    def __init__(
        self,
        mechanisms: Mechanisms,
        *,
        reauth_ms_max: int,
        answer_api_versions: AnswerApiVersions,
        renewed: Session | None = None,
    ) -> None:
        self._mechanisms = mechanisms
        self._reauth_ms_max = reauth_ms_max
        self._answer_api_versions = answer_api_versions
        self._renewed = renewed
        self._state = _State.HANDSHAKE
        self._asked_versions = False
        self._has_headers = False
        self._name = ""
        self._exchange: ServerMechanism | None = None
        self.session: Session | None = None
        self.failure: str | None = None
        """Why the login failed, in words for our log; the connection is to be closed once the answer is sent."""

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Takes one frame of the client's and returns the bytes that answer it. Raises ProtocolError."""
        assert self.session is None, "the login is complete"
        if self.failure is not None:
            return b""
        if self._state is _State.AUTHENTICATE and not self._has_headers:
            return self._bare_token(data, now_ms)
        api, header, position = decode_request_header(data)
        if self._state is _State.AUTHENTICATE:
            return self._authenticate(api, header, data, position, now_ms)
        return self._handshake(api, header, data, position)

    def _handshake(self, api: Api, header: RequestHeader, data: bytes, position: int) -> bytes:
        if api.key == API_VERSIONS and not self._asked_versions:
            answer = self._answer_api_versions(header, data, position)
            self._asked_versions = answer.error_code == ErrorCode.NONE
            return _answer(api, header, answer)
        if api.key != SASL_HANDSHAKE:
            raise ProtocolError(f"{api.name} came before the login; the client has to send SaslHandshake first")
        request = decode_body(SaslHandshakeRequest, data, position, header.request_api_version)
        self._has_headers = header.request_api_version >= 1
        known = tuple(self._mechanisms)
        if request.mechanism not in self._mechanisms:
            self.failure = f"SASL mechanism {request.mechanism!r} is not supported; enabled are {', '.join(known)}"
            refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=known)
            return _answer(api, header, refusal)
        self._name, self._exchange = request.mechanism, self._mechanisms[request.mechanism]()
        self._state = _State.AUTHENTICATE
        return _answer(api, header, SaslHandshakeResponse(mechanisms=known))

    def _authenticate(self, api: Api, header: RequestHeader, data: bytes, position: int, now_ms: int) -> bytes:
        if api.key != SASL_AUTHENTICATE:
            raise ProtocolError(f"{api.name} came in the middle of a login; the client has to send SaslAuthenticate")
        request = decode_body(SaslAuthenticateRequest, data, position, header.request_api_version)
        try:
            token = self._evaluate(request.auth_bytes, now_ms)
        except SaslError as refusal:
            told = refusal.told or (
                f"Authentication failed during {self._what} due to invalid credentials with SASL mechanism {self._name}"
            )
            failed = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)
            return _answer(api, header, failed)
        lifetime = self.session.lifetime_ms if self.session else 0
        return _answer(api, header, SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime))

    def _bare_token(self, data: bytes, now_ms: int) -> bytes:
        """Version 0 of the handshake: the mechanism's messages in frames of their own; a refusal has no words."""
        try:
            return frame(self._evaluate(data, now_ms))
        except SaslError:
            return b""

    def _evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Raises SaslError, after it is noted as the failure."""
        assert self._exchange is not None
        try:
            if self._renewed is not None and self._renewed.mechanism != self._name:
                raise _refused(
                    f"SASL mechanism '{self._name}' requested by client is not supported for re-authentication of "
                    f"mechanism '{self._renewed.mechanism}'"
                )
            answer = self._exchange.evaluate(token)
            self._complete(now_ms)
        except SaslError as refusal:
            self.failure = f"{self._what} with {self._name} failed: {refusal}"
            raise
        return answer

    def _complete(self, now_ms: int) -> None:
        assert self._exchange is not None
        login = self._exchange.login
        if login is None:
            return
        if self._renewed is not None and self._renewed.login.principal != login.principal:
            before, after = self._renewed.login.principal, login.principal
            raise _refused(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{after.type}.{after.name}"
            )
        self.session = session_of(self._name, login, now_ms=now_ms, reauth_ms_max=self._reauth_ms_max)
        self._state = _State.DONE

    @property
    def _what(self) -> str:
        return "authentication" if self._renewed is None else "re-authentication"


def _answer(api: Api, header: RequestHeader, response: Message) -> bytes:
    version = header.request_api_version
    return frame(encode_response(api, response, version=version, correlation_id=header.correlation_id))


def _refused(told: str) -> SaslError:
    return SaslError(told, told=told)
