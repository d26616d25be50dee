"""Kafka's security protocols: what each adds to Kafka's protocol, and its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["SECURITY_PROTOCOLS", "SecurityProtocol"]


class SecurityProtocol(NamedTuple):
    """A security protocol; `id` is its number in the records of brokers and controllers."""

    id: int
    with_tls: bool
    with_sasl: bool


SECURITY_PROTOCOLS: Final[Mapping[str, SecurityProtocol]] = {
    "PLAINTEXT": SecurityProtocol(0, with_tls=False, with_sasl=False),
    "SSL": SecurityProtocol(1, with_tls=True, with_sasl=False),
    "SASL_PLAINTEXT": SecurityProtocol(2, with_tls=False, with_sasl=True),
    "SASL_SSL": SecurityProtocol(3, with_tls=True, with_sasl=True),
}
"""By the name that settings have."""
