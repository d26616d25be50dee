"""The settings of a process with listeners of Kafka's wire: what each speaks, and the bounds of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.listeners.settings import ListenerSettings
from quorate.network.buffers import HELD_BYTES_MAX
from quorate.network.connections import NO_LIMIT
from quorate.protocol import ServerSettings
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.calls.transport_settings import PLAINTEXT
from quorate.runtime.settings.config import PerListener, of_each_listener, setting
from quorate.runtime.settings.setting_types import (
    ListenerAddress,
    integer,
    list_of,
    listeners,
    milliseconds,
    named_choice,
    size,
)
from quorate.runtime.settings.stop_settings import StopSettings

__all__ = ["ListenersConfig", "held_bytes_max", "request_bytes_max"]

INT32_MAX: Final = 2**31 - 1
CONNECTIONS_MAX: Final = 5_000
"""Some 60 KB of memory each with TLS; a cluster of 1,000 brokers has 3,000 at a gateway. Kafka has no limit."""
CONNECTIONS_PER_IP_MAX: Final = 2_500
"""So that one address cannot take them all; enough for a proxy. Kafka has no limit."""


def request_bytes_max(default: int) -> int:
    """Declares the setting `socket.request.max.bytes`, the largest request in bytes, with a service's own default."""
    what = "The largest request; a connection with a larger one is closed."
    return setting("socket.request.max.bytes", size(1, INT32_MAX), what, default=default)


def held_bytes_max(default: int) -> int:
    """Declares the setting `queued.max.request.bytes`, what all connections hold in bytes, with a service's default."""
    what = "What all connections hold together; with more, the one that holds most is closed."
    return setting("queued.max.request.bytes", size(1, INT32_MAX), what, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenersConfig(StopSettings):
    """The settings of a process's listeners of Kafka's wire; a service's Config has it as a base class."""

    listeners: tuple[ListenerAddress, ...] = setting("listeners", listeners(), "Where it speaks Kafka's own wire.")
    security_protocols: tuple[tuple[str, str], ...] = setting(
        "listener.security.protocol.map",
        list_of(named_choice(*SECURITY_PROTOCOLS), low=0, distinct=lambda each: each[0]),
        "The protocol of each listener by name; without a map it is the name, or PLAINTEXT if none is named so.",
        default=(),
    )
    of_listeners: PerListener[ListenerSettings] = of_each_listener(ListenerSettings)
    request_bytes_max: int = request_bytes_max(ServerSettings().request_bytes_max)
    idle_ms_max: int = setting(
        "connections.max.idle.ms",
        milliseconds(1),
        "A connection without traffic for so long is closed.",
        default=ServerSettings().idle_ms_max,
    )
    connections_max: int = setting(
        "max.connections",
        integer(1, NO_LIMIT),
        "How many connections are open at once, in all.",
        default=CONNECTIONS_MAX,
    )
    connections_per_ip_max: int = setting(
        "max.connections.per.ip",
        integer(1, NO_LIMIT),
        "How many of them come from one address.",
        default=CONNECTIONS_PER_IP_MAX,
    )
    held_bytes_max: int = held_bytes_max(HELD_BYTES_MAX)

    def connection_settings(self, listener: str) -> ServerSettings:
        """Returns the limits of one connection at the listener of this name: request size, idle time, logins."""
        of_listener = self.of_listeners[listener]
        return ServerSettings(
            request_bytes_max=self.request_bytes_max,
            idle_ms_max=self.idle_ms_max,
            sasl_receive_bytes_max=of_listener.sasl_receive_bytes_max,
            reauth_ms_max=of_listener.reauth_ms_max,
            failed_authentication_delay_ms=of_listener.failed_authentication_delay_ms,
        )

    def security_protocol(self, listener: str) -> str | None:
        """Returns the security protocol of a listener; None if it has none. Kafka's rule for controllers.

        With `listener.security.protocol.map` it is the entry there, or none. Without it, it is the name. A name that is
        no protocol means PLAINTEXT, but none beside a listener that is named for another protocol
        (KafkaConfig.effectiveListenerSecurityProtocolMap).
        """
        if self.security_protocols:
            return dict(self.security_protocols).get(listener)
        named = {each.name for each in self.listeners} & SECURITY_PROTOCOLS.keys()
        if listener in named:
            return listener
        return PLAINTEXT if named <= {PLAINTEXT} else None

    def listener_problems(self) -> Iterator[str]:
        """Yields a sentence for each rule that the settings of the listeners violate."""
        for name, settings in self.of_listeners.items():
            protocol = self.security_protocol(name)
            if protocol is None:
                known = ",".join(map(":".join, self.security_protocols)) or "''"
                yield f"listener.security.protocol.map = {known}: must have an entry for {name}, the listener"
            else:
                yield from settings.problems_of(name, protocol, self.of_listeners.own[name])
