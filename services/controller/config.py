"""The configuration of a controller. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quorate.metadata.scram import MECHANISMS
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.access.claims import NodeSettings, claim_problems
from quorate.runtime.access.entry_guard import everyone_setting
from quorate.runtime.calls.transport_settings import PLAINTEXT, SSL
from quorate.runtime.clients.reaching import advertised, reached_at
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import (
    Endpoint,
    ListenerAddress,
    boolean,
    choice,
    endpoint,
    integer,
    list_of,
    milliseconds,
    named_choice,
    optional,
    path,
    python_class,
    size,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(NodeSettings):
    """The settings of one controller process, by their property names."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "The id of this node: that of the quorum node beside it.")
    advertised_listeners: tuple[ListenerAddress, ...] = setting(
        "advertised.listeners",
        list_of(advertised(), low=0, distinct=lambda each: each.name),
        "Where others reach this controller, if not by `listeners`, and its gateway: they go into the log (KIP-919).",
        default=(),
    )
    kafka_protocols: tuple[tuple[str, str], ...] = setting(
        "kafka.listener.security.protocol.map",
        list_of(named_choice(*SECURITY_PROTOCOLS), low=0, distinct=lambda each: each[0]),
        "What is spoken at its gateway's listeners that are advertised, for the log; by default what this one's speak.",
        default=(),
    )
    quorum: Endpoint = setting("quorum.endpoint", endpoint(), "The quorum node beside it.")
    placers: tuple[Endpoint, ...] = setting(
        "placer.endpoints", list_of(endpoint()), "Placers; the first that answers is asked."
    )
    heartbeats: tuple[Endpoint, ...] = setting(
        "heartbeat.endpoint",
        list_of(endpoint(), low=0),
        "Heartbeat services, one of which counts: it says whose session is valid when a process registers as a broker.",
        default=(),
    )
    metadata_log_dir: Path = setting(
        "metadata.log.dir", path(), "The formatted directory, for its bootstrap records and its meta.properties."
    )
    num_partitions: int = setting(
        "num.partitions", integer(1, 2**31 - 1), "Partitions of a topic that does not say how many.", default=1
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        integer(1, 32767),
        "Replicas of a topic that does not say how many.",
        default=1,
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable", boolean(), "Whether topics can be deleted at all.", default=True
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit",
        integer(1, 2**31 - 1),
        "Partitions that DescribeTopicPartitions tells of in one answer, at most.",
        default=2_000,
    )
    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable",
        boolean(),
        "Whether partitions are given back to their preferred leaders by themselves.",
        default=True,
    )
    imbalance_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds",
        integer(1),
        "How often they are.",
        default=300,
    )
    unclean_election_interval_ms: int = setting(
        "unclean.leader.election.interval.ms",
        milliseconds(1, None),
        "How often partitions without a leader are looked at whose topics allow one that lacks records.",
        default=300_000,
    )
    idle_interval_ms: int = setting(
        "metadata.max.idle.interval.ms",
        milliseconds(0),
        "How often the active controller writes a NoOpRecord, whatever else is written; 0 for never.",
        default=500,
    )
    performance_period_ms: int = setting(
        "controller.performance.sample.period.ms",
        milliseconds(100, None),
        "How often it is written down how long decisions took.",
        default=60_000,
    )
    performance_always_log_ms: int = setting(
        "controller.performance.always.log.threshold.ms",
        milliseconds(0, None),
        "A decision that takes so long is written down at once.",
        default=2_000,
    )
    bytes_between_snapshots: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        size(1),
        "A snapshot is made when so much of the log lies behind the last one.",
        default=20 << 20,
    )
    snapshot_interval_ms: int = setting(
        "metadata.log.max.snapshot.interval.ms",
        milliseconds(0, None),
        "A snapshot is made so long after the last one if the log has gone on; 0 for never.",
        default=3600 * 1000,
    )
    delegation_token_secret_key: str | None = setting(
        "delegation.token.secret.key",
        optional(text()),
        "What delegation tokens are made with, the same on all controllers and brokers; without it there are none.",
        default=None,
        secret=True,
    )
    delegation_token_max_lifetime_ms: int = setting(
        "delegation.token.max.lifetime.ms",
        milliseconds(1, None),
        "So long a delegation token can be renewed.",
        default=7 * 24 * 3600 * 1000,
    )
    delegation_token_expiry_time_ms: int = setting(
        "delegation.token.expiry.time.ms",
        milliseconds(1, None),
        "So long a delegation token is good without being renewed.",
        default=24 * 3600 * 1000,
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        "delegation.token.expiry.check.interval.ms",
        milliseconds(1, None),
        "How often delegation tokens that have expired are removed.",
        default=3600 * 1000,
    )
    quota_window_num: int = setting(
        "controller.quota.window.num",
        integer(1, 2**31 - 1),
        "A client may do at once what its controller_mutation_rate gives it in so many windows.",
        default=11,
    )
    quota_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds",
        integer(1, 2**31 - 1),
        "How long such a window is.",
        default=1,
    )
    create_topic_policy: type | None = setting(
        "create.topic.policy.class.name",
        optional(python_class("validate")),
        "A class that may refuse new topics (quorate.controller.policies).",
        default=None,
    )
    alter_config_policy: type | None = setting(
        "alter.config.policy.class.name",
        optional(python_class("validate")),
        "A class that may refuse changes of configs (quorate.controller.policies).",
        default=None,
    )
    sasl_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        list_of(choice(*MECHANISMS.values()), low=0),
        "By whose credentials admins may log in, with a password or a delegation token in a call's metadata.",
        default=(),
    )
    allow_everyone_if_no_acl_found: bool = everyone_setting()

    def problems(self) -> Iterator[str]:
        """Yields a message for each rule about listeners that the settings violate."""
        yield from self.security_problems()
        yield from self.controller_listener_problems()
        for each in self.listeners:
            if each.name in dict(self.kafka_protocols):
                yield f"listeners = {each}: this controller speaks gRPC there; Kafka's wire is spoken by its gateway"
        if self.sasl_mechanisms and self.least_protocol == PLAINTEXT:
            known = ",".join(self.sasl_mechanisms)
            yield f"sasl.enabled.mechanisms = {known}: all listeners must speak {SSL}; else others can read passwords"
        yield from claim_problems(self.node_rules, protocol=self.least_protocol)

    @property
    def listener_name(self) -> str:
        """The name of the listener for other controllers' calls: by `controller.listener.names`, else the first."""
        if self.controller_listeners or not self.advertised_listeners:
            return self.controller_listener
        return self.advertised_listeners[0].name

    def registered(self, ports: Sequence[int]) -> tuple[tuple[ListenerAddress, str], ...]:
        """Returns the listeners to register, each with its security protocol; `ports` are those of `listeners`.

        An advertised listener that is not of this process is its gateway's.
        """
        own = {each.name: self.security_protocol(each.name) for each in self.listeners}
        known, other = dict(self.kafka_protocols) | own, self.security_protocol(self.controller_listener)
        listeners = self.advertised_listeners or tuple(
            reached_at(each, None, port=port) for each, port in zip(self.listeners, ports, strict=True)
        )
        return tuple((each, known.get(each.name, other)) for each in listeners)
