"""Logins by SCRAM at a gateway: the controller beside it carries them out."""

from __future__ import annotations

from typing import Any, Final

from kraft.service.controller_pb2 import AuthenticateRequest, AuthenticateResponse
from quorate.errors import ApiError, ErrorCode
from quorate.network.listening import Unanswerable
from quorate.nouns import Principal
from quorate.protocol.sasl.mechanism import Answered, Login, SaslError
from quorate.protocol.sasl.scram_messages import ClientFirst
from quorate.runtime.access.passing_on import LOGIN_REASON
from quorate.runtime.clients.client import call

__all__ = ["ScramAtController"]

DEADLINE_MS: Final = 30_000
"""How long the controller has for one message of a login: by then the client has given up."""


class ScramAtController:
    """One SCRAM login of a client, which the controller carries out: it alone has the users' credentials."""

    def __init__(self, mechanism: str, controller: Any) -> None:
        self._mechanism = mechanism
        self._controller = controller
        self._messages: list[bytes] = []

    def name_in(self, response: bytes) -> str:
        """Returns the user name or token id in the client-first-message (RFC 5802); empty if it is none."""
        try:
            return ClientFirst.parse(self._messages[0] if self._messages else response).saslname
        except SaslError:
            return ""

    async def ask(self, response: bytes) -> Answered:
        """Has the controller answer the client's next message; the last answer has the login.

        Raises SaslError if the login fails, Unanswerable if the controller does not answer.
        """
        request = AuthenticateRequest(mechanism=self._mechanism, messages=[*self._messages, response])
        try:
            answer = await call(self._controller.Authenticate, request, deadline_ms=DEADLINE_MS)
        except ApiError as refusal:
            if refusal.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise SaslError(refusal.message, client_message=refusal.metadata.get(LOGIN_REASON)) from None
            raise Unanswerable(f"a login with {self._mechanism}: the controller does not answer: {refusal}") from None
        self._messages += [response, answer.message]
        return Answered(message=answer.message, login=_login(answer))


def _login(answer: AuthenticateResponse) -> Login | None:
    if not answer.HasField("login"):
        return None
    login = answer.login
    return Login(
        principal=Principal(login.principal_type, login.principal_name),
        is_token=login.is_token,
        expires_at_ms=login.expires_at_ms if login.HasField("expires_at_ms") else None,
    )
