"""Connections that a broker opens: to other brokers as one of them, to gateways, and to controllers of Kafka's."""

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
from quorate.runtime.settings.config import ConfigError
from services.broker.control_plane import ControlPlane
from services.broker.listener_config import BrokerListeners, BrokerListenerSettings

__all__ = ["Peers", "properties_of_controllers"]

NAME: Final = "connections to {}"


class Peers:
    """Opens connections to one kind of server, by a Kafka client's properties: with TLS and a login, or without."""

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
            name = config.inter_broker
            return Peers(_properties(config, name, config.of_listeners[name], config.own_mechanism))
        except ValueError as problem:
            raise ConfigError([f"{problem} (the listener {config.inter_broker}, as a client)"]) from None

    @staticmethod
    def of_controllers(config: ControlPlane) -> Peers:
        """Returns how Kafka's controllers are reached, as Kafka's brokers reach them. Raises ConfigError."""
        try:
            return Peers(properties_of_controllers(config), of="controllers")
        except ValueError as problem:
            name = config.controller_listener
            raise ConfigError([f"{problem} (the controllers' listener {name})"]) from None

    @staticmethod
    def of_gateways(file: Path | None) -> Peers:
        """Returns how gateways are reached, by the properties in `file`, or in the clear. Raises ConfigError."""
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


def properties_of_controllers(config: ControlPlane) -> dict[str, str]:
    """Returns the properties of a client, passwords included, for the listener of Kafka's controllers."""
    name = config.controller_listener
    return _properties(config, name, config.of_controllers[name], config.controller_mechanism)


def _properties(
    config: BrokerListeners, name: str, of_listener: BrokerListenerSettings, mechanism: str | None
) -> dict[str, str]:
    """Returns the properties of a client for the listener `name`."""
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
