"""SCRAM credentials: derives the two keys that a server stores in place of a password. RFC 5802, RFC 7677."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from quorate.metadata.scram import MECHANISMS

__all__ = ["HASHES", "ITERATIONS_MAX", "ITERATIONS_MIN", "salted_password", "verifier_keys"]

ITERATIONS_MIN: Final = 4096
"""The minimum of PBKDF2 iterations: RFC 7677's, and Kafka's for both mechanisms."""
ITERATIONS_MAX: Final = 16384
"""The maximum of PBKDF2 iterations, as in Kafka, since a broker computes them at each login."""
assert ITERATIONS_MIN <= ITERATIONS_MAX, (ITERATIONS_MIN, ITERATIONS_MAX)

HASHES: Final = {1: "sha256", 2: "sha512"}
assert HASHES.keys() == MECHANISMS.keys(), MECHANISMS
assert set(HASHES.values()) <= hashlib.algorithms_guaranteed, HASHES


def salted_password(mechanism: int, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Returns the SaltedPassword (RFC 5802 section 3), which an admin client sends in place of a new password.

    `mechanism` is a key of MECHANISMS: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512.
    """
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def verifier_keys(mechanism: int, salted: bytes) -> tuple[bytes, bytes]:
    """Returns (StoredKey, ServerKey), which a server stores in place of a password (RFC 5802 section 3).

    `salted` is the salted password; `mechanism` is a key of MECHANISMS.

    >>> salt = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
    >>> stored, _ = verifier_keys(1, salted_password(1, b"pencil", salt, 4096))
    >>> stored.hex()
    '586e5df283e6dceb5c3e791d8b8528ec191e664045ce971792e2e6b5bb13e2a6'
    """
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name)
