"""The protocol of a peer's listener: gRPC for our own nodes, or Kafka's wire for Kafka controllers and gateways.

`kafka.listener.security.protocol.map` has the names of the listeners on which Kafka's wire is spoken, and their
security protocols. Every other name is of a listener for gRPC, and so is an address without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.settings.setting_types import SettingType, named_choice
from services.quorum.translate import Address

__all__ = ["GRPC", "ListenerProtocols", "PeerAddress", "listener_protocol"]

GRPC: Final = "GRPC"
"""The protocol of our own nodes' listeners; the others are Kafka's security protocols."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where a peer is reached, and the protocol that it speaks there: GRPC, or one of Kafka's."""

    address: Address
    protocol: str = GRPC

    @property
    def is_grpc(self) -> bool:
        """Whether it is one of our own nodes' listeners."""
        return self.protocol == GRPC

    def __str__(self) -> str:
        return str(self.address) if self.is_grpc else f"{self.protocol} at {self.address}"


@dataclass(frozen=True, slots=True)
class ListenerProtocols:
    """`kafka.listener.security.protocol.map`: the listeners that speak Kafka's wire, and how; all others speak gRPC.

    This node calls a peer at its gRPC listener named `preferred`, or else at its first one; never at one of `unusable`,
    whose security protocol is not that of this node's calls.
    """

    by_name: Mapping[str, str] = field(default_factory=dict)
    preferred: str = ""
    unusable: frozenset[str] = frozenset()

    def of(self, listener: str) -> str:
        """Returns the protocol of a listener by its name: GRPC, or one of Kafka's; "" is an address without a name."""
        return self.by_name.get(listener, GRPC)

    def name_of(self, protocol: str) -> str:
        """Returns the first listener that speaks a protocol of Kafka's; "" for gRPC.

        >>> ListenerProtocols({"CONTROLLER": "SSL"}).name_of("SSL")
        'CONTROLLER'
        """
        return next((name for name, spoken in self.by_name.items() if spoken == protocol), "")

    def reached(self, listeners: Iterable[tuple[str, Address]]) -> PeerAddress | None:
        """Returns where a node with these listeners is reached: by gRPC if it speaks it; None if it has none.

        >>> protocols = ListenerProtocols({"CONTROLLER": "PLAINTEXT"})
        >>> print(protocols.reached([("CONTROLLER", Address("one", 9093)), ("QUORUM", Address("one", 9090))]))
        one:9090
        >>> print(protocols.reached([("CONTROLLER", Address("three", 9093))]))
        PLAINTEXT at three:9093
        >>> moving = [("QUORUM", Address("one", 9090)), ("SECURE", Address("one", 9091))]
        >>> print(ListenerProtocols(preferred="SECURE", unusable=frozenset({"QUORUM"})).reached(moving))
        one:9091
        """
        known = [(name, address) for name, address in listeners if name not in self.unusable or self.of(name) != GRPC]
        known.sort(key=lambda each: (self.of(each[0]) != GRPC, each[0] != self.preferred))
        return next((PeerAddress(address, self.of(name)) for name, address in known), None)


def takes_login(protocol: str) -> bool:
    """Returns whether clients log in (SASL) at a listener of this security protocol of Kafka's."""
    return SECURITY_PROTOCOLS[protocol].with_sasl


def listener_protocol() -> SettingType[tuple[str, str]]:
    """Returns the setting type of an entry of `kafka.listener.security.protocol.map`: (listener name, protocol)."""
    return named_choice(*SECURITY_PROTOCOLS)
