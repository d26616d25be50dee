"""The configuration of a quorum node. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from quorate.raft.settings import RaftSettings
from quorate.runtime.access.claims import NodeSettings, claim_problems
from quorate.runtime.clients.reaching import advertised, reached_at
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.named_endpoints import NamedEndpoint, NamedVoter, named_endpoint, named_voter
from quorate.runtime.settings.setting_types import (
    ListenerAddress,
    boolean,
    integer,
    list_of,
    milliseconds,
    optional,
    path,
    size,
)
from services.quorum.cleaner import RetentionLimits
from services.quorum.listeners import (
    GRPC,
    ListenerProtocols,
    listener_protocol,
)

DEFAULTS = RaftSettings()
COMMIT_WAIT_MS = 10
"""Longest wait (ms) before a voter's fetch is answered only with a new high watermark, and before a follower tells an
observer of a commit; under load that halves the messages."""
OBSERVER_WAIT_MS = 3
"""Wait (ms) per observer before its fetch is answered; an answer costs 0.12 ms, so at most 4 % of the leader's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig(NodeSettings):
    """The settings of one quorum node."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "The id of this node.")
    metadata_log_dir: Path = setting("metadata.log.dir", path(), "The formatted directory that holds the log.")
    voters: tuple[NamedVoter, ...] = setting(
        "controller.quorum.voters",
        list_of(named_voter(), low=0, distinct=lambda voter: voter.id),
        "The static voter set; empty where the log has the voters (KIP-853).",
        default=(),
    )
    advertised_listeners: tuple[ListenerAddress, ...] = setting(
        "advertised.listeners",
        list_of(advertised(), low=0, distinct=lambda each: each.name),
        "Where others reach this node, if not by `listeners`; and its gateway, if brokers find voters in the log.",
        default=(),
    )
    bootstrap_servers: tuple[NamedEndpoint, ...] = setting(
        "controller.quorum.bootstrap.servers",
        list_of(named_endpoint(), low=0),
        "Nodes that may know the leader: for a node that does not vote yet (KIP-853).",
        default=(),
    )
    kafka_protocols: tuple[tuple[str, str], ...] = setting(
        "kafka.listener.security.protocol.map",
        list_of(listener_protocol(), low=0, distinct=lambda each: each[0]),
        "The names of the listeners on which Kafka's wire is spoken, and how; all others are for gRPC.",
        default=(),
    )
    peer_properties: Path | None = setting(
        "controller.quorum.peer.config",
        optional(path()),
        "A file with the properties of the listener for Kafka's wire, as its gateway has: TLS and SASL to such peers.",
        default=None,
    )
    auto_join: bool = setting(
        "controller.quorum.auto.join.enable",
        boolean(),
        "Ask for a vote once caught up, and have the vote of an earlier disk taken away (KIP-1186).",
        default=DEFAULTS.auto_join_enable,
    )
    election_timeout_ms: int = setting(
        "controller.quorum.election.timeout.ms",
        milliseconds(1),
        "Shortest wait for a leader before an election.",
        default=DEFAULTS.election_timeout_ms,
    )
    election_backoff_max_ms: int = setting(
        "controller.quorum.election.backoff.max.ms",
        milliseconds(1),
        "Longest pause after a lost election.",
        default=DEFAULTS.election_backoff_max_ms,
    )
    fetch_timeout_ms: int = setting(
        "controller.quorum.fetch.timeout.ms",
        milliseconds(1),
        "How long a follower waits for a good answer of its leader.",
        default=DEFAULTS.fetch_timeout_ms,
    )
    request_timeout_ms: int = setting(
        "controller.quorum.request.timeout.ms",
        milliseconds(1),
        "How long an answer of a peer is waited for.",
        default=DEFAULTS.request_timeout_ms,
    )
    retry_backoff_ms: int = setting(
        "controller.quorum.retry.backoff.ms",
        milliseconds(1),
        "Pause before a failed request is asked again.",
        default=DEFAULTS.retry_backoff_ms,
    )
    retry_backoff_max_ms: int = setting(
        "retry.backoff.max.ms",
        milliseconds(1),
        "Longest pause before a failed request is asked again; it doubles each time.",
        default=DEFAULTS.retry_backoff_max_ms,
    )
    append_linger_ms: int = setting(
        "controller.quorum.append.linger.ms",
        milliseconds(0),
        "How long an append waits for others; without, those that come during a flush share the next one.",
        default=0,
    )
    absence_timeout_ms: int = setting(
        "controller.absence.timeout.ms",
        milliseconds(0),
        "How long this node leads without its controller before it makes way for a voter that has one; 0 for ever.",
        default=1_000,
    )
    presence_timeout_ms: int = setting(
        "controller.presence.timeout.ms",
        milliseconds(0),
        "A controller without a heartbeat for so long is taken for hung, and counts as absent; 0 for never.",
        default=5_000,
    )
    segment_bytes: int = setting(
        "metadata.log.segment.bytes",
        size(8 << 20, 2**31 - 1),
        "A segment of the log is rolled at this size.",
        default=1 << 30,
    )
    segment_ms: int = setting(
        "metadata.log.segment.ms",
        milliseconds(1, None),
        "A segment of the log is rolled at this age.",
        default=7 * 24 * 3600 * 1000,
    )
    retention_bytes: int = setting(
        "metadata.max.retention.bytes",
        size(-1),
        "The oldest snapshot goes, and the log before the next one, while both together are larger; -1 for never.",
        default=100 << 20,
    )
    retention_ms: int = setting(
        "metadata.max.retention.ms",
        milliseconds(-1, None),
        "The oldest snapshot goes when it is older and there is a newer one; -1 for never.",
        default=7 * 24 * 3600 * 1000,
    )
    cleaning_interval_ms: int = setting(
        "metadata.log.cleaning.interval.ms",
        milliseconds(1),
        "Pause between two looks at what may be removed.",
        default=60_000,
    )
    delete_delay_ms: int = setting(
        "file.delete.delay.ms",
        milliseconds(0, None),
        "A removed file lies so long under another name before it is deleted.",
        default=60_000,
    )
    free_bytes_min: int = setting(
        "metadata.log.min.free.bytes",
        size(0),
        "With less free space on the file system of the log, the node warns and is not ready; 0 for never.",
        default=64 << 20,
    )
    fetch_max_bytes: int = setting(
        "controller.quorum.fetch.max.bytes",
        size(1, 8 << 20),
        "Size of one answer to a fetch; a larger single batch still comes whole.",
        default=DEFAULTS.fetch_max_bytes,
    )
    fetch_snapshot_max_bytes: int = setting(
        "controller.quorum.fetch.snapshot.max.bytes",
        size(1, 8 << 20),
        "Size of one piece of a snapshot that is fetched.",
        default=DEFAULTS.snapshot_max_bytes,
    )

    @property
    def raft(self) -> RaftSettings:
        """The settings of the Raft core."""
        return RaftSettings(
            election_timeout_ms=self.election_timeout_ms,
            election_backoff_max_ms=self.election_backoff_max_ms,
            fetch_timeout_ms=self.fetch_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            fetch_max_bytes=self.fetch_max_bytes,
            snapshot_max_bytes=self.fetch_snapshot_max_bytes,
            commit_wait_ms=COMMIT_WAIT_MS,
            observer_wait_ms=OBSERVER_WAIT_MS,
            auto_join_enable=self.auto_join,
            listener_name=self._required_listener,
        )

    @property
    def _required_listener(self) -> str | None:
        """The listener that each voter must have; None: the first of this node's own.

        The first for Kafka's wire in `kafka.listener.security.protocol.map` that this node has, because Kafka's nodes
        need it; or else the one at which this node calls its peers.
        """
        if self.kafka_protocols:
            own = {each.name for each in self.announced}
            return next((name for name, _ in self.kafka_protocols if name in own), None)
        is_named = bool(self.controller_listeners) or len(self.listeners) > 1
        return self.controller_listener if is_named else None

    @property
    def cleaning(self) -> RetentionLimits:
        """The retention limits and intervals for the cleaner."""
        return RetentionLimits(
            retention_bytes=self.retention_bytes,
            retention_ms=self.retention_ms,
            interval_ms=self.cleaning_interval_ms,
            delete_delay_ms=self.delete_delay_ms,
        )

    @property
    def announced(self) -> tuple[ListenerAddress, ...]:
        """The listeners by which others reach this node: advertised, from the static voters, or `listeners`."""
        if self.advertised_listeners:
            return self.advertised_listeners
        configured = {voter.id: voter.endpoint for voter in self.voters}.get(self.node_id)
        if len(self.listeners) == 1:
            return (reached_at(self.listeners[0], None, configured=configured),)
        # The configuration has the port of one listener, and the host of both.
        return tuple(
            reached_at(each, None, configured=configured and replace(configured, port=each.endpoint.port))
            for each in self.listeners
        )

    @property
    def own_controller_listener(self) -> ListenerAddress:
        """The listener at which peers call this node."""
        return next((each for each in self.announced if each.name == self.controller_listener), self.announced[0])

    @property
    def listener_protocols(self) -> ListenerProtocols:
        """The protocol of each peer listener, and at which of them this node calls peers."""
        return ListenerProtocols(dict(self.kafka_protocols), self.controller_listener, self.other_listeners)

    def problems(self) -> Iterator[str]:
        """Yields an error for each pair of settings that contradict each other."""
        yield from self.security_problems()
        yield from claim_problems(self.node_rules, protocol=self.least_protocol)
        if self.voters and self.node_id not in {voter.id for voter in self.voters}:
            known = ",".join(str(voter) for voter in self.voters)
            yield f"node.id = {self.node_id} is not among controller.quorum.voters = {known}; a quorum node votes"
        if self.voters and self.auto_join:
            yield "controller.quorum.auto.join.enable = true: with controller.quorum.voters the voters are configured"
        protocol_of = self.listener_protocols.of
        for each in self.listeners:
            if protocol_of(each.name) != GRPC:
                yield f"listeners = {each}: this node speaks {GRPC} there; Kafka's wire is spoken by its gateway"
        yield from self.controller_listener_problems()
        if all(protocol_of(each.name) != GRPC for each in self.announced):
            known = ",".join(map(str, self.announced))
            yield f"advertised.listeners = {known}: must have a listener that speaks {GRPC}, this node's own"
        yield from self._unmapped()

    def _unmapped(self) -> Iterator[str]:
        """Yields an error for each named peer whose listener's protocol is not said."""
        known = dict(self.kafka_protocols)
        for setting_name, entries in (
            ("controller.quorum.voters", self.voters),
            ("controller.quorum.bootstrap.servers", self.bootstrap_servers),
        ):
            for entry in entries:
                if entry.listener and entry.listener not in known:
                    why = f"must have an entry for {entry.listener}, which {setting_name} names"
                    listed = ",".join(map(":".join, self.kafka_protocols))
                    yield f"kafka.listener.security.protocol.map = {listed}: {why}"
