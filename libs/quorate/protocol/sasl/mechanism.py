"""The interface of a SASL mechanism for the two authenticators, and the result of a login."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from quorate.nouns import Principal

__all__ = ["Answered", "ClientMechanism", "Login", "RemoteMechanism", "SaslError", "ServerMechanism"]


class SaslError(Exception):
    """A failed login. The text is for our log; `client_message` goes to the client, unless it may not know the reason.

    Kafka sends the text of a SaslAuthenticationException; of a SaslException it sends only which mechanism failed.
    """

    def __init__(self, reason: str, *, client_message: str | None = None) -> None:
        super().__init__(reason)
        self.client_message = client_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The principal that has logged in. `expires_at_ms` is when its delegation token expires (ms since 1970), or None.

    `is_in_force` says whether the credential is still what it was, for a later check, as in a long stream.
    """

    principal: Principal
    is_token: bool = False
    expires_at_ms: int | None = None
    is_in_force: Callable[[], bool] = field(default=lambda: True, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The server's answer to one message of a login, and who has logged in; `login` is None before it is complete."""

    message: bytes
    login: Login | None = None


@runtime_checkable
class RemoteMechanism(Protocol):
    """The server's side of one login whose messages another process answers, because the credentials are there."""

    def name_in(self, response: bytes) -> str:
        """Returns the user name or token id of the client's first message, not verified yet; empty if it has none.

        By it messages wait for their turn: many of one name do not hold up those of another.
        """

    async def ask(self, response: bytes) -> Answered:
        """Takes the client's message and returns the answer. Raises SaslError; any other error ends the connection."""


class ServerMechanism(Protocol):
    """The server's side of one login: `evaluate` is called with each message of the client until `login` is set."""

    def evaluate(self, response: bytes) -> bytes:
        """Takes the client's message and returns the answer. Raises SaslError."""

    @property
    def login(self) -> Login | None:
        """The principal that has logged in; None before the exchange is complete."""


class ClientMechanism(Protocol):
    """The client's side of one login: `evaluate` makes each message until it returns None."""

    @property
    def name(self) -> str:
        """The mechanism as SaslHandshake names it."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Takes the server's message, empty at first, and returns the next; None when complete. Raises SaslError."""
