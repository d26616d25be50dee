"""The configuration of a gateway. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.listeners.config import ListenersConfig, request_bytes_max
from quorate.nouns import NodeId
from quorate.runtime.access.claims import CLAIM_RULES, CLAIM_RULES_HELP, claim_problems, node_rules
from quorate.runtime.calls.transport_settings import GRPC_PROTOCOLS, KEYSTORE, PLAINTEXT, SSL, TRUSTSTORE
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.named_endpoints import NamedVoter, named_voter
from quorate.runtime.settings.setting_types import (
    Endpoint,
    ListenerAddress,
    choice,
    endpoint,
    integer,
    list_of,
    listener,
    optional,
    path,
    principals,
)

REQUEST_BYTES_MAX: Final = 4 << 20
"""The largest gRPC message that the services accept; Kafka accepts 100 MiB."""
INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig(ListenersConfig):
    """The settings of one gateway."""

    node_id: int = setting("node.id", integer(0, INT32_MAX), "The id of this node: that of the quorum node beside it.")
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
    request_bytes_max: int = request_bytes_max(REQUEST_BYTES_MAX)

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
        yield from self.listener_problems()
        yield from self._claim_problems()
        yield from self._gateway_problems()
        stores = {"keystore": self.grpc_keystore, "truststore": self.grpc_truststore}
        for name in [name for name, store in stores.items() if store is None and self.grpc_protocol == SSL]:
            instead = f"grpc.security.protocol = {PLAINTEXT}"
            yield f"grpc.ssl.{name}.location: is missing; the services speak {SSL}, in the clear only by {instead}"

    def _claim_problems(self) -> Iterator[str]:
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
