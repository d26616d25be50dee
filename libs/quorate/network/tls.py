"""TLS of one connection on the server's side, without a socket: the client's bytes in, what they say out.

asyncio's own TLS tells nobody why a handshake failed, and a connection counts for it only once the handshake is over.
Here both are the driver's to see: the reason goes to the log, and `max.connections` counts from the first byte.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any, Final

__all__ = ["TlsError", "TlsServer"]

CHUNK_BYTES: Final = 1 << 18
"""How much of the plain text is read at once; a TLS record has at most 16 KiB."""


class TlsError(Exception):
    """The client's bytes are not the TLS that this listener speaks, or its certificate is refused."""


class TlsServer:
    """The server's side of one TLS connection. The bytes for the client are in `data_to_send`, an alert among them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._received = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._out, server_side=True)
        self.is_ready = False
        """Whether the handshake is over."""
        self.has_ended = False
        """Whether the client has said that nothing more comes (close_notify)."""

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate as DER; None if it has sent none. It is verified."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def uris(self) -> tuple[str, ...]:
        """The URIs among the names in the client's certificate; a SPIFFE id is one."""
        names: Any = (self._tls.getpeercert() or {}).get("subjectAltName", ())  # typed for all fields at once
        return tuple(str(name) for kind, name in names if kind == "URI")

    def receive_data(self, data: bytes | memoryview) -> bytes:
        """Takes bytes from the client and returns the plain text in them; what TLS answers goes to `data_to_send`.

        It sets `is_ready` and `has_ended`. Raises TlsError: then the alert for the client is in `data_to_send`.
        """
        self._received.write(data)
        try:
            if not self.is_ready:
                self._tls.do_handshake()
                self.is_ready = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as problem:
            what = "TLS failed" if self.is_ready else "the TLS handshake failed"
            raise TlsError(f"{what}: {_reason(problem)}") from None

    def send(self, data: bytes) -> None:
        """Encrypts bytes for the client, into `data_to_send`. The handshake must be over."""
        assert self.is_ready, "a handshake is under way"
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]

    def close(self) -> None:
        """Adds close_notify to `data_to_send`, and does not wait for the client's. RFC 8446 section 6.1."""
        if self.is_ready:
            with suppress(ssl.SSLError):
                self._tls.unwrap()

    def data_to_send(self) -> bytes:
        """Returns the bytes that go to the client now, and takes them away: each is returned once."""
        return self._out.read()

    def _read(self) -> bytes:
        """Returns all plain text that is there. Raises ssl.SSLError for bytes that were changed on the way."""
        found = []
        try:
            while piece := self._tls.read(CHUNK_BYTES):
                found.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.has_ended = True
        return b"".join(found)


def _reason(problem: ssl.SSLError) -> str:
    """Returns OpenSSL's reason in small letters, with what it says of a certificate."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {problem.verify_message}"
    return (problem.reason or problem.strerror or str(problem)).lower().replace("_", " ")
