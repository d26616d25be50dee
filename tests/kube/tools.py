"""Kafka's tools for a release's gateways: what they are called, and how they are let in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.kube.places import STATE
from tests.kube.release import Release
from tests.network.certificates import openssl_says

TOOLS: Final = "org.apache.kafka.tools."


def by_certificate(release: Release) -> Path:
    """The properties of a tool that shows the admin's certificate."""
    certificate, truststore = release.certificate()
    # Java takes a key as PKCS #8 alone; Helm makes it in the older form.
    keystore = STATE / "tool.pem"
    key, begin = openssl_says("pkcs8", "-topk8", "-nocrypt", "-in", certificate), "-----BEGIN CERTIFICATE-----"
    keystore.write_text(key + begin + certificate.read_text().partition(begin)[2])
    config = STATE / "tool.properties"
    config.write_text(
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={keystore}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={truststore}\n"
    )
    return config
