"""Who may speak to a gateway, and as whom: the settings of its listener, under Kafka's names.

Each may have `listener.name.<name>.` before it, with the listener's name in small letters, and then counts more.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.network.listener_tls import CLIENT_AUTH, PROTOCOLS, listener_tls
from quorate.network.ssl_principals import DEFAULT_RULES, SslPrincipals, parse_rules
from quorate.runtime.config import given_texts, setting
from quorate.runtime.setting_types import SettingType, choice, list_of, optional, path, text

__all__ = ["SECURITY_PROTOCOLS", "ListenerSecurity", "SecuritySettings", "listener_prefix"]

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": False, "SSL": True}
"""Kafka's security protocols: whether each has TLS."""
PEM: Final = "PEM"


def listener_prefix(argv: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Returns what may stand before a setting of the listener, or None if `listeners` does not name one."""
    name, parted, _ = given_texts(argv, environ, ["listeners"]).get("listeners", "").partition("://")
    return f"listener.name.{name.lower()}." if parted else None


def _named_protocol() -> SettingType[tuple[str, str]]:
    def parse(value: str) -> tuple[str, str]:
        name, _, protocol = value.partition(":")
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ValueError
        return name, protocol

    return SettingType(f"NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}", parse, ":".join)


def _rules() -> SettingType[str]:
    def parse(value: str) -> str:
        parse_rules(value)
        return value

    return SettingType("DEFAULT, or RULE:pattern/replacement/[LU], with commas between them (KIP-371)", parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """The settings of one listener's security."""

    security_protocols: tuple[tuple[str, str], ...] = setting(
        "listener.security.protocol.map",
        list_of(_named_protocol(), low=0, distinct=lambda each: each[0]),
        "The protocol of each listener by name; without a map it is the name itself, or else PLAINTEXT.",
        default=(),
    )
    keystore_type: str = setting("ssl.keystore.type", choice(PEM), "How the key store is written.", default=PEM)
    keystore: Path | None = setting(
        "ssl.keystore.location", optional(path()), "The private key and its certificates, in one file.", default=None
    )
    key_password: str | None = setting(
        "ssl.key.password", optional(text()), "Opens the private key, if it is encrypted.", default=None, secret=True
    )
    truststore_type: str = setting("ssl.truststore.type", choice(PEM), "How the trust store is written.", default=PEM)
    truststore: Path | None = setting(
        "ssl.truststore.location",
        optional(path()),
        "The certificates of those who may issue certificates to clients.",
        default=None,
    )
    client_auth: str = setting(
        "ssl.client.auth", choice(*CLIENT_AUTH), "Whether a client has to show a certificate.", default="none"
    )
    tls_versions: tuple[str, ...] = setting(
        "ssl.enabled.protocols", list_of(choice(*PROTOCOLS)), "The versions of TLS.", default=tuple(PROTOCOLS)
    )
    principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        _rules(),
        "From the subject of a client's certificate to its principal; the first rule that is for it counts.",
        default=DEFAULT_RULES,
    )

    def security_problems(self, name: str) -> Iterator[str]:
        """Yields the violated rules of the listener with this name."""
        protocol = self.security_protocol(name)
        if protocol is None:
            known = ",".join(map(":".join, self.security_protocols))
            yield f"listener.security.protocol.map = {known}: must have an entry for {name}, the listener"
            return
        if SECURITY_PROTOCOLS[protocol] and self.keystore is None:
            yield f"ssl.keystore.location: is missing; the listener {name} speaks {protocol}"
        if self.client_auth != "none" and self.truststore is None:
            yield f"ssl.client.auth = {self.client_auth}: takes ssl.truststore.location, which is missing"

    def security_protocol(self, name: str) -> str | None:
        """Returns the protocol of a listener; None if there is a map without it. Kafka's rule for controllers."""
        if self.security_protocols:
            return dict(self.security_protocols).get(name)
        return name if name in SECURITY_PROTOCOLS else "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """What a listener speaks, and who its clients are. `tls` is None where there is none."""

    protocol: str
    tls: ssl.SSLContext | None
    certified: SslPrincipals | None

    @staticmethod
    def of(settings: SecuritySettings, name: str) -> ListenerSecurity:
        """Reads the files that the settings name. Raises ValueError, which names setting and file."""
        protocol = settings.security_protocol(name)
        assert protocol is not None, name
        if not SECURITY_PROTOCOLS[protocol]:
            return ListenerSecurity(protocol=protocol, tls=None, certified=None)
        assert settings.keystore is not None, protocol
        tls = listener_tls(
            keystore=settings.keystore,
            key_password=settings.key_password or "",
            truststore=settings.truststore,
            client_auth=settings.client_auth,
            protocols=settings.tls_versions,
        )
        return ListenerSecurity(
            protocol=protocol, tls=tls, certified=SslPrincipals(parse_rules(settings.principal_rules))
        )
