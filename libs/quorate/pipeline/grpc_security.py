"""How a reader calls quorum nodes and observers over gRPC: by TLS with a certificate, or in the clear."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from quorate.network.client_config import check_read
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS

__all__ = ["SECURITY", "StoreFiles", "parse_security"]

_PROTOCOL: Final = "security.protocol"
_KEYSTORE: Final = "ssl.keystore"
_TRUSTSTORE: Final = "ssl.truststore"
SECURITY: Final = (
    _PROTOCOL,
    f"{_KEYSTORE}.location",
    f"{_KEYSTORE}.type",
    f"{_TRUSTSTORE}.location",
    f"{_TRUSTSTORE}.type",
)
"""The properties of a Kafka client that are read; others about security are refused."""
_SPOKEN: Final = [name for name, protocol in SECURITY_PROTOCOLS.items() if not protocol.with_sasl]


class StoreFiles(NamedTuple):
    """PEM files: the private key and its certificates, and the certificates of those who issue to servers."""

    keystore: Path
    truststore: Path


def parse_security(properties: Mapping[str, str]) -> StoreFiles | None:
    """Returns the files for TLS; None for calls in the clear, which is Kafka's default. The files are not opened.

    Raises ValueError with the property.
    """
    check_read(properties, SECURITY)
    protocol = properties.get(_PROTOCOL, "PLAINTEXT").upper()
    if protocol not in _SPOKEN:
        raise ValueError(f"{_PROTOCOL} is {protocol!r}; over gRPC it is one of {', '.join(_SPOKEN)}")
    with_tls = SECURITY_PROTOCOLS[protocol].with_tls
    found = {store: properties.get(f"{store}.location") for store in (_KEYSTORE, _TRUSTSTORE)}
    for store, file in found.items():
        if (kind := properties.get(f"{store}.type", "PEM").upper()) != "PEM":
            raise ValueError(f"{store}.type is {kind}; only PEM is read here (keytool and openssl convert it)")
        if with_tls and not file:
            raise ValueError(f"{store}.location is missing; {_PROTOCOL} is {protocol}, with certificates on both sides")
        if file and not with_tls:
            raise ValueError(f"{store}.location is {file!r}, and {_PROTOCOL} is {protocol}: it would have no effect")
    keystore, truststore = found[_KEYSTORE], found[_TRUSTSTORE]
    return StoreFiles(Path(keystore), Path(truststore)) if keystore and truststore else None
