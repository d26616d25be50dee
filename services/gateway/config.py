"""The configuration of a gateway. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.protocol import ServerSettings
from quorate.runtime.claims import CLAIM_RULES, CLAIM_RULES_HELP, claim_problems, node_rules
from quorate.runtime.config import setting
from quorate.runtime.setting_types import (
    ConfiguredVoter,
    Endpoint,
    ListenerAddress,
    choice,
    endpoint,
    integer,
    list_of,
    listener,
    milliseconds,
    optional,
    path,
    principals,
    size,
    voter,
)
from quorate.runtime.transport_settings import KEYSTORE, PLAINTEXT, PROTOCOLS, SSL, TRUSTSTORE
from services.gateway.security import SecuritySettings

REQUEST_BYTES_MAX: Final = 4 << 20
"""What the services take in one gRPC message; Kafka takes 100 MiB."""
INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig(SecuritySettings):
    """The settings of one gateway."""

    node_id: int = setting("node.id", integer(0, INT32_MAX), "The id of this node: that of the quorum node beside it.")
    listeners: ListenerAddress = setting("listeners", listener(), "Where it speaks Kafka's own wire.")
    health_listeners: ListenerAddress = setting(
        "health.listeners", listener(), "Where gRPC health is asked for, by probes."
    )
    quorum: Endpoint = setting("quorum.endpoint", endpoint(), "The quorum node beside it.")
    controller: Endpoint = setting("controller.endpoint", endpoint(), "The controller beside it.")
    heartbeat: Endpoint = setting("heartbeat.endpoint", endpoint(), "The heartbeat service.")
    gateways: tuple[ConfiguredVoter, ...] = setting(
        "controller.quorum.voters",
        list_of(voter(), distinct=lambda each: each.id),
        "Where a Kafka reaches each node, this one too: the gateways, as brokers have them in the same setting.",
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
        "max.connections", integer(1, INT32_MAX), "How many connections are open at once.", default=INT32_MAX
    )
    connections_per_ip_max: int = setting(
        "max.connections.per.ip",
        integer(1, INT32_MAX),
        "How many of them come from one address.",
        default=INT32_MAX,
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
        "grpc.security.protocol", choice(*PROTOCOLS), "What is spoken to the three services.", default=SSL
    )
    grpc_keystore: Path | None = setting("grpc.ssl.keystore.location", optional(path()), KEYSTORE, default=None)
    grpc_truststore: Path | None = setting("grpc.ssl.truststore.location", optional(path()), TRUSTSTORE, default=None)

    @property
    def connection_settings(self) -> ServerSettings:
        """What is accepted from one connection."""
        return ServerSettings(
            request_bytes_max=self.request_bytes_max,
            idle_ms_max=self.idle_ms_max,
            sasl_receive_bytes_max=self.sasl_receive_bytes_max,
            reauth_ms_max=self.reauth_ms_max,
            failed_authentication_delay_ms=self.failed_authentication_delay_ms,
        )

    def problems(self) -> Iterator[str]:
        """Yields the violated rules: those of the listener, and that this node is among the gateways."""
        yield from self.security_problems(self.listeners.name)
        yield from claim_problems(self.node_rules, protocol=self.security_protocol(self.listeners.name))
        stores = {"keystore": self.grpc_keystore, "truststore": self.grpc_truststore}
        for name in [name for name, store in stores.items() if store is None and self.grpc_protocol == SSL]:
            instead = f"grpc.security.protocol = {PLAINTEXT}"
            yield f"grpc.ssl.{name}.location: is missing; the services speak {SSL}, in the clear only by {instead}"
        if self.node_id not in {each.id for each in self.gateways}:
            known = ",".join(map(str, self.gateways))
            yield f"controller.quorum.voters = {known}: must have an entry for node.id {self.node_id}, this gateway"
