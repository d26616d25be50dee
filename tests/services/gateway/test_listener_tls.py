"""The certificates of a gateway's listener while their files change: taken, refused, and no longer trusted."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from quorate.listeners.tls import ListenerTls
from quorate.network.tls import TlsError, TlsServer
from quorate.tls.listener_tls import listener_tls
from tests.network.certificates import Authority, authority


class Handshake:
    """A client and a server in memory."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self._received, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = client.wrap_bio(self._received, self._out, server_hostname="localhost")
        self._server = TlsServer(server)

    def made(self) -> bytes:
        """Makes it, and returns the server's certificate. Raises TlsError if the server refuses the client."""
        while not self._server.is_ready:
            with suppress(ssl.SSLWantReadError):
                self._client.do_handshake()
            self._server.receive_data(self._out.read())
            self._received.write(self._server.data_to_send())
        certificate = self._client.getpeercert(binary_form=True)
        assert certificate is not None
        return certificate


@pytest.fixture
def issuer(tmp_path: Path) -> Authority:
    return authority(tmp_path, "first")


@pytest.fixture
def files(tmp_path: Path, issuer: Authority) -> tuple[Path, Path]:
    """Key store and trust store of the listener."""
    keystore, truststore = tmp_path / "store.pem", tmp_path / "trusted.pem"
    keystore.write_bytes(issuer.issue("server", "/CN=localhost").read_bytes())
    truststore.write_bytes(issuer.certificate.read_bytes())
    return keystore, truststore


def reader(keystore: Path, truststore: Path) -> Callable[[], ssl.SSLContext]:
    return lambda: listener_tls(keystore=keystore, truststore=truststore, client_auth="required")


def client(issuer: Authority, shows: Authority) -> ssl.SSLContext:
    return issuer.client(shows.issue("client", "/CN=client"))


def test_the_next_connection_has_the_new_certificate(issuer: Authority, files: tuple[Path, Path]) -> None:
    tls = ListenerTls("SECURE", files, reader(*files))
    first = Handshake(tls(), client(issuer, issuer)).made()

    tls.look()
    unchanged = tls()
    files[0].write_bytes(issuer.issue("next", "/CN=localhost").read_bytes())
    tls.look()
    second = Handshake(tls(), client(issuer, issuer)).made()

    assert first != second
    assert first == Handshake(unchanged, client(issuer, issuer)).made()


def test_an_authority_that_is_no_longer_trusted_is_refused(
    tmp_path: Path, issuer: Authority, files: tuple[Path, Path]
) -> None:
    other = authority(tmp_path, "second")
    tls = ListenerTls("SECURE", files, reader(*files))

    files[1].write_bytes(other.certificate.read_bytes())
    tls.look()

    assert Handshake(tls(), client(issuer, other)).made()
    with pytest.raises(TlsError):
        Handshake(tls(), client(issuer, issuer)).made()


@pytest.mark.parametrize("content", [b"", b"no PEM", None])
def test_files_that_are_not_as_they_should_be_are_told_of_once(
    issuer: Authority, files: tuple[Path, Path], content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ListenerTls("SECURE", files, reader(*files))
    in_use = tls()

    if content is None:
        files[0].unlink()
    else:
        files[0].write_bytes(content)
    tls.look()
    tls.look()

    assert tls() is in_use
    (told,) = [each for each in caplog.messages if "is not taken" in each]
    assert "the old one stays" in told

    files[0].write_bytes(issuer.issue("mended", "/CN=localhost").read_bytes())
    tls.look()
    assert tls() is not in_use


def test_files_that_could_not_be_read_are_taken_once_they_can(
    issuer: Authority, files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A change of mode or owner changes neither size nor time of change."""
    read, may_read = reader(*files), True

    def read_if_allowed() -> ssl.SSLContext:
        if not may_read:
            raise ValueError("Permission denied")
        return read()

    tls = ListenerTls("SECURE", files, read_if_allowed)
    first = Handshake(tls(), client(issuer, issuer)).made()
    may_read = False
    files[0].write_bytes(issuer.issue("next", "/CN=localhost").read_bytes())
    tls.look()
    tls.look()
    assert 1 == sum("is not taken" in each for each in caplog.messages)

    may_read = True
    tls.look()

    assert first != Handshake(tls(), client(issuer, issuer)).made()
