"""A client's properties by Kafka's names: what they lead to, and which are refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from quorate.network.client_config import parse_bootstrap, parse_client_config
from quorate.protocol.sasl.plain import PlainClient
from quorate.protocol.sasl.scram import ScramClient
from tests.network.test_network import contexts

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def test_without_properties_it_is_kafkas_defaults() -> None:
    config = parse_client_config({"some.serializer": "unknown here"})

    assert (None, None) == (config.tls, config.begin)
    assert (30_000, 10_000, 60_000) == (
        config.timeouts.request_ms,
        config.timeouts.connect_ms,
        config.api_timeout_ms,
    )


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "sasl_ssl"])
def test_a_login_with_a_password_in_quotes(protocol: str) -> None:
    properties = {"security.protocol": protocol, "sasl.mechanism": "SCRAM-SHA-512"}
    config = parse_client_config(
        {**properties, "sasl.jaas.config": f'{SCRAM} username="a;\\"b" password=\'x y\' tokenauth="true";'}
    )

    assert config.begin is not None
    client = config.begin()
    assert isinstance(client, ScramClient)
    assert (client.evaluate(b"") or b"").startswith(b'n,,n=a;"b,r=')
    assert (config.tls is not None) == (protocol == "sasl_ssl")


def test_plain() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username=u password="p";'
    config = parse_client_config(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    )

    assert config.begin is not None
    client = config.begin()
    assert isinstance(client, PlainClient)
    assert client.evaluate(b"") == b"\0u\0p"


def test_tls_with_pem_files(tmp_path: Path) -> None:
    contexts(tmp_path)
    both = tmp_path / "both.pem"
    both.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "certificate.pem").read_text())
    stores = {
        f"ssl.{store}.{name}": value
        for store, file in (("truststore", tmp_path / "certificate.pem"), ("keystore", both))
        for name, value in (("type", "PEM"), ("location", str(file)))
    }
    config = parse_client_config({"security.protocol": "SSL", **stores})
    trusting = parse_client_config({"security.protocol": "SSL", **stores, "ssl.endpoint.identification.algorithm": ""})

    assert isinstance(config.tls, ssl.SSLContext)
    assert config.tls.check_hostname
    assert trusting.tls is not None
    assert not trusting.tls.check_hostname


def test_what_is_between_certificates_may_be_in_any_language(tmp_path: Path) -> None:
    """`openssl s_client -showcerts` prints the subject before each; Kafka's clients read only the certificates."""
    contexts(tmp_path)
    certificates = "subject=O=Müller\n" + (tmp_path / "certificate.pem").read_text()

    config = parse_client_config({"security.protocol": "SSL", "ssl.truststore.certificates": certificates})

    assert config.tls is not None
    assert 1 == len(config.tls.get_ca_certs())


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"security.protocol": "HTTPS"}, "security.protocol is 'HTTPS'; it is one of PLAINTEXT, SSL"),
        ({"request.timeout.ms": "0"}, "request.timeout.ms is '0'; it is a number of ms from 1 on"),
        ({"request.timeout.ms": "-5"}, "request.timeout.ms is '-5'"),
        ({"socket.connection.setup.timeout.ms": "ten"}, "socket.connection.setup.timeout.ms is 'ten'"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/a.jks"},
            "ssl.truststore.type is JKS; only PEM is read here",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/nowhere.pem"},
            "ssl.truststore.location is '/nowhere.pem'; it cannot be loaded: No such file or directory",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": "none"},
            "ssl.truststore.certificates; it cannot be loaded: no start line",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/a\0b"},
            "ssl.truststore.location is '/a\\x00b'; it cannot be loaded: embedded null byte",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "ü"}, "ssl.truststore.certificates; it cannot"),
        (
            {"client.id": "é" * 16_384},
            "client.id has 32768 bytes of UTF-8; a request has room for 32767",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": __file__},
            f"ssl.keystore.location is {__file__!r}; it cannot be loaded: ",
        ),
        ({"sasl.mechansim": "PLAIN"}, "sasl.mechansim is not read here; did you mean sasl.mechanism?"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols is not read here"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is 'GSSAPI'; it is one of PLAIN, SCRAM"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config has no username and no password",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'x required username="u" password="very-secret"',
            },
            "sasl.jaas.config: it is like",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_no_secret_is_shown(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011  # its words are compared
        parse_client_config(properties)

    assert says in str(refusal.value)
    assert "very-secret" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "host", "host:", "host:0", "host:65536", ":9", "a:1,,b:2", "a b:1"])
def test_a_bootstrap_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_bootstrap(text)
