"""What is kept of a password under SCRAM: two keys, from neither of which it can be told. RFC 5802, RFC 7677."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from quorate.metadata.scram import MECHANISMS

__all__ = ["ITERATIONS_MAX", "ITERATIONS_MIN", "kept_keys", "salted_password"]

ITERATIONS_MIN: Final = 4096
"""As RFC 7677 asks for, and Kafka for both mechanisms."""
ITERATIONS_MAX: Final = 16384
"""As Kafka has it: each login costs a broker so many rounds."""

_HASHES: Final = {1: "sha256", 2: "sha512"}
assert _HASHES.keys() == MECHANISMS.keys(), MECHANISMS


def salted_password(mechanism: int, password: bytes, salt: bytes, iterations: int) -> bytes:
    """What a client makes of a password, and sends in its place (RFC 5802 section 3, SaltedPassword)."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password, salt, iterations)


def kept_keys(mechanism: int, salted: bytes) -> tuple[bytes, bytes]:
    """(StoredKey, ServerKey) of a salted password, RFC 5802 section 3; `mechanism` is a key of MECHANISMS.

    >>> salt = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
    >>> stored, _ = kept_keys(1, salted_password(1, b"pencil", salt, 4096))
    >>> stored.hex()
    '586e5df283e6dceb5c3e791d8b8528ec191e664045ce971792e2e6b5bb13e2a6'
    """
    name = _HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name)
