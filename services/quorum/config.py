"""What a quorum node has to be told. Names and defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quorate.raft.settings import Settings
from quorate.runtime.config import setting
from quorate.runtime.kinds import (
    Listener,
    Voter,
    integer,
    list_of,
    listener,
    milliseconds,
    path,
    size,
    voter,
)

DEFAULTS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one quorum node."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "The id of this node.")
    metadata_log_dir: Path = setting("metadata.log.dir", path(), "The formatted directory that holds the log.")
    listeners: Listener = setting("listeners", listener(), "Where peers, observers and the controller reach this node.")
    voters: tuple[Voter, ...] = setting(
        "controller.quorum.voters",
        list_of(voter(), low=0, distinct=lambda voter: voter.id),
        "The static voter set; empty where the log has the voters (KIP-853).",
        default=(),
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
    absence_timeout_ms: int = setting(
        "controller.absence.timeout.ms",
        milliseconds(0),
        "How long this node may lead while no controller listens to it; 0 for ever.",
        default=1_000,
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

    @property
    def raft(self) -> Settings:
        """What the core is told."""
        return Settings(
            election_timeout_ms=self.election_timeout_ms,
            election_backoff_max_ms=self.election_backoff_max_ms,
            fetch_timeout_ms=self.fetch_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
        )

    def problems(self) -> Iterator[str]:
        """What does not fit together."""
        if self.voters and self.node_id not in {voter.id for voter in self.voters}:
            known = ",".join(str(voter) for voter in self.voters)
            yield f"node.id = {self.node_id} is not among controller.quorum.voters = {known}; a quorum node votes"
