"""Certificates that are revoked, by their fingerprints: a caller with one is refused, whatever authority has issued
it."""

from __future__ import annotations

import hashlib
import re
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final

__all__ = ["fingerprint", "read_revoked"]

SETTING: Final = "ssl.revoked.certificates.location"
FINGERPRINT: Final = re.compile(r"(?:sha256 fingerprint=)?((?:[0-9a-f]{2}:?){31}[0-9a-f]{2})")
CERTIFICATES_CACHED: Final = 1_000
"""Certificates whose fingerprints are cached: so many callers at a time."""


def read_revoked(file: Path) -> frozenset[str]:
    """Returns the fingerprints in a file: one a line, as `openssl x509 -noout -fingerprint -sha256` prints them.

    Colons and case do not matter; a line that begins with # is a comment. Raises ValueError, which names the setting,
    the file, the line and the rule.
    """
    try:
        lines = file.read_text("ascii").splitlines()
    except (OSError, ValueError) as problem:
        raise ValueError(f"{SETTING} = {file}: cannot be read: {problem}") from None
    found = set()
    for number, line in enumerate(lines, start=1):
        text = line.strip().lower()
        if not text or text.startswith("#"):
            continue
        match = FINGERPRINT.fullmatch(text)
        if match is None:
            rule = "a line is a SHA-256 fingerprint, 64 hexadecimal digits, or a comment after #"
            raise ValueError(f"{SETTING} = {file}: line {number} is {line.strip()[:100]!r}; {rule}")
        found.add(match[1].replace(":", ""))
    return frozenset(found)


@lru_cache(CERTIFICATES_CACHED)
def fingerprint(certificate: bytes) -> str:
    """Returns the SHA-256 fingerprint of a certificate as PEM, 64 hexadecimal digits."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii"))).hexdigest()
