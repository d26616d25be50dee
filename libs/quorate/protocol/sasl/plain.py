"""PLAIN: name and password in clear text, so only to be used inside TLS. RFC 4616, KIP-43."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.nouns import Principal
from quorate.protocol.sasl.mechanism import Login, SaslError

__all__ = ["OTHER_AUTHORIZATION_ID", "PLAIN", "PlainClient", "PlainServer", "Verify"]

PLAIN: Final = "PLAIN"
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
"""Kafka's answer to a client that wants to act as another user, under PLAIN and under SCRAM."""

Verify = Callable[[str, str], bool]
"""(user name, password) → is it this user's password? It should compare in constant time."""

_TOKENS: Final = 3


class PlainServer:
    """The server's side of one login. The refusals are those of Kafka's PlainSaslServer, in its order and words."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self.login: Login | None = None

    def evaluate(self, response: bytes) -> bytes:
        # Java replaces what is not UTF-8; what is replaced is in no password
        tokens = response.decode(errors="replace").split("\0")
        if len(tokens) != _TOKENS:
            raise _refused(f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {len(tokens)}")
        authorization_id, user, password = tokens
        if not user:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        if not self._verify(user, password):
            raise _refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _refused(OTHER_AUTHORIZATION_ID)
        self.login = Login(principal=Principal("User", user))
        return b""


class PlainClient:
    """The client's side of one login: a single message with user name and password."""

    name = PLAIN

    def __init__(self, user: str, password: str) -> None:
        self._message: bytes | None = f"\0{user}\0{password}".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        message, self._message = self._message, None
        return message


def _refused(message: str) -> SaslError:
    return SaslError(message, client_message=message)
