"""The configuration of a gateway. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.network.buffers import HELD_BYTES_MAX
from quorate.network.connections import NO_LIMIT
from quorate.nouns import NodeId
from quorate.protocol import ServerSettings
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.claims import CLAIM_RULES, CLAIM_RULES_HELP, claim_problems, node_rules
from quorate.runtime.config import PerListener, of_each_listener, setting
from quorate.runtime.named_endpoints import NamedVoter, named_voter
from quorate.runtime.setting_types import (
    Endpoint,
    ListenerAddress,
    choice,
    endpoint,
    integer,
    list_of,
    listener,
    listeners,
    milliseconds,
    named_choice,
    optional,
    path,
    principals,
    size,
)
from quorate.runtime.stop_settings import StopSettings
from quorate.runtime.transport_settings import GRPC_PROTOCOLS, KEYSTORE, PLAINTEXT, SSL, TRUSTSTORE
from services.gateway.security import ListenerSettings

REQUEST_BYTES_MAX: Final = 4 << 20
"""What the services take in one gRPC message; Kafka takes 100 MiB."""
INT32_MAX: Final = 2**31 - 1
CONNECTIONS_MAX: Final = 5_000
"""Some 60 KB of memory each with TLS; a cluster of 1,000 brokers has 3,000. Kafka has no limit."""
CONNECTIONS_PER_IP_MAX: Final = 2_500
"""So that one address cannot take them all; enough for a proxy. Kafka has no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig(StopSettings):
    """The settings of one gateway."""

    node_id: int = setting("node.id", integer(0, INT32_MAX), "The id of this node: that of the quorum node beside it.")
    listeners: tuple[ListenerAddress, ...] = setting("listeners", listeners(), "Where it speaks Kafka's own wire.")
    security_protocols: tuple[tuple[str, str], ...] = setting(
        "listener.security.protocol.map",
        list_of(named_choice(*SECURITY_PROTOCOLS), low=0, distinct=lambda each: each[0]),
        "The protocol of each listener by name; without a map it is the name, or PLAINTEXT if none is named so.",
        default=(),
    )
    of_listeners: PerListener[ListenerSettings] = of_each_listener(ListenerSettings)
    health_listeners: ListenerAddress = setting(
        "health.listeners", listener(), "Where gRPC health is asked for, by probes."
    )
    quorum: Endpoint = setting("quorum.endpoint", endpoint(), "The quorum node beside it.")
    controller: Endpoint = setting("controller.endpoint", endpoint(), "The controller beside it.")
    heartbeats: tuple[Endpoint, ...] = setting(
        "heartbeat.endpoint", list_of(endpoint()), "The heartbeat services, of which one counts: each is tried in turn."
    )
    gateways: tuple[NamedVoter, ...] = setting(
        "controller.quorum.voters",
        list_of(named_voter(), distinct=lambda each: (each.id, each.listener)),
        "Where brokers and Kafka clients reach each node, this one too: the gateways, each with one of the listeners.",
    )
    request_bytes_max: int = setting(
        "socket.request.max.bytes",
        size(1, INT32_MAX),
        "The largest request; a connection with a larger one is closed.",
        default=REQUEST_BYTES_MAX,
    )
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
    held_bytes_max: int = setting(
        "queued.max.request.bytes",
        size(1, INT32_MAX),
        "What all connections hold together; with more, the one that holds most is closed.",
        default=HELD_BYTES_MAX,
    )

    authorizer: str | None = setting(
        "authorizer.class.name",
        optional(choice(STANDARD_AUTHORIZER)),
        "As on the controllers; empty lets everybody ask the quorum node and the heartbeat service.",
        default=None,
    )
    super_users: frozenset[str] = setting(
        "super.users",
        principals(),
        "As on the controllers; these are let in while the controller cannot be asked.",
        default=frozenset(),
    )

    node_rules: str | None = setting(CLAIM_RULES, node_rules(), CLAIM_RULES_HELP, default=None)

    grpc_protocol: str = setting(
        "grpc.security.protocol", choice(*GRPC_PROTOCOLS), "What is spoken to the three services.", default=SSL
    )
    grpc_keystore: Path | None = setting("grpc.ssl.keystore.location", optional(path()), KEYSTORE, default=None)
    grpc_truststore: Path | None = setting("grpc.ssl.truststore.location", optional(path()), TRUSTSTORE, default=None)

    def connection_settings(self, listener: str) -> ServerSettings:
        """Returns what is accepted from one connection at a listener."""
        of_listener = self.of_listeners[listener]
        return ServerSettings(
            request_bytes_max=self.request_bytes_max,
            idle_ms_max=self.idle_ms_max,
            sasl_receive_bytes_max=of_listener.sasl_receive_bytes_max,
            reauth_ms_max=of_listener.reauth_ms_max,
            failed_authentication_delay_ms=of_listener.failed_authentication_delay_ms,
        )

    def security_protocol(self, listener: str) -> str | None:
        """Returns the protocol of a listener; None if there is a map without it. Kafka's rule for controllers.

        Without a map it is the name, in any case. A name that is no protocol means PLAINTEXT, but is not taken for it
        beside a listener that is named for another protocol (KafkaConfig.effectiveListenerSecurityProtocolMap).
        """
        if self.security_protocols:
            return dict(self.security_protocols).get(listener)
        named = {each.name for each in self.listeners} & SECURITY_PROTOCOLS.keys()
        if listener in named:
            return listener
        return PLAINTEXT if named <= {PLAINTEXT} else None

    @property
    def gateways_at(self) -> dict[str, dict[NodeId, Endpoint]]:
        """Where brokers and Kafka clients reach each node, by listener and node id."""
        names = [each.name for each in self.listeners]
        return {
            name: {each.id: each.endpoint for each in self.gateways if (each.listener or names[0]) == name}
            for name in names
        }

    def problems(self) -> Iterator[str]:
        """Yields the violated rules: those of the listeners, and that this node is among the gateways at each."""
        yield from self._listener_problems()
        yield from self._gateway_problems()
        stores = {"keystore": self.grpc_keystore, "truststore": self.grpc_truststore}
        for name in [name for name, store in stores.items() if store is None and self.grpc_protocol == SSL]:
            instead = f"grpc.security.protocol = {PLAINTEXT}"
            yield f"grpc.ssl.{name}.location: is missing; the services speak {SSL}, in the clear only by {instead}"

    def _listener_problems(self) -> Iterator[str]:
        for name, settings in self.of_listeners.items():
            protocol = self.security_protocol(name)
            if protocol is None:
                known = ",".join(map(":".join, self.security_protocols)) or "''"
                yield f"listener.security.protocol.map = {known}: must have an entry for {name}, the listener"
            else:
                yield from settings.problems_of(name, protocol, self.of_listeners.own[name])
        spoken = {self.security_protocol(name) for name in self.of_listeners}
        yield from claim_problems(self.node_rules, protocol=PLAINTEXT if PLAINTEXT in spoken else None)

    def _gateway_problems(self) -> Iterator[str]:
        names = [each.name for each in self.listeners]
        what = f"controller.quorum.voters = {','.join(map(str, self.gateways))}"
        several = len(names) > 1
        for each in self.gateways:
            if several and not each.listener:
                named = NamedVoter(each.id, each.endpoint, names[0])
                yield f"{what}: {each} must name one of the listeners {', '.join(names)}, as {named} does"
            elif each.listener and each.listener not in names:
                yield f"{what}: {each} names {each.listener}, which is not among listeners: {', '.join(names)}"
        unnamed = {each.id for each in self.gateways if not each.listener}
        for each in [each for each in self.gateways if each.listener == names[0] and each.id in unnamed]:
            yield f"{what}: {each} is another address of node {each.id} at {names[0]}"
        for name in [name for name, nodes in self.gateways_at.items() if self.node_id not in nodes]:
            where = f" at its listener {name}" if several else ""
            yield f"{what}: must have an entry for node.id {self.node_id}, this gateway{where}"
