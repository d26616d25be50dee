"""Connections that a broker opens: to other brokers as one of them, and to gateways."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from quorate.listeners.tls import ListenerTls
from quorate.network.client import DEFAULT_SETTINGS, Connection, Timeouts
from quorate.network.client_config import ClientConfig, client_files, parse_client_config, read_client_properties
from quorate.protocol import ClientSettings
from quorate.runtime.config import ConfigError
from services.broker.listener_config import BrokerListeners

__all__ = ["Peers"]

NAME: Final = "connections to {}"


class Peers:
    """How one kind of server is reached: in the clear, by TLS, and with a login, by a Kafka client's properties."""

    def __init__(self, properties: Mapping[str, str] | None = None, *, of: str = "brokers") -> None:
        """`of` is what the servers are called in the log. Raises ValueError for an unfit property or file."""
        properties = properties or {}
        self._config: ClientConfig = parse_client_config(properties)
        self.tls: ListenerTls | None = None
        """Taken again when its files change (`quorate.listeners.tls.watch_files`); None in the clear."""
        if self._config.tls is not None:
            self.tls = ListenerTls(NAME.format(of), client_files(properties), lambda: _tls_of(properties))

    @staticmethod
    def of_brokers(config: BrokerListeners) -> Peers:
        """Returns how other brokers are reached at the listener between brokers, as Kafka's brokers reach each other.

        Raises ConfigError.
        """
        try:
            return Peers(_properties(config))
        except ValueError as problem:
            raise ConfigError([f"{problem} (the listener {config.inter_broker}, as a client)"]) from None

    @staticmethod
    def of_gateways(file: Path | None) -> Peers:
        """Returns how gateways are reached, by `gateway.client.config`. Raises ConfigError."""
        try:
            return Peers(None if file is None else read_client_properties(file), of="gateways")
        except (OSError, ValueError) as problem:
            raise ConfigError([f"gateway.client.config = {file}: {problem}"]) from None

    async def connect(
        self, host: str, port: int, *, timeouts: Timeouts, settings: ClientSettings = DEFAULT_SETTINGS
    ) -> Connection:
        """Connects, and logs in. Raises OSError, ApiError, as `quorate.network.client.connect`."""
        tls = None if self.tls is None else self.tls()
        config = replace(self._config, settings=settings, timeouts=timeouts, tls=tls)
        return await config.connect((host, port))


def _tls_of(properties: Mapping[str, str]) -> ssl.SSLContext:
    tls = parse_client_config(properties).tls
    assert tls is not None, sorted(properties)
    return tls


def _properties(config: BrokerListeners) -> dict[str, str]:
    """Returns the properties of a client for the listener between brokers."""
    name = config.inter_broker
    of_listener, mechanism = config.of_listeners[name], config.own_mechanism
    protocol = config.security_protocol(name)
    assert protocol is not None, name
    given = {
        "security.protocol": protocol,
        "ssl.keystore.location": of_listener.keystore,
        "ssl.truststore.location": of_listener.truststore,
        "ssl.key.password": of_listener.key_password,
        "ssl.endpoint.identification.algorithm": of_listener.identification,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": of_listener.own_jaas(mechanism) if mechanism is not None else None,
    }
    types = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    return types | {key: str(value) for key, value in given.items() if value is not None}
