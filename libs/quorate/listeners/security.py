"""The security protocol of each listener, and the principals of its clients: made of its settings and the files that
they name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.listeners.config import ListenersConfig
from quorate.listeners.logins import BeginScram, mechanisms_of, plain_users
from quorate.listeners.settings import ListenerSettings
from quorate.listeners.tls import ListenerTls
from quorate.protocol.sasl.server import Mechanisms
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.settings.config import ConfigError
from quorate.tls.listener_tls import listener_tls
from quorate.tls.ssl_principals import SslPrincipals, parse_rules

__all__ = ["ListenerSecurity", "security_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The security protocol of a listener, and the principals of its clients: a part that it does not have is None or
    empty."""

    protocol: str
    tls: ListenerTls | None
    certified: SslPrincipals | None
    sasl_mechanisms: tuple[str, ...] = ()
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(name: str, settings: ListenerSettings, protocol: str) -> ListenerSecurity:
        """Reads the files that a listener's settings name. Raises ValueError, which names setting and file."""
        security = SECURITY_PROTOCOLS[protocol]
        users = plain_users(settings.plain_jaas) if settings.plain_jaas else {}
        return ListenerSecurity(
            protocol=protocol,
            tls=_tls(name, settings) if security.with_tls else None,
            certified=None if security.with_sasl else SslPrincipals(parse_rules(settings.principal_rules)),
            sasl_mechanisms=settings.sasl_mechanisms if security.with_sasl else (),
            plain_users=users,
        )

    def mechanisms(self, begin_scram: BeginScram) -> Mechanisms | None:
        """Returns the SASL mechanisms for clients' logins; None without SASL. `begin_scram` begins one of SCRAM."""
        return mechanisms_of(self.sasl_mechanisms, self.plain_users, begin_scram) if self.sasl_mechanisms else None


def security_of(config: ListenersConfig) -> dict[str, ListenerSecurity]:
    """Returns the security of each listener, by its name, from its settings and files.

    Raises ConfigError with a problem for each listener of which a file is missing or wrong.
    """
    found: dict[str, ListenerSecurity] = {}
    problems = []
    for name, settings in config.of_listeners.items():
        protocol = config.security_protocol(name)
        assert protocol is not None, name
        try:
            found[name] = ListenerSecurity.of(name, settings, protocol)
        except ValueError as problem:
            problems.append(f"{problem} (the listener {name})")
    if problems:
        raise ConfigError(problems)
    return found


def _tls(name: str, settings: ListenerSettings) -> ListenerTls:
    keystore, truststore = settings.keystore, settings.truststore
    assert keystore is not None, settings

    def read() -> ssl.SSLContext:
        return listener_tls(
            keystore=keystore,
            key_password=settings.key_password or "",
            truststore=truststore,
            client_auth=settings.client_auth,
            protocols=settings.tls_versions,
        )

    return ListenerTls(name, [keystore] if truststore is None else [keystore, truststore], read)
