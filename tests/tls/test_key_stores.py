"""Key stores and trust stores for gRPC: what does not fit is refused with its file and a reason, before it is used."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from quorate.tls.key_stores import read_stores
from tests.network.certificates import Authority, authority

CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
DAY_S: Final = 24 * 3600

Made = Callable[[Authority], Path]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


def with_the_key_of_another(issuer: Authority) -> Path:
    key, certificate = issuer.issue("one", "/CN=one").read_text(), issuer.issue("two", "/CN=two").read_text()
    mixed = issuer.directory / "mixed.pem"
    mixed.write_text(key[: key.index(CERTIFICATE)] + certificate[certificate.index(CERTIFICATE) :])
    return mixed


def cut_short(issuer: Authority) -> Path:
    """As a writer leaves it that does not rename."""
    cut = issuer.directory / "cut.pem"
    whole = issuer.issue("whole", "/CN=whole").read_text()
    cut.write_text(whole[: whole.index(CERTIFICATE) + 100])
    return cut


def of_another_authority(issuer: Authority) -> Path:
    return authority(issuer.directory, "another").issue("foreign", "/CN=foreign")


def that_says(name: str, *more: str, **kind: str) -> Made:
    return lambda issuer: issuer.issue(name, f"/CN={name}", *more, **kind)


NO_KEY: Final = "it must have, as PEM, a private key and its certificates"

BAD: Final[dict[str, tuple[Made, str]]] = {
    "none": (lambda issuer: issuer.directory / "none.pem", "No such file or directory"),
    "a directory": (lambda issuer: issuer.directory, "Is a directory"),
    "certificates alone": (lambda issuer: issuer.certificate, NO_KEY),
    "cut short": (cut_short, NO_KEY),
    "the key of another certificate": (with_the_key_of_another, f"key values mismatch; {NO_KEY}"),
    "an encrypted key": (that_says("locked", password="secret"), "its private key is encrypted"),
    "expired": (that_says("old", days="-1"), "refuses it as a server's: certificate has expired"),
    "of another authority": (of_another_authority, "refuses it as a server's: self-signed certificate in certificate"),
    "for clients alone": (
        that_says("client", "-addext", "extendedKeyUsage=clientAuth"),
        "refuses it as a server's: unsuitable certificate purpose",
    ),
    "for servers alone": (
        that_says("server", "-addext", "extendedKeyUsage=serverAuth"),
        "refuses it as a client's: unsuitable certificate purpose",
    ),
}


@pytest.mark.parametrize(("made", "why"), BAD.values(), ids=BAD)
def test_a_key_store_that_does_not_fit_is_named(issuer: Authority, made: Made, why: str) -> None:
    keystore = made(issuer)

    with pytest.raises(ValueError, match=r"^ssl\.keystore\.location = ") as refused:
        read_stores(keystore, issuer.certificate)
    assert str(keystore) in str(refused.value)
    assert why in str(refused.value)


def test_a_trust_store_that_is_none_is_named(issuer: Authority, tmp_path: Path) -> None:
    keystore = issuer.issue("node", "/CN=node")
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")

    with pytest.raises(ValueError, match=r"^ssl\.truststore\.location = .*none\.pem: No such file or directory$"):
        read_stores(keystore, tmp_path / "none.pem")
    with pytest.raises(ValueError, match=r"^ssl\.truststore\.location = .*empty\.pem: .* must have certificates"):
        read_stores(keystore, empty)


def test_both_are_told_of_as_they_are_but_for_their_bytes(issuer: Authority) -> None:
    keystore = issuer.issue("node", "/O=cluster/CN=node")
    stores = read_stores(keystore, issuer.certificate)

    assert (keystore.read_bytes(), issuer.certificate.read_bytes()) == (stores.keystore, stores.truststore)
    assert "organizationName=cluster, commonName=node" == stores.subject
    assert 1 * DAY_S < stores.expires_at - time.time() < 3 * DAY_S
    assert "PRIVATE" not in repr(stores)
