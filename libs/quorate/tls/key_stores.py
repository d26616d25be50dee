"""A key store and a trust store for gRPC, which takes bytes and says little of what is wrong with them.

They are tried first: a server and a client with these files make a handshake in memory. So a certificate that has
expired, that no certificate of the trust store has signed, or that may not be a server's or a client's has a reason
here, in the same words that OpenSSL has for it.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quorate.tls.listener_tls import listener_tls

__all__ = ["Stores", "read_stores"]

TLS_1_3: Final = ("TLSv1.3",)
ROUNDS_MAX: Final = 10
"""More turns than a handshake takes: each side has at most two flights. RFC 8446 section 2."""
ENCRYPTED: Final = b"ENCRYPTED"
"""In the first line of an encrypted private key (PKCS #8, RFC 7468), or its second (RFC 1421)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The content of a key store and a trust store (PEM), read at a moment at which they fitted each other."""

    keystore: bytes = field(repr=False)
    """A private key, not encrypted, and its certificates after it."""
    truststore: bytes = field(repr=False)
    """The certificates of those who may issue certificates to peers."""
    expires_at: int
    """When the certificate ends, in seconds since 1970."""
    subject: str
    """Whose the certificate is, for the log."""


def read_stores(keystore: Path, truststore: Path) -> Stores:
    """Reads both files and tries them with a TLS 1.3 handshake in memory.

    Raises ValueError, which names the setting, the file and the reason: it cannot be read, the private key is
    encrypted, a certificate is refused, or a file was written meanwhile.
    """
    key, trust = _bytes(keystore, "ssl.keystore.location"), _bytes(truststore, "ssl.truststore.location")
    if ENCRYPTED in key:
        raise _unfit(keystore, "its private key is encrypted; gRPC takes no password, so the file's mode protects it")
    server = listener_tls(keystore=keystore, truststore=truststore, client_auth="required", protocols=TLS_1_3)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    client.check_hostname = False  # which name a peer is called by is for the peer to check
    was_written = _unfit(keystore, f"it or ssl.truststore.location = {truststore} was written while they were read")
    try:
        client.load_verify_locations(truststore)
        client.load_cert_chain(keystore)
        found = _shake_hands(server, client, keystore, truststore)
        is_same = (key, trust) == (keystore.read_bytes(), truststore.read_bytes())
    except OSError:  # the server has just read the same
        raise was_written from None
    if not is_same:
        raise was_written
    expires_at = ssl.cert_time_to_seconds(str(found["notAfter"]))
    return Stores(keystore=key, truststore=trust, expires_at=expires_at, subject=_name(found))


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, keystore: Path, truststore: Path) -> dict[str, object]:
    """Has the two make a handshake, and returns the server's certificate. Raises ValueError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = {
        "client": client.wrap_bio(to_client, to_server, server_side=False),
        "server": server.wrap_bio(to_server, to_client, server_side=True),
    }
    pending = dict(sides)
    for _ in range(ROUNDS_MAX):
        for name, side in list(pending.items()):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as problem:
                shown = "server" if name == "client" else "client"
                reason = getattr(problem, "verify_message", "") or problem.reason or str(problem)
                why = f"a {name} with ssl.truststore.location = {truststore} refuses it as a {shown}'s: {reason}"
                raise _unfit(keystore, why) from None
            del pending[name]
    assert not pending, pending
    return dict(sides["client"].getpeercert() or {})


def _name(certificate: dict[str, object]) -> str:
    """Returns the subject with commas, the first part first: for people, not for ACLs."""
    subject: object = certificate.get("subject", ())
    assert isinstance(subject, tuple)
    return ", ".join(f"{kind}={value}" for part in subject for kind, value in part)


def _bytes(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise ValueError(f"{setting} = {path}: {problem.strerror}") from None


def _unfit(keystore: Path, why: str) -> ValueError:
    return ValueError(f"ssl.keystore.location = {keystore}: {why}")
