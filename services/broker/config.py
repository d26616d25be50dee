"""The configuration of a broker. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.nouns import NodeId
from quorate.replication import ReplicationSettings
from quorate.runtime.calls.transport_settings import GRPC_PROTOCOLS, KEYSTORE, PLAINTEXT, SSL, TRUSTSTORE, mapping_rules
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import (
    ListenerAddress,
    choice,
    integer,
    list_of,
    listener,
    milliseconds,
    optional,
    path,
    text,
)
from quorate.tls.ssl_principals import DEFAULT_RULES
from services.broker.control_plane import ControlPlane

FOR_FORMAT: Final = ("process.roles",)
"""Settings that `quorate storage format` reads in the same file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(ControlPlane):
    """The settings of one broker."""

    node_id: NodeId = setting("node.id", integer(0, 2**31 - 1), "The id of this broker.")
    log_dirs: tuple[Path, ...] = setting("log.dirs", list_of(path()), "The formatted directories that hold the logs.")
    rack: str | None = setting("broker.rack", optional(text()), "The rack that it stands in.", default=None)
    health_listeners: ListenerAddress = setting(
        "health.listeners", listener(), "Where gRPC health is asked for, by probes."
    )
    heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms",
        milliseconds(1),
        "How often it shows that it is alive; a fraction of `broker.session.timeout.ms`.",
        default=2_000,
    )
    registration_timeout_ms: int = setting(
        "initial.broker.registration.timeout.ms",
        milliseconds(1),
        "How long it tries to register, such as while the session of a process before it lasts; then it ends.",
        default=60_000,
    )
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        milliseconds(1),
        "How long a member of the ISR may be behind the leader's end; then the leader has it removed.",
        default=30_000,
    )

    grpc_listens: ListenerAddress | None = setting(
        "grpc.listeners",
        optional(listener()),
        "Where it serves kraft.service.Broker by gRPC, in grpc.security.protocol; nowhere without it.",
        default=None,
    )
    grpc_protocol: str = setting(
        "grpc.security.protocol",
        choice(*GRPC_PROTOCOLS),
        "What is spoken to the services, and at grpc.listeners.",
        default=SSL,
    )
    grpc_keystore: Path | None = setting("grpc.ssl.keystore.location", optional(path()), KEYSTORE, default=None)
    grpc_truststore: Path | None = setting("grpc.ssl.truststore.location", optional(path()), TRUSTSTORE, default=None)
    grpc_principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        mapping_rules(),
        "From a client's certificate to its principal, at grpc.listeners, too; the first rule that is for it counts.",
        default=DEFAULT_RULES,
    )

    def problems(self) -> Iterator[str]:
        """Yields the violated rules of TLS files, listeners and the control plane, as texts that name the setting."""
        stores = {"keystore": self.grpc_keystore, "truststore": self.grpc_truststore}
        is_needed = self.speaks_grpc and self.grpc_protocol == SSL
        for name in [name for name, store in stores.items() if store is None and is_needed]:
            instead = f"grpc.security.protocol = {PLAINTEXT}"
            yield f"grpc.ssl.{name}.location: is missing; the services speak {SSL}, in the clear only by {instead}"
        yield from self.broker_listener_problems()
        yield from self.control_plane_problems()

    @property
    def speaks_grpc(self) -> bool:
        """Whether this broker calls services of Quorate, or serves records, by gRPC. Health probes do not count."""
        return not self.is_kafkas or self.grpc_listens is not None

    @property
    def replication(self) -> ReplicationSettings:
        """The settings of `quorate.replication`; its times are in ms."""
        return ReplicationSettings(replica_lag_time_max_ms=self.replica_lag_time_max_ms)

    def transport(self) -> Transport:
        """Returns how services are called, and `grpc.listeners` served. Raises ConfigError for unfit files."""
        is_unused = not self.speaks_grpc and None in (self.grpc_keystore, self.grpc_truststore)
        if self.grpc_protocol == PLAINTEXT or is_unused:
            return PLAIN
        return Transport(
            keystore=self.grpc_keystore, truststore=self.grpc_truststore, principal_rules=self.grpc_principal_rules
        )
