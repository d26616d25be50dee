"""The client's side of a login, step by step. Kafka's SaslClientAuthenticator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft import Message
from kraft.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from quorate.errors import ApiError, ErrorCode, error_of
from quorate.protocol.sasl.mechanism import ClientMechanism, SaslError

__all__ = ["HANDSHAKE_VERSION_MIN", "Begin", "ClientAuthenticator"]

Begin = Callable[[], ClientMechanism]
"""Begins an exchange: a new one for each login, since a nonce is used once."""

HANDSHAKE_VERSION_MIN: Final = 1
"""After version 0 messages come without headers; every Kafka release since 1.0 has version 1 (KIP-152)."""


class ClientAuthenticator:
    """One login: the client sends `first`, then what `receive` returns for each response, until that is None."""

    def __init__(self, begin: Begin) -> None:
        self._exchange = begin()
        self.lifetime_ms = 0
        """How long the node lets the session live, 0 for ever; known when the login is complete."""

    @property
    def first(self) -> Message:
        return SaslHandshakeRequest(mechanism=self._exchange.name)

    def receive(self, response: Message) -> Message | None:
        """Takes a response and returns the next request, or None when the login is complete.

        Raises ApiError: the node's refusal, or SASL_AUTHENTICATION_FAILED if the mechanism refuses what the node says.
        """
        match response:
            case SaslHandshakeResponse():
                return self._chosen(response)
            case SaslAuthenticateResponse():
                return self._answered(response)
            case _:
                raise AssertionError(f"{type(response).__name__} is no answer to a login")

    def _chosen(self, response: SaslHandshakeResponse) -> Message | None:
        if response.error_code != ErrorCode.NONE:
            raise ApiError(
                error_of(response.error_code),
                f"the node does not accept {self._exchange.name}; it accepts {', '.join(response.mechanisms)}",
            )
        return self._next(b"")

    def _answered(self, response: SaslAuthenticateResponse) -> Message | None:
        if response.error_code != ErrorCode.NONE:
            raise ApiError(error_of(response.error_code), response.error_message or "the node gives no reason")
        self.lifetime_ms = response.session_lifetime_ms
        return self._next(response.auth_bytes)

    def _next(self, challenge: bytes) -> Message | None:
        try:
            token = self._exchange.evaluate(challenge)
        except SaslError as refusal:
            text = f"{self._exchange.name}: {refusal}"
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, text) from refusal
        return None if token is None else SaslAuthenticateRequest(auth_bytes=token)
