"""The listeners of a plan's gateways: where each node is at each of them, and the settings that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deploy.local.plan import OWN_LISTENER, ClusterPlan, Process
from deploy.local.ports import HOST, free_ports
from quorate.nouns import NodeId


@dataclass(frozen=True)
class KafkaListeners:
    """Each node's address at each listener, by the listener's name and the node's id, on free ports of loopback."""

    node_ids: Sequence[NodeId]
    protocols: Mapping[str, str]
    """The security protocol of each by its name."""
    addresses: dict[str, dict[NodeId, tuple[str, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in [name for name in self.protocols if name not in self.addresses]:
            ports = free_ports(len(self.node_ids))
            self.addresses[name] = {node_id: (HOST, port) for node_id, port in zip(self.node_ids, ports, strict=True)}

    @staticmethod
    def beside(plan: ClusterPlan, protocols: Mapping[str, str]) -> KafkaListeners:
        """The first of `protocols` is the listener that the plan's gateways have; the others are to come."""
        at = {}
        for node_id, gateway in enumerate(plan.gateways, start=1):
            host, _, port = gateway.settings["listeners"].partition("://")[2].rpartition(":")
            at[node_id] = (host, int(port))
        return KafkaListeners(list(at), protocols, {next(iter(protocols)): at})

    def settings(self, node_id: NodeId, *names: str) -> dict[str, str]:
        """What the gateway of this node has to say to listen at these."""
        return {
            "listeners": ",".join(f"{name}://{_text(self.addresses[name][node_id])}" for name in names),
            "listener.security.protocol.map": ",".join(f"{name}:{self.protocols[name]}" for name in names),
            "controller.quorum.voters": ",".join(
                f"{other}@{name}://{_text(self.addresses[name][other])}" for name in names for other in self.node_ids
            ),
        }

    def announced(self, node: Process, node_id: NodeId, *names: str) -> dict[str, str]:
        """What the quorum node beside this gateway has to say so that the voters record has these, too."""
        of_gateway = [f"{name}://{_text(self.addresses[name][node_id])}" for name in names]
        return {
            "advertised.listeners": ",".join([*of_gateway, f"{OWN_LISTENER}://{node.address}"]),
            "kafka.listener.security.protocol.map": ",".join(f"{name}:{self.protocols[name]}" for name in names),
        }


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"
