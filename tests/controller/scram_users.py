"""SCRAM credentials of users, as records: what is kept of a salted password, reckoned apart from our own code."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from quorate.records import UserScramCredentialRecord
from tests.controller.clusters import Cluster

__all__ = ["SALT", "SALTED", "SHA_256", "SHA_512", "credential", "no_credentials", "two_users"]

SHA_256, SHA_512 = 1, 2
HASHES: Final = {SHA_256: "sha256", SHA_512: "sha512"}
SALT, SALTED = b"salt", b"salted password"


def credential(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = SALT
) -> UserScramCredentialRecord:
    """The keys of `SALTED` (RFC 5802 section 3)."""
    algorithm = HASHES[mechanism]
    client_key = hmac.new(SALTED, b"Client Key", algorithm).digest()
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.new(SALTED, b"Server Key", algorithm).digest(),
        iterations=iterations,
    )


def no_credentials() -> Cluster:
    """No credentials; the level is 4.4-IV2."""
    return Cluster(33)


def two_users() -> Cluster:
    """bob: SCRAM-SHA-512 of 8192 iterations, SCRAM-SHA-256 of 4096; alice: SCRAM-SHA-256 of 4096."""
    cluster = no_credentials()
    cluster.apply([credential("bob", SHA_512, 8192), credential("bob"), credential("alice")])
    return cluster
