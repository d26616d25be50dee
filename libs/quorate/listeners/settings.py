"""The security settings of each listener, under Kafka's names.

Each is for all listeners; with `listener.name.<name>.` before it, the name in small letters, it is for one of them, and
counts more (KIP-103).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.listeners.logins import PLAIN_USERS, SCRAM_MECHANISMS, plain_users
from quorate.network.connections import NO_LIMIT
from quorate.protocol import ServerSettings
from quorate.protocol.sasl.plain import PLAIN
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.calls.transport_settings import mapping_rules
from quorate.runtime.settings.config import listener_prefix, setting
from quorate.runtime.settings.setting_types import (
    SettingType,
    choice,
    integer,
    list_of,
    milliseconds,
    optional,
    path,
    size,
    text,
)
from quorate.tls.listener_tls import CLIENT_AUTH, TLS_VERSIONS
from quorate.tls.ssl_principals import DEFAULT_RULES

__all__ = ["ListenerSettings"]

INT32_MAX: Final = 2**31 - 1
PEM: Final = "PEM"
REAUTH_KEY: Final = "connections.max.reauth.ms"


def _plain_users() -> SettingType[str]:
    def parse(value: str) -> str:
        if value and not plain_users(value):
            raise ValueError
        return value

    return SettingType(f'like PlainLoginModule required {PLAIN_USERS}NAME="PASSWORD" …; with a user at least', parse)


def _anything() -> SettingType[str]:
    return SettingType("a text", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """The settings of one listener: its own value where one is set, else that for all listeners."""

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
        "ssl.enabled.protocols", list_of(choice(*TLS_VERSIONS)), "The versions of TLS.", default=tuple(TLS_VERSIONS)
    )
    principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        mapping_rules(),
        "From the subject of a client's certificate to its principal; the first rule that is for it counts.",
        default=DEFAULT_RULES,
    )
    sasl_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        list_of(choice(PLAIN, *SCRAM_MECHANISMS), low=0),
        "How clients may log in.",
        default=(),
    )
    plain_jaas: str = setting(
        "plain.sasl.jaas.config",
        _plain_users(),
        "The users of PLAIN and their passwords.",
        default="",
        secret=True,
    )
    scram_256_jaas: str = setting(
        "scram-sha-256.sasl.jaas.config",
        _anything(),
        "Taken, because Kafka wants it; nothing in it is used: users and passwords of SCRAM are in the log.",
        default="",
        secret=True,
    )
    scram_512_jaas: str = setting(
        "scram-sha-512.sasl.jaas.config", _anything(), "As for SCRAM-SHA-256.", default="", secret=True
    )
    sasl_receive_bytes_max: int = setting(
        "sasl.server.max.receive.size",
        size(1, INT32_MAX),
        "The largest request before a client has logged in.",
        default=ServerSettings().sasl_receive_bytes_max,
    )
    reauth_ms_max: int = setting(
        REAUTH_KEY,
        milliseconds(0),
        "A login ends after so long unless it is renewed; 0 for never (KIP-368).",
        default=ServerSettings().reauth_ms_max,
    )
    failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        milliseconds(0),
        "How long a client waits to hear that its login has failed.",
        default=ServerSettings().failed_authentication_delay_ms,
    )

    connections_max: int = setting(
        "max.connections",
        integer(1, NO_LIMIT),
        "How many connections are open at once, in all, and with the listener's name before it at this one.",
        default=NO_LIMIT,
    )

    @staticmethod
    def ineffective(name: str, protocol: str, own: Collection[str]) -> Iterator[str]:
        """Yields a sentence for each setting of TLS or SASL that has no effect, as the listener does not use it.

        `own` are the keys of the settings that are set for this listener alone; `protocol` is its security protocol.
        """
        security = SECURITY_PROTOCOLS[protocol]
        for key in sorted(own):
            if (_is_of_tls(key) and not security.with_tls) or (_is_of_login(key) and not security.with_sasl):
                yield f"{listener_prefix(name)}{key}: has no effect, as the listener {name} speaks {protocol}"

    def problems_of(self, name: str, protocol: str, own: Collection[str]) -> Iterator[str]:
        """Yields a sentence for each rule that the settings of the listener `name`, which speaks `protocol`, violate.

        `own` are the keys that are for it alone: one of TLS or a login that it has no use for is refused, as somebody
        meant it to protect the listener.
        """
        security = SECURITY_PROTOCOLS[protocol]
        yield from self.ineffective(name, protocol, own)
        if security.with_tls and self.keystore is None:
            yield f"ssl.keystore.location: is missing; the listener {name} speaks {protocol}"
        if security.with_sasl and not self.sasl_mechanisms:
            yield f"sasl.enabled.mechanisms: is missing; the listener {name} speaks {protocol}"
        if security.with_sasl and PLAIN in self.sasl_mechanisms and not self.plain_jaas:
            yield f"{listener_prefix(name)}plain.sasl.jaas.config: is missing; {PLAIN} is enabled"
        if security.with_tls and self.client_auth != "none" and self.truststore is None:
            what = f"ssl.client.auth = {self.client_auth}: needs ssl.truststore.location"
            yield f"{what}, which is missing for the listener {name}"


def _is_of_tls(key: str) -> bool:
    return key.startswith("ssl.")


def _is_of_login(key: str) -> bool:
    return "sasl." in key or key == REAUTH_KEY
