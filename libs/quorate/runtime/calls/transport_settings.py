"""The settings of how a service speaks gRPC, under Kafka's names, beside those that limit its calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.runtime.calls.call_settings import CallSettings
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import (
    ListenerAddress,
    SettingType,
    choice,
    list_of,
    listener,
    listener_name,
    listeners,
    named_choice,
    optional,
    path,
)
from quorate.tls.ssl_principals import DEFAULT_RULES, parse_rules

__all__ = [
    "GRPC_PROTOCOLS",
    "KEYSTORE",
    "PLAINTEXT",
    "SSL",
    "TRUSTSTORE",
    "ClientSettings",
    "TransportSettings",
    "tell",
    "transport_of",
]

log = logger(__name__)

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
GRPC_PROTOCOLS: Final = (PLAINTEXT, SSL)
"""The security protocols of Kafka's that gRPC has here: an admin's password is for Kafka's wire."""
REQUIRED: Final = "required"
KEYSTORE: Final = "The private key and its certificates, in one PEM file: this process's own, as server and as client."
TRUSTSTORE: Final = "The certificates, in one PEM file, of those who may issue certificates to callers and to servers."


def mapping_rules() -> SettingType[str]:
    """Setting type: `ssl.principal.mapping.rules`; the text is checked, and stays a text."""

    def parse(value: str) -> str:
        parse_rules(value)
        return value

    return SettingType("DEFAULT, or RULE:pattern/replacement/[LU], with commas between them (KIP-371)", parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings(CallSettings):
    """A service's listeners, and the security of these and of its own calls, in its Config as a base class."""

    listeners: tuple[ListenerAddress, ...] = setting(
        "listeners",
        listeners(),
        "Where this process is reached: one listener, or two while the cluster changes from clear text to TLS.",
    )
    controller_listeners: tuple[str, ...] = setting(
        "controller.listener.names",
        list_of(listener_name(), low=0),
        "The first name is the listener of other processes that this one calls; by default the first of its own.",
        default=(),
    )
    security_protocols: tuple[tuple[str, str], ...] = setting(
        "listener.security.protocol.map",
        list_of(named_choice(*GRPC_PROTOCOLS), low=0, distinct=lambda each: each[0]),
        "What the listener of this name speaks, and this process where it calls others at one; SSL if it is not here.",
        default=(),
    )
    keystore: Path | None = setting("ssl.keystore.location", optional(path()), KEYSTORE, default=None)
    truststore: Path | None = setting("ssl.truststore.location", optional(path()), TRUSTSTORE, default=None)
    revoked: Path | None = setting(
        "ssl.revoked.certificates.location",
        optional(path()),
        "A file of SHA-256 fingerprints: callers with these certificates are refused, whoever has issued them.",
        default=None,
    )
    client_auth: str = setting(
        "ssl.client.auth", choice("none", REQUIRED), "Whether a caller has to show a certificate.", default=REQUIRED
    )
    principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        mapping_rules(),
        "From a caller's SPIFFE id or its subject to its principal; the first rule that is for one of them counts.",
        default=DEFAULT_RULES,
    )

    health_listeners: ListenerAddress | None = setting(
        "health.listeners",
        optional(listener()),
        "Where gRPC health, and nothing else, is asked for in the clear, by probes; it is also asked for at listeners.",
        default=None,
    )

    def security_protocol(self, listener: str) -> str:
        """Returns the protocol of a listener: what the map says, else its own name if that is one, else SSL."""
        return dict(self.security_protocols).get(listener, listener if listener in GRPC_PROTOCOLS else SSL)

    @property
    def controller_listener(self) -> str:
        """The name of the listener at which this process calls others, by `controller.listener.names`."""
        return next(iter(self.controller_listeners), self.listeners[0].name)

    @property
    def least_protocol(self) -> str:
        """PLAINTEXT if a listener of this process speaks it, or else SSL."""
        return PLAINTEXT if any(self.security_protocol(each.name) == PLAINTEXT for each in self.listeners) else SSL

    @property
    def every_listener(self) -> tuple[ListenerAddress, ...]:
        """The listeners that use this process's certificate: `listeners`, and others where a subclass has more."""
        return self.listeners

    @property
    def other_listeners(self) -> frozenset[str]:
        """The names of listeners that speak another security protocol than this process when it calls others."""
        own = self.security_protocol(self.controller_listener)
        known = {*(name for name, _ in self.security_protocols), *(each.name for each in self.listeners)}
        return frozenset(name for name in known if self.security_protocol(name) != own)

    def controller_listener_problems(self) -> Iterator[str]:
        """Yields an error if this process does not have the listener at which its peers call it."""
        if self.controller_listener not in {each.name for each in self.listeners}:
            known = ",".join(map(str, self.listeners))
            yield f"controller.listener.names = {self.controller_listener}: must be among listeners = {known}"

    def security_problems(self) -> Iterator[str]:
        """Yields an error for each of key store and trust store that is missing while a listener speaks SSL.

        If none does, an error for a file of revoked certificates, which would be of no use.
        """
        names = (*(each.name for each in self.every_listener), self.controller_listener)
        secure = next((name for name in names if self.security_protocol(name) == SSL), None)
        if secure is None:
            if self.revoked is not None:
                yield f"ssl.revoked.certificates.location = {self.revoked}: {names[0]} speaks in the clear"
            return
        for name, value in (("ssl.keystore.location", self.keystore), ("ssl.truststore.location", self.truststore)):
            if value is None:
                instead = f"listener.security.protocol.map = {secure}:{PLAINTEXT}"
                yield f"{name}: is missing; the listener {secure} speaks {SSL}, and in the clear only by {instead}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The security of the calls of a program that has no listener, in its Config as a base class."""

    security_protocol: str = setting(
        "security.protocol", choice(*GRPC_PROTOCOLS), "What the services speak.", default=SSL
    )
    keystore: Path | None = setting("ssl.keystore.location", optional(path()), KEYSTORE, default=None)
    truststore: Path | None = setting("ssl.truststore.location", optional(path()), TRUSTSTORE, default=None)

    def problems(self) -> Iterator[str]:
        """Yields an error for each of key store and trust store that is missing while `security.protocol` is SSL."""
        for name, value in (("ssl.keystore.location", self.keystore), ("ssl.truststore.location", self.truststore)):
            if self.security_protocol == SSL and value is None:
                yield f"{name}: is missing; {SSL} is spoken, in the clear only by security.protocol = {PLAINTEXT}"

    def transport(self) -> Transport:
        """Returns how to call the services: `PLAIN`, or by TLS with the files that the settings name, which are read.

        Raises ConfigError.
        """
        if self.security_protocol == PLAINTEXT:
            return PLAIN
        return Transport(keystore=self.keystore, truststore=self.truststore)


def transport_of(settings: TransportSettings) -> Transport:
    """Returns how a service speaks gRPC: `PLAIN` if all its listeners and calls are PLAINTEXT, else by TLS.

    For TLS the files that the settings name are read. Raises ConfigError.
    """
    call_protocol = settings.security_protocol(settings.controller_listener)
    if {call_protocol, *(settings.security_protocol(each.name) for each in settings.every_listener)} == {PLAINTEXT}:
        return PLAIN
    return Transport(
        keystore=settings.keystore,
        truststore=settings.truststore,
        revoked=settings.revoked,
        requires_certificate=settings.client_auth == REQUIRED,
        principal_rules=settings.principal_rules,
        calls_in_the_clear=call_protocol == PLAINTEXT,
    )


def tell(transport: Transport, settings: TransportSettings) -> None:
    """Logs subject and expiry of the certificate of each listener with TLS, and a warning for each one in the clear."""
    for each in settings.every_listener:
        if settings.security_protocol(each.name) == PLAINTEXT:
            what = "speaks in the clear: callers are not authenticated, and others in the network can read the traffic"
            log.warning(what, listener=each.name, setting="listener.security.protocol.map")
        else:
            log.info("speaks TLS 1.3", listener=each.name, **transport.described)
