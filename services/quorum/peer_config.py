"""How this node connects to peers that speak Kafka's wire: the settings of a listener, by Kafka's names.

Kafka controllers connect to each other with the settings of their own listener. Our node's listener for Kafka's wire is
its gateway's, so the file may be that of the gateway, or that of a Kafka controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.network import jaas
from quorate.network.client_config import ClientConfig, is_unread, parse_client_config
from quorate.protocol.sasl.plain import PLAIN
from quorate.protocol.sasl.scram import scram_number
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS

__all__ = ["CONTROLLER_MECHANISM", "peer_config"]

CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
"""The mechanism by which controllers log in at each other; its JAAS configuration has its name before it."""

_CREDENTIALS: Final = ("username", "password")
_JAAS: Final = "sasl.jaas.config"
_STORE_TYPES: Final = ("ssl.keystore.type", "ssl.truststore.type")


def peer_config(properties: Mapping[str, str], *, listener: str, protocol: str) -> ClientConfig:
    """Returns the client configuration (TLS, SASL) for peers' listeners of this name and Kafka security protocol.

    A property with `listener.name.<listener>.` before it counts more than without. Without
    `sasl.mechanism.controller.protocol` the properties are those of a Kafka client. Raises ValueError, which names the
    property, for one that is wrong or missing.
    """
    prefix = f"listener.name.{listener.lower()}."
    own = {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}
    stores = dict.fromkeys(_STORE_TYPES, "PEM") if CONTROLLER_MECHANISM in properties or own else {}
    of_listener = {**stores, **properties, **own, "security.protocol": protocol}
    if SECURITY_PROTOCOLS[protocol].with_sasl and CONTROLLER_MECHANISM in of_listener:
        of_listener |= _login(of_listener, prefix)
    return parse_client_config({name: value for name, value in of_listener.items() if not is_unread(name)})


def _login(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Returns a client's properties for the login of a controller. Raises ValueError, which shows no secret."""
    mechanism = properties[CONTROLLER_MECHANISM]
    if mechanism != PLAIN and scram_number(mechanism) is None:
        raise ValueError(f"{CONTROLLER_MECHANISM} is {mechanism!r}; it is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512")
    key = f"{mechanism.lower()}.{_JAAS}"
    if key not in properties:
        raise ValueError(f"{prefix}{key}: is missing; this node logs in by {mechanism}")
    try:
        given = jaas.options(properties[key])
    except ValueError as problem:
        raise ValueError(f"{prefix}{key}: {problem}") from None
    if missing := [name for name in _CREDENTIALS if not given.get(name)]:
        raise ValueError(f"{prefix}{key} has no {' and no '.join(missing)}, by which this node logs in at its peers")
    return {"sasl.mechanism": mechanism, _JAAS: properties[key]}
