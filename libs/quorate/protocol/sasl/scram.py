"""SCRAM-SHA-256 and SCRAM-SHA-512 for both sides, with passwords and delegation tokens. RFC 5802, RFC 7677, KIP-48.

The password is taken as its UTF-8 bytes, without SASLprep: Kafka's `ScramFormatter.normalize` does the same, and a
prepared password would have other keys than those in the log.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.controller.access.scram_keys import HASHES, ITERATIONS_MIN, salted_password, verifier_keys
from quorate.metadata.scram import MECHANISMS
from quorate.nouns import Principal
from quorate.protocol.sasl.mechanism import Login, SaslError
from quorate.protocol.sasl.plain import OTHER_AUTHORIZATION_ID
from quorate.protocol.sasl.scram_messages import (
    ClientFinal,
    ClientFirst,
    ServerFinal,
    ServerFirst,
    from_saslname,
    saslname,
)
from quorate.records import UserScramCredentialRecord

__all__ = ["TOKEN_AUTH", "ScramClient", "ScramServer", "TokenCredential", "scram_number", "token_credential"]

TOKEN_AUTH: Final = "tokenauth"
"""The extension by which a client says that its user name is a token's id. KIP-48."""
CLIENT_ITERATIONS_MAX: Final = 1_000_000
"""The most iterations that a server may ask of us: more are refused, or a false server could keep us busy for as long
as it likes."""

Nonce = Callable[[], str]
"""Returns printable ASCII without commas that nobody can guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredential:
    """A delegation token as a credential.

    `expires_at_ms`, in ms since 1970, is the earlier of its expiry time and the end of its lifetime.
    """

    owner: Principal
    credential: UserScramCredentialRecord
    expires_at_ms: int


FindUser = Callable[[str], UserScramCredentialRecord | None]
"""User name → its credential for the mechanism, or None."""
FindToken = Callable[[str], TokenCredential | None]
"""Token id → its credential for the mechanism, or None."""


def scram_number(mechanism: str) -> int | None:
    """Returns Kafka's number of a SCRAM mechanism: 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512, None for other names."""
    return next((number for number, name in MECHANISMS.items() if name == mechanism), None)


def token_credential(mechanism: int, token_id: str, token_hmac: bytes, salt: bytes) -> UserScramCredentialRecord:
    """Returns a token's SCRAM credential, whose password is the HMAC in base64. Kafka's DelegationTokenManager."""
    salted = salted_password(mechanism, base64.b64encode(token_hmac), salt, ITERATIONS_MIN)
    stored, server = verifier_keys(mechanism, salted)
    return UserScramCredentialRecord(
        name=token_id, mechanism=mechanism, salt=salt, stored_key=stored, server_key=server, iterations=ITERATIONS_MIN
    )


class ScramServer:
    """The server's side of one SCRAM login. The refusals are those of Kafka's ScramSaslServer."""

    def __init__(self, mechanism: int, *, nonce: Nonce, find_user: FindUser, find_token: FindToken) -> None:
        assert mechanism in MECHANISMS, mechanism
        self._mechanism = mechanism
        self._nonce = nonce
        self._find_user = find_user
        self._find_token = find_token
        self._open: tuple[ClientFirst, ServerFirst, UserScramCredentialRecord, Login] | None = None
        self.login: Login | None = None

    def evaluate(self, response: bytes) -> bytes:
        if self.login is not None:
            raise SaslError("a message came after the exchange was complete")
        return self._first(response) if self._open is None else self._final(response)

    def _first(self, response: bytes) -> bytes:
        first = ClientFirst.parse(response)
        user = from_saslname(first.saslname)
        credential, login = self._found(user, is_token=first.extensions.get(TOKEN_AUTH, "").lower() == "true")
        if from_saslname(first.authorization_id) not in ("", user):
            raise SaslError(OTHER_AUTHORIZATION_ID, client_message=OTHER_AUTHORIZATION_ID)
        if credential.iterations < ITERATIONS_MIN:
            raise SaslError(f"the credential has {credential.iterations} iterations, fewer than {ITERATIONS_MIN}")
        nonce = first.nonce + self._nonce()
        assert len(nonce) > len(first.nonce), "without a part of ours an old proof could be sent again (RFC 5802, 5.1)"
        server_first = ServerFirst.make(nonce=nonce, salt=credential.salt, iterations=credential.iterations)
        self._open = first, server_first, credential, login
        return bytes(server_first)

    def _found(self, user: str, *, is_token: bool) -> tuple[UserScramCredentialRecord, Login]:
        if not is_token:
            credential = self._find_user(user)
            if credential is None:
                raise SaslError("there is no such user, or it has no credential for this mechanism")
            return credential, Login(principal=Principal("User", user))
        token = self._find_token(user)
        if token is None:
            raise SaslError("there is no such delegation token")
        owner = Principal("User", token.owner.name)  # Kafka's principal builder makes a User of every owner
        return token.credential, Login(principal=owner, is_token=True, expires_at_ms=token.expires_at_ms)

    def _final(self, response: bytes) -> bytes:
        assert self._open is not None
        first, server_first, credential, login = self._open
        final = ClientFinal.parse(response)
        if final.nonce != server_first.nonce:
            raise SaslError("the final message has another nonce than the server's first")
        if final.channel != first.gs2_header.encode():
            raise SaslError("the final message has another channel binding than the first; RFC 5802 section 5.1")
        signed = _signed(first, server_first, final.unproven)
        signature = _hmac(self._mechanism, credential.stored_key, signed)
        client_key = _xor(final.proof, signature)
        if client_key is None or not hmac.compare_digest(_hash(self._mechanism, client_key), credential.stored_key):
            raise SaslError("the proof does not fit the credential")
        self.login = login
        return bytes(ServerFinal(signature=_hmac(self._mechanism, credential.server_key, signed)))


class ScramClient:
    """The client's side of one SCRAM login.

    `user` and `password` are those of a user, or the id of a delegation token and its HMAC in base64 (KIP-48).
    """

    def __init__(self, mechanism: int, user: str, password: str, *, nonce: Nonce, is_token: bool = False) -> None:
        self.name = MECHANISMS[mechanism]
        self._mechanism = mechanism
        self._password = password.encode()
        extensions = {TOKEN_AUTH: "true"} if is_token else {}
        self._first = ClientFirst(saslname=saslname(user), nonce=nonce(), extensions=extensions)
        self._expected: bytes | None = None
        self._has_begun = False

    def evaluate(self, challenge: bytes) -> bytes | None:
        if not self._has_begun:
            self._has_begun = True
            return bytes(self._first)
        if self._expected is None:
            return self._prove(challenge)
        self._check(challenge, self._expected)
        return None

    def _prove(self, challenge: bytes) -> bytes:
        server_first = ServerFirst.parse(challenge)
        if not server_first.nonce.startswith(self._first.nonce):
            raise SaslError("the server's nonce does not begin with ours")
        if not ITERATIONS_MIN <= server_first.iterations <= CLIENT_ITERATIONS_MAX:
            raise SaslError(
                f"the server asks for {server_first.iterations} iterations; accepted are {ITERATIONS_MIN} to "
                f"{CLIENT_ITERATIONS_MAX}"
            )
        salted = salted_password(self._mechanism, self._password, server_first.salt, server_first.iterations)
        stored_key, server_key = verifier_keys(self._mechanism, salted)
        unproven = ClientFinal.unproven_text(self._first, server_first.nonce)
        signed = _signed(self._first, server_first, unproven)
        self._expected = _hmac(self._mechanism, server_key, signed)
        proof = _xor(_hmac(self._mechanism, salted, b"Client Key"), _hmac(self._mechanism, stored_key, signed))
        assert proof is not None
        return bytes(ClientFinal(channel=b"", nonce=server_first.nonce, unproven=unproven, proof=proof))

    def _check(self, challenge: bytes, expected: bytes) -> None:
        final = ServerFinal.parse(challenge)
        if final.error is not None:
            raise SaslError(f"the server refuses: {final.error}")
        if not hmac.compare_digest(final.signature, expected):
            raise SaslError("the server's signature is wrong: it does not have this user's credential")


def _signed(first: ClientFirst, server_first: ServerFirst, unproven: str) -> bytes:
    """Returns AuthMessage of RFC 5802 section 3."""
    return f"{first.bare},{server_first.text},{unproven}".encode()


def _hash(mechanism: int, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()


def _hmac(mechanism: int, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _xor(one: bytes, other: bytes) -> bytes | None:
    """Returns the bytes that differ, or None if the lengths do."""
    if len(one) != len(other):
        return None
    return bytes(left ^ right for left, right in zip(one, other, strict=True))
