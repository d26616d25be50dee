"""Certificates for tests, made by openssl: an authority, and those that it issues."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DAYS: Final = "2"
NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
HERE: Final = "DNS:localhost,IP:127.0.0.1"
OPENSSL_S: Final = 240


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others; all its files are in one directory."""

    directory: Path
    name: str = "authority"

    @property
    def certificate(self) -> Path:
        return self.directory / f"{self.name}.pem"

    @property
    def _key(self) -> Path:
        return self.directory / f"{self.name}-key.pem"

    def issue(self, name: str, subject: str, *more: str, password: str = "", days: str = DAYS, at: str = HERE) -> Path:
        """The key store of a new certificate: key and chain in one PEM file. `subject` is openssl's, as /O=x/CN=y.

        With less than no `days` it has expired. `at` are its subject alternative names.
        """
        key, request, certificate = (
            self.directory / f"{name}-{part}.pem" for part in ("key", "request", "certificate")
        )
        hidden = ("-passout", f"pass:{password}") if password else ("-nodes",)
        names = ("-subj", subject, "-addext", f"subjectAltName={at}", *more)
        openssl("req", "-new", *NEW_KEY, *hidden, "-utf8", *names, "-keyout", key, "-out", request)
        signer = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-copy_extensions", "copy")
        openssl("x509", "-req", "-in", request, "-days", days, *signer, "-out", certificate)
        store = self.directory / f"{name}.pem"
        store.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        return store

    def client(self, keystore: Path | None = None) -> ssl.SSLContext:
        """TLS for a client that trusts this authority, and shows the certificate of a key store."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if keystore is not None:
            context.load_cert_chain(keystore)
        return context


def authority(directory: Path, name: str = "authority") -> Authority:
    """A new one."""
    made = Authority(directory, name)
    openssl(
        "req", "-x509", *NEW_KEY, "-nodes", "-days", DAYS, "-subj", f"/CN={name}",
        "-keyout", directory / f"{name}-key.pem", "-out", made.certificate,
    )  # fmt: skip
    return made


def der(keystore: Path) -> bytes:
    """The first certificate of a PEM file."""
    text = keystore.read_text()
    begin, end = text.index("-----BEGIN CERTIFICATE-----"), text.index("-----END CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(text[begin : end + len("-----END CERTIFICATE-----\n")])


def openssl(*arguments: object) -> None:
    openssl_says(*arguments)


def openssl_says(*arguments: object) -> str:
    """What a command of openssl prints."""
    done = subprocess.run(
        ["openssl", *map(str, arguments)], check=False, capture_output=True, text=True, timeout=OPENSSL_S
    )

    assert done.returncode == 0, done.stderr
    return done.stdout
