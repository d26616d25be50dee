"""Logins by SCRAM and by delegation token, by the credentials that the metadata log has (KIP-48, KIP-554).

A controller answers them for the gateways. These have no replica of the log. They could be given a user's stored keys,
but these would let a thief try passwords at leisure, and pass for the server; so the whole exchange is done
here. Nothing is kept between its two messages: the gateway sends the first ones again, and the exchange is repeated up
to them with the same nonce. That takes no more trust in the gateway than it has already: it may say whose request it
passes on (CLUSTER_ACTION). A broker answers by itself, from the state that it has applied.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from quorate.controller.access.delegation_tokens import TokenSettings, parse_principal, token_hmac
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.scram import ScramCredentials
from quorate.metadata.tokens import DelegationTokens
from quorate.nouns import Principal
from quorate.protocol.sasl.mechanism import Answered, Login, SaslError
from quorate.protocol.sasl.scram import ScramServer, TokenCredential, scram_number, token_credential
from quorate.protocol.sasl.scram_messages import ClientFirst, ServerFirst
from quorate.records import DelegationTokenRecord, UserScramCredentialRecord

__all__ = ["ScramLogins"]

NONCE_BYTES: Final = 24
TOKENS_REMEMBERED: Final = 10_000
"""Whose keys are kept: to derive them takes milliseconds, in which the process does nothing else."""


class ScramLogins:
    """Answers the SCRAM logins of one process, by the credentials and delegation tokens that are committed."""

    def __init__(
        self,
        credentials: Callable[[], ScramCredentials],
        tokens: Callable[[], DelegationTokens],
        settings: TokenSettings,
        wall_ms: Callable[[], int],
        *,
        is_loaded: Callable[[], bool],
    ) -> None:
        """`credentials` and `tokens` return those that are committed now."""
        self._credentials = credentials
        self._tokens = tokens
        self._settings = settings
        self._wall_ms = wall_ms
        self._is_loaded = is_loaded

    def begin(self, mechanism: str) -> ScramServer:
        """Begins an exchange of a SCRAM mechanism, by name, that this process answers from its begin to its end."""
        number = scram_number(mechanism)
        assert number is not None, mechanism
        return self._exchange(number, secrets.token_urlsafe(NONCE_BYTES))

    def answer(self, mechanism: str, messages: Sequence[bytes]) -> Answered:
        """Returns the server's reply to the client's last message. `messages` are all messages of the exchange so far.

        So there is one message (client-first), or there are three, of which the last is client-final. Raises SaslError
        for a login that fails, or ApiError: INVALID_REQUEST if the messages are no such exchange,
        COORDINATOR_LOAD_IN_PROGRESS if this controller has not loaded its state yet.
        """
        self.check_loaded()
        number = scram_number(mechanism)
        if number is None:
            why = f"mechanism is {mechanism!r}; it is one of SCRAM-SHA-256, SCRAM-SHA-512"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "mechanism"})
        if len(messages) not in (1, 3):
            why = f"messages has {len(messages)}; there is one, or three of which the second is the server's"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "messages"})
        if len(messages) == 1:
            return Answered(message=self._exchange(number, secrets.token_urlsafe(NONCE_BYTES)).evaluate(messages[0]))
        first, server_first, final = messages
        exchange = self._exchange(number, _own_nonce(first, server_first))
        if exchange.evaluate(first) != server_first:
            raise SaslError("the credential has changed since the exchange began")
        return Answered(message=exchange.evaluate(final), login=exchange.login)

    def check_loaded(self) -> None:
        """Raises ApiError(COORDINATOR_LOAD_IN_PROGRESS) if this controller has not loaded its state yet."""
        if not self._is_loaded():
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this controller has not loaded its state yet")

    def check_live(self, login: Login | None) -> None:
        """Checks that a login is still valid; None, a call without credentials, always is.

        Raises ApiError(SASL_AUTHENTICATION_FAILED) if since the login, as may be in a long stream, its token has
        expired or was removed, or its password was changed or removed.
        """
        if login is None:
            return
        if login.expires_at_ms is not None and login.expires_at_ms <= self._wall_ms():
            why = f"the delegation token of the login {self._ended(login.expires_at_ms)}"
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
        if not login.is_in_force():
            what = "the delegation token has ended" if login.is_token else "the password was changed or taken away"
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{what} since the login")

    def by_token(self, token_id: str, password: str) -> Login | None:
        """Returns the login with a token by its HMAC in base64, which is its password; None if it fails. KIP-48."""
        found = self._live(token_id)
        if found is None:
            return None
        token, ends_at_ms = found
        expected = base64.b64encode(token_hmac(self._settings, token_id))
        if not hmac.compare_digest(expected, password.encode()):
            return None
        owner = Principal("User", parse_principal(token.owner).name)  # as in a SCRAM login
        return Login(
            principal=owner,
            is_token=True,
            expires_at_ms=ends_at_ms,
            is_in_force=lambda: self._live(token_id) is not None,
        )

    def by_credential(self, user: str, credential: UserScramCredentialRecord) -> Login:
        """Returns the login of a user who has proved the password of this credential.

        It is in force while the user has the same stored key for the mechanism.
        """
        mechanism, stored_key = credential.mechanism, credential.stored_key

        def is_in_force() -> bool:
            kept = self.credential(mechanism, user)
            return kept is not None and kept.stored_key == stored_key

        return Login(principal=Principal("User", user), is_in_force=is_in_force)

    def credential(self, mechanism: int, user: str) -> UserScramCredentialRecord | None:
        """Returns a user's SCRAM credential for a mechanism, by its number; None if there is none."""
        return self._credentials().get(mechanism, user)

    def _exchange(self, mechanism: int, nonce: str) -> ScramServer:
        return ScramServer(
            mechanism,
            nonce=lambda: nonce,
            find_user=lambda user: self.credential(mechanism, user),
            find_token=lambda token_id: self._token(mechanism, token_id),
        )

    def _live(self, token_id: str) -> tuple[DelegationTokenRecord, int] | None:
        """Returns a delegation token and its expiry (ms since 1970); None for an unknown or expired one (KIP-48)."""
        token, ends_at_ms = self._tokens().get(token_id), self._ends_at_ms(token_id)
        return None if token is None or ends_at_ms is None or ends_at_ms <= self._wall_ms() else (token, ends_at_ms)

    def _ended(self, ends_at_ms: int) -> str:
        now_ms = self._wall_ms()
        return f"ended {now_ms - ends_at_ms} ms ago by this node's clock, which says {now_ms} ms since 1970"

    def _ends_at_ms(self, token_id: str) -> int | None:
        """Returns when a token ends or has ended (ms since 1970); None for one that is not in the log."""
        token = self._tokens().get(token_id) if self._settings.are_on else None
        return None if token is None else min(token.expiration_timestamp, token.max_timestamp)

    def _token(self, mechanism: int, token_id: str) -> TokenCredential | None:
        """Raises SaslError for a token that has ended, with the clock by which it has: a client's may say otherwise."""
        found = self._live(token_id)
        if found is None:
            if (ends_at_ms := self._ends_at_ms(token_id)) is not None:
                raise SaslError(f"the delegation token {token_id!r} {self._ended(ends_at_ms)}")
            return None
        token, ends_at_ms = found
        return TokenCredential(
            owner=parse_principal(token.owner),
            credential=_of_token(mechanism, token_id, token_hmac(self._settings, token_id)),
            expires_at_ms=ends_at_ms,
        )


@lru_cache(maxsize=TOKENS_REMEMBERED)
def _of_token(mechanism: int, token_id: str, token_password: bytes) -> UserScramCredentialRecord:
    """Returns a token's keys. Their salt follows from its id, so that each message of an exchange finds the same.

    A salt hides that two users have one password (RFC 5802 section 2.1); here each password is an HMAC of its own.
    """
    return token_credential(mechanism, token_id, token_password, hashlib.sha256(token_id.encode()).digest())


def _own_nonce(first: bytes, server_first: bytes) -> str:
    """Returns what the server has added to the client's nonce. Raises SaslError."""
    client, both = ClientFirst.parse(first).nonce, ServerFirst.parse(server_first).nonce
    if not both.startswith(client) or both == client:
        raise SaslError("the server's first message does not continue the client's nonce")
    return both[len(client) :]
