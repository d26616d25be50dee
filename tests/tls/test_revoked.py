"""The file of revoked certificates: openssl's lines as they are, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.runtime.connections.transport import Transport
from quorate.runtime.settings.config import ConfigError
from quorate.tls.revoked import fingerprint, read_revoked
from tests.network.certificates import authority, openssl_says

ONE = "AB:" * 31 + "AB"


def test_openssls_line_is_the_certificates_own_fingerprint(tmp_path: Path) -> None:
    store = authority(tmp_path).issue("lost", "/CN=lost")
    begin = store.read_bytes().index(b"-----BEGIN CERTIFICATE-----")
    end = store.read_bytes().index(b"-----END CERTIFICATE-----")
    pem = store.read_bytes()[begin:end] + b"-----END CERTIFICATE-----\n"
    file = tmp_path / "revoked"
    file.write_text("# a comment\n\n" + openssl_says("x509", "-noout", "-fingerprint", "-sha256", "-in", store))

    assert {fingerprint(pem)} == read_revoked(file)


@pytest.mark.parametrize(
    "text", [ONE, ONE.lower(), ONE.replace(":", ""), f"  {ONE}\n\n# more\n", f"{ONE}\n{ONE.lower()}"]
)
def test_colons_and_case_do_not_matter(tmp_path: Path, text: str) -> None:
    file = tmp_path / "revoked"
    file.write_text(text)

    assert {"ab" * 32} == read_revoked(file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alice", "line 1 is 'alice'; a line is a SHA-256 fingerprint, 64 hexadecimal digits, or a comment after #"),
        (f"{ONE}\n{ONE}:AB", "line 2 is"),
        ("\u00e9", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_no_start(tmp_path: Path, text: str | None, says: str) -> None:
    issuer = authority(tmp_path)
    file = tmp_path / "revoked"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        Transport(keystore=issuer.issue("node", "/CN=node"), truststore=issuer.certificate, revoked=file)

    assert f"ssl.revoked.certificates.location = {file}: " in str(refused.value)
    assert says in str(refused.value)
