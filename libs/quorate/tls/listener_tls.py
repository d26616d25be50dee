"""The TLS of a listener from its PEM files, under the names of Kafka's `ssl.*` settings."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["CLIENT_AUTH", "TLS_VERSIONS", "listener_tls"]

CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
"""`ssl.client.auth`: whether a client has to show a certificate, may, or is not asked for one."""
TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""`ssl.enabled.protocols`, the older first."""


def listener_tls(
    *,
    keystore: Path,
    key_password: str = "",
    truststore: Path | None = None,
    client_auth: str = "none",
    protocols: Sequence[str] = tuple(TLS_VERSIONS),
) -> ssl.SSLContext:
    """Returns the SSL context of a listener. The key store has the private key and the certificates after it.

    Raises ValueError, which names the setting and the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    enabled = [version for name, version in TLS_VERSIONS.items() if name in protocols]
    context.minimum_version, context.maximum_version = enabled[0], enabled[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # Without a function OpenSSL would ask for the password at the terminal.
        context.load_cert_chain(keystore, password=lambda: key_password)
    except OSError as problem:
        what = "a private key that ssl.key.password opens," if key_password else "a private key"
        raise ValueError(
            f"ssl.keystore.location = {keystore}: {_reason(problem)}; it must have, as PEM, {what} and its certificates"
        ) from None
    if truststore is not None:
        try:
            context.load_verify_locations(truststore)
        except OSError as problem:
            why = f"ssl.truststore.location = {truststore}: {_reason(problem)}; it must have certificates, as PEM"
            raise ValueError(why) from None
    context.verify_mode = CLIENT_AUTH[client_auth]
    return context


def _reason(problem: OSError) -> str:
    """Returns why a file is not taken: the system's reason, or OpenSSL's."""
    if isinstance(problem, ssl.SSLError):
        return (problem.reason or "no PEM that can be read").lower().replace("_", " ").replace("pem", "PEM")
    return problem.strerror or str(problem)
