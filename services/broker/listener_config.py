"""The settings of a broker's listeners, beyond what every process with listeners has: those between brokers, rights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.listeners.config import ListenersConfig, held_bytes_max
from quorate.listeners.logins import SCRAM_MECHANISMS
from quorate.listeners.settings import ListenerSettings
from quorate.protocol.sasl.plain import PLAIN
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.access.entry_guard import everyone_setting
from quorate.runtime.calls.transport_settings import PLAINTEXT
from quorate.runtime.clients.reaching import advertised, reached_at
from quorate.runtime.settings.config import PerListener, of_each_listener, setting
from quorate.runtime.settings.setting_types import (
    ListenerAddress,
    SettingType,
    choice,
    list_of,
    listener_name,
    optional,
    principals,
    text,
)

__all__ = ["BrokerListenerSettings", "BrokerListeners"]

HELD_BYTES_MAX: Final = 512 << 20
"""The bytes that all connections hold together: requests that are not whole yet, and answers that are not taken, 55 MiB
each."""
OWN_LOGIN: Final = "The user and the password by which this broker logs in at others; users of SCRAM are in the log."


def _identification() -> SettingType[str]:
    def parse(value: str) -> str:
        if value.lower() not in ("", "https"):
            raise ValueError
        return value.lower()

    return SettingType("https, or empty", parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerListenerSettings(ListenerSettings):
    """The settings that each listener has. At that between brokers they also say how this one logs in at others."""

    scram_256_jaas: str = setting(
        "scram-sha-256.sasl.jaas.config", SettingType("a text", str), OWN_LOGIN, default="", secret=True
    )
    scram_512_jaas: str = setting(
        "scram-sha-512.sasl.jaas.config", SettingType("a text", str), OWN_LOGIN, default="", secret=True
    )
    identification: str = setting(
        "ssl.endpoint.identification.algorithm",
        _identification(),
        "Whether the certificates of other brokers must have the host that they are reached at.",
        default="https",
    )

    def own_jaas(self, mechanism: str) -> str:
        """Returns the JAAS config of this broker's own user and password for a SASL mechanism; empty if it has none."""
        of_scram = dict(zip(SCRAM_MECHANISMS, (self.scram_256_jaas, self.scram_512_jaas), strict=True))
        return of_scram.get(mechanism, self.plain_jaas)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerListeners(ListenersConfig):
    """The settings of the listeners, in the broker's Config as a base class."""

    of_listeners: PerListener[BrokerListenerSettings] = of_each_listener(  # type: ignore[assignment]
        BrokerListenerSettings
    )
    held_bytes_max: int = held_bytes_max(HELD_BYTES_MAX)
    advertises: tuple[ListenerAddress, ...] = setting(
        "advertised.listeners",
        list_of(advertised(), low=0, distinct=lambda each: each.name),
        "Where clients and other brokers reach it, if not by `listeners`; under the same names.",
        default=(),
    )
    between_brokers: str | None = setting(
        "inter.broker.listener.name",
        optional(listener_name()),
        "The listener at which brokers ask each other; without it the only one, or that named PLAINTEXT.",
        default=None,
    )
    own_mechanism: str | None = setting(
        "sasl.mechanism.inter.broker.protocol",
        optional(choice(PLAIN, *SCRAM_MECHANISMS)),
        "How this broker logs in at others, by the jaas.config of that listener.",
        default=None,
    )
    token_secret_key: str | None = setting(
        "delegation.token.secret.key",
        optional(text()),
        "What delegation tokens are made with, the same on all controllers and brokers; without it none logs in.",
        default=None,
        secret=True,
    )
    authorizer: str | None = setting(
        "authorizer.class.name",
        optional(choice(STANDARD_AUTHORIZER)),
        "As on the controllers; empty lets everybody do everything.",
        default=None,
    )
    super_users: frozenset[str] = setting(
        "super.users", principals(), "As on the controllers; the brokers are among them.", default=frozenset()
    )
    allow_everyone_if_no_acl_found: bool = everyone_setting()

    @property
    def inter_broker(self) -> str:
        """The listener at which brokers ask each other: the one that is set, else the only one, else PLAINTEXT."""
        names = [each.name for each in self.listeners]
        if self.between_brokers is not None:
            return self.between_brokers
        return names[0] if len(names) == 1 else PLAINTEXT

    def broker_listener_problems(self) -> Iterator[str]:
        """Yields the violated rules of the listeners, the advertised ones, and the login at other brokers, as texts."""
        yield from self.listener_problems()
        names = [each.name for each in self.listeners]
        known = ", ".join(names)
        for each in [each for each in self.advertises if each.name not in names]:
            yield f"advertised.listeners = {each}: must have a name that is in listeners: {known}"
        if self.inter_broker not in names:
            given = self.between_brokers or "''"
            yield f"inter.broker.listener.name = {given}: must be one of listeners, {known}"
        elif (protocol := self.security_protocol(self.inter_broker)) is not None:
            yield from self._login_problems(protocol)

    def _login_problems(self, protocol: str) -> Iterator[str]:
        security = SECURITY_PROTOCOLS[protocol]
        of_listener = self.of_listeners[self.inter_broker]
        if security.with_tls and of_listener.truststore is None:
            yield f"ssl.truststore.location: is missing; at {self.inter_broker} this broker speaks TLS to others"
        if not security.with_sasl:
            return
        if self.own_mechanism is None or self.own_mechanism not in of_listener.sasl_mechanisms:
            given = self.own_mechanism or "''"
            enabled = ", ".join(of_listener.sasl_mechanisms) or "none"
            what = f"sasl.mechanism.inter.broker.protocol = {given}: must be among sasl.enabled.mechanisms"
            yield f"{what} of {self.inter_broker}: {enabled}"
        elif not of_listener.own_jaas(self.own_mechanism):
            where = f"listener.name.{self.inter_broker.lower()}.{self.own_mechanism.lower()}.sasl.jaas.config"
            yield f"{where}: is missing; by it this broker logs in at others"

    def reached_at(self, name: str, port: int) -> ListenerAddress:
        """Returns the address to register for a listener: the advertised one, else that where it listens.

        `port` is the one that it has been bound to; it counts where the setting has 0.
        """
        (listens,) = [each for each in self.listeners if each.name == name]
        said = next((each for each in self.advertises if each.name == name), None)
        return reached_at(listens, said, port=port)
