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
from quorate.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, ApiMessageType
from quorate.protocol.errors import ProtocolError
from quorate.protocol.frames import frame
from quorate.protocol.messages import decode_body, decode_request_header, encode_response
from quorate.protocol.sasl.mechanism import Answered, Login, RemoteMechanism, SaslError, ServerMechanism
from quorate.protocol.sasl.session import Session, session_of
from quorate.wire.schema import STRING_MAX

__all__ = ["AnswerApiVersions", "Mechanisms", "ServerAuthenticator"]

Mechanisms = Mapping[str, Callable[[], ServerMechanism | RemoteMechanism]]
"""The mechanisms of a listener (Kafka's `sasl.enabled.mechanisms`), each with what begins an exchange."""

AnswerApiVersions = Callable[[RequestHeader, bytes, int], ApiVersionsResponse]
"""(header, frame, position of the body) → the response."""


class _State(Enum):
    HANDSHAKE = auto()
    """ApiVersions once, then SaslHandshake."""
    AUTHENTICATE = auto()
    DONE = auto()


class ServerAuthenticator:
    """One login on one connection: a frame in, a frame out; or none, while `asking` has a message for another process.

    `renewed` is the session that is renewed on an open connection (KIP-368): user and mechanism must stay the same.
    """

    def __init__(
        self,
        mechanisms: Mechanisms,
        *,
        reauth_ms_max: int,
        wall_ms: Callable[[], int],
        answer_api_versions: AnswerApiVersions,
        renewed: Session | None = None,
    ) -> None:
        self._mechanisms = mechanisms
        self._reauth_ms_max = reauth_ms_max
        self._wall_ms = wall_ms
        self._answer_api_versions = answer_api_versions
        self._renewed = renewed
        self._state = _State.HANDSHAKE
        self._asked_versions = False
        self._has_headers = False
        self._name = ""
        self._exchange: ServerMechanism | RemoteMechanism | None = None
        self._reply: tuple[ApiMessageType, RequestHeader] | None = None
        """How the message under way is answered; None is a bare frame."""
        self.asking: tuple[RemoteMechanism, bytes] | None = None
        """The message that another process has to answer; `answered` takes what it says."""
        self.session: Session | None = None
        self.failure: str | None = None
        """Why the login failed, in words for our log; the connection is to be closed once the answer is sent."""

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Takes one frame of the client's, without its size, and returns the bytes to send, with the size.

        They are none if `asking` has a message for another process, or if there is no answer. When the login ends,
        `session` or `failure` is set. Raises ProtocolError, also for a request that does not belong to a login.
        """
        assert self.session is None, "the login is complete"
        assert self.asking is None, "a message is under way"
        if self.failure is not None:
            return b""
        if self._state is _State.AUTHENTICATE and not self._has_headers:
            return self._evaluate(data, None, now_ms)
        api, header, position = decode_request_header(data)
        if self._state is _State.AUTHENTICATE:
            return self._authenticate(api, header, data, position, now_ms)
        return self._handshake(api, header, data, position)

    def _handshake(self, api: ApiMessageType, header: RequestHeader, data: bytes, position: int) -> bytes:
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

    def _authenticate(
        self, api: ApiMessageType, header: RequestHeader, data: bytes, position: int, now_ms: int
    ) -> bytes:
        if api.key != SASL_AUTHENTICATE:
            raise ProtocolError(f"{api.name} came in the middle of a login; the client has to send SaslAuthenticate")
        request = decode_body(SaslAuthenticateRequest, data, position, header.request_api_version)
        return self._evaluate(request.auth_bytes, (api, header), now_ms)

    def answered(self, outcome: Answered | SaslError, now_ms: int) -> bytes:
        """Takes the other process's answer to the message in `asking`, and returns the bytes for the client."""
        assert self.asking is not None, "nothing was asked"
        self.asking = None
        return self._refusal(outcome) if isinstance(outcome, SaslError) else self._accepted(outcome, now_ms)

    def _evaluate(self, message: bytes, reply: tuple[ApiMessageType, RequestHeader] | None, now_ms: int) -> bytes:
        """Answers a message of the mechanism's; in version 0 of the handshake they have frames of their own."""
        assert self._exchange is not None
        self._reply = reply
        if self._renewed is not None and self._renewed.mechanism != self._name:
            return self._refusal(
                _refused(
                    f"SASL mechanism '{self._name}' requested by client is not supported for re-authentication of "
                    f"mechanism '{self._renewed.mechanism}'"
                )
            )
        if isinstance(self._exchange, RemoteMechanism):
            self.asking = self._exchange, message
            return b""
        try:
            answer = self._exchange.evaluate(message)
        except SaslError as refusal:
            return self._refusal(refusal)
        return self._accepted(Answered(message=answer, login=self._exchange.login), now_ms)

    def _accepted(self, answer: Answered, now_ms: int) -> bytes:
        if answer.login is not None:
            try:
                self._complete(answer.login, now_ms)
            except SaslError as refusal:
                return self._refusal(refusal)
        if self._reply is None:
            return frame(answer.message)
        lifetime = self.session.lifetime_ms if self.session else 0
        response = SaslAuthenticateResponse(auth_bytes=answer.message, session_lifetime_ms=lifetime)
        return _answer(*self._reply, response)

    def _complete(self, login: Login, now_ms: int) -> None:
        """Raises SaslError if a renewal is another user's."""
        assert self._state is _State.AUTHENTICATE, self._state
        assert self.failure is None, self.failure  # who was refused once does not get in by what follows
        if self._renewed is not None and self._renewed.login.principal != login.principal:
            before, after = self._renewed.login.principal, login.principal
            raise _refused(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{after.type}.{after.name}"
            )
        self.session = session_of(
            self._name, login, now_ms=now_ms, wall_ms=self._wall_ms(), reauth_ms_max=self._reauth_ms_max
        )
        self._state = _State.DONE
        assert self._renewed is None or self._renewed.mechanism == self.session.mechanism, self._renewed  # KIP-368

    def _refusal(self, refusal: SaslError) -> bytes:
        """Returns the answer of a login that fails, after it is noted; a bare frame has no room for one."""
        assert self.session is None, refusal
        self.failure = f"{self._what} with {self._name} failed: {refusal}"
        if self._reply is None:
            return b""
        message = refusal.client_message or (
            f"Authentication failed during {self._what} due to invalid credentials with SASL mechanism {self._name}"
        )
        fitting = message.encode()[:STRING_MAX].decode(errors="ignore")  # two principals in it may have more together
        failed = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=fitting)
        return _answer(*self._reply, failed)

    @property
    def _what(self) -> str:
        return "authentication" if self._renewed is None else "re-authentication"


def _answer(api: ApiMessageType, header: RequestHeader, response: Message) -> bytes:
    version = header.request_api_version
    return frame(encode_response(api, response, version=version, correlation_id=header.correlation_id))


def _refused(message: str) -> SaslError:
    return SaslError(message, client_message=message)
