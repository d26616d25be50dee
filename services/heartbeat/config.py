"""The configuration of the heartbeat service. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.liveness import SESSION_TIMEOUT_MS
from quorate.runtime.access.claims import NodeSettings, claim_problems
from quorate.runtime.access.entry_guard import everyone_setting
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import (
    Endpoint,
    endpoint,
    integer,
    list_of,
    milliseconds,
    optional,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatConfig(NodeSettings):
    """The settings of one heartbeat service."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "Which copy this is, for logs and traces.", default=0)
    quorum: tuple[Endpoint, ...] = setting(
        "controller.quorum.bootstrap.servers", list_of(endpoint()), "Quorum nodes, for the log."
    )
    cluster_id: str | None = setting(
        "cluster.id",
        optional(text()),
        "Only this cluster's log is read; without it that of the node which answers first after a start.",
        default=None,
    )
    controllers: tuple[Endpoint, ...] = setting(
        "controller.endpoints", list_of(endpoint()), "Controllers, for changes of a broker's state; any will do."
    )
    session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        milliseconds(1),
        "A broker is fenced after so long without a heartbeat.",
        default=SESSION_TIMEOUT_MS,
    )
    allow_everyone_if_no_acl_found: bool = everyone_setting()

    def problems(self) -> Iterator[str]:
        """Yields a message for each rule about listeners that the settings violate."""
        yield from self.security_problems()
        yield from claim_problems(self.node_rules, protocol=self.least_protocol)
