"""The metrics of a quorum node, each with its Kafka name: one table, which the README prints."""

from __future__ import annotations

from typing import Final

from quorate.runtime.telemetry import metric_rows
from quorate.runtime.telemetry.metric_rows import Row, declare, one
from quorate.runtime.telemetry.metrics import histogram
from services.quorum import readings
from services.quorum.readings import MeasuredNode

RAFT: Final = "kafka.server:type=raft-metrics,name="
SNAPSHOT: Final = "kafka.server:type=SnapshotEmitter,name="
CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
NS: Final = 1e-9


def raft(*names: str) -> tuple[str, ...]:
    """Returns the full JMX names of these raft-metrics of Kafka."""
    return tuple(RAFT + name for name in names)


ROWS: Final = (
    Row[MeasuredNode](
        name="kraft.quorum.state",
        kind="gauge",
        unit="1",
        help="1 for the state that this node is in (`kraft.role`), 0 for every other.",
        kafka=raft("current-state"),
        read=readings.states,
    ),
    Row[MeasuredNode](
        name="kraft.quorum.leader.id",
        kind="gauge",
        unit="1",
        help="The leader's id, as far as this node knows; -1 if it does not.",
        kafka=raft("current-leader"),
        read=one(readings.leader),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.vote.id",
        kind="gauge",
        unit="1",
        help="Whom this node voted for in its epoch, its directory as a label; -1 for nobody.",
        kafka=raft("current-vote", "current-vote-directory-id"),
        read=readings.voted,
    ),
    Row[MeasuredNode](
        name="kraft.quorum.epoch",
        kind="gauge",
        unit="1",
        help="The epoch of this node.",
        kafka=raft("current-epoch"),
        read=one(lambda node: node.core.role.epoch),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.high_watermark",
        kind="gauge",
        unit="{record}",
        help="The offset below which this node knows all to be committed.",
        kafka=raft("high-watermark"),
        read=one(readings.high_watermark),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.log.end_offset",
        kind="gauge",
        unit="{record}",
        help="The offset after the last record.",
        kafka=raft("log-end-offset"),
        read=one(lambda node: node.core.log.leo),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.log.end_epoch",
        kind="gauge",
        unit="1",
        help="The epoch of the last record.",
        kafka=raft("log-end-epoch"),
        read=one(lambda node: node.core.log.last.epoch),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.log.flushed_offset",
        kind="gauge",
        unit="{record}",
        help="The offset below which all is on this node's disk.",
        read=one(lambda node: node.core.log.flushed),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.log.start_offset",
        kind="gauge",
        unit="{record}",
        help="The offset of the first record.",
        read=one(lambda node: node.core.log.start),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.log.size",
        kind="gauge",
        unit="By",
        help="The log and its snapshots on the disk.",
        read=one(lambda node: node.disk.size),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.log.free_space",
        kind="gauge",
        unit="By",
        help="Free space of the file system that the log is on; `metadata.log.min.free.bytes` is compared with it.",
        read=one(lambda node: node.disk.free_bytes),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.voters",
        kind="gauge",
        unit="{node}",
        help="Voters in the set in force.",
        kafka=raft("number-of-voters"),
        read=one(lambda node: len(node.core.log.voters.latest.ids)),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.observers",
        kind="gauge",
        unit="{node}",
        help="Observers that have fetched lately; the leader's to say.",
        kafka=raft("number-of-observers"),
        read=one(readings.observers),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.voters.unreached",
        kind="gauge",
        unit="{node}",
        help="Other voters of which no address is known.",
        kafka=raft("number-unknown-voter-connections"),
        read=one(readings.unreached),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.voters.changing",
        kind="gauge",
        unit="1",
        help="1 while a change of the voter set is not committed, else 0; the leader's to say.",
        kafka=raft("uncommitted-voter-change"),
        read=one(readings.is_changing),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.voters.static_ignored",
        kind="gauge",
        unit="1",
        help="1 if controller.quorum.voters is set but the log has the voters, else 0.",
        kafka=(
            CONTROLLER + "IgnoredStaticVoters",
            "kafka.server:type=broker-metadata-metrics,name=ignored-static-voters",
        ),
        read=one(readings.ignores_static),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.replica.lag",
        kind="gauge",
        unit="{record}",
        help="Records that a replica does not have yet on its disk, by node; the leader's to say.",
        read=readings.lags,
    ),
    Row[MeasuredNode](
        name="kraft.quorum.snapshot.size",
        kind="gauge",
        unit="By",
        help="The latest snapshot; 0 without one.",
        kafka=(SNAPSHOT + "LatestSnapshotGeneratedBytes",),
        read=one(readings.snapshot_bytes),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.snapshot.age",
        kind="gauge",
        unit="s",
        help="How long ago the last record in the latest snapshot was appended.",
        kafka=(SNAPSHOT + "LatestSnapshotGeneratedAgeMs",),
        read=one(readings.snapshot_age),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.append.records",
        kind="counter",
        unit="{record}",
        help="Records appended as leader; Kafka's is their rate.",
        kafka=raft("append-records-rate"),
        read=one(lambda node: node.counts.appended),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.fetch.records",
        kind="counter",
        unit="{record}",
        help="Records taken over from a leader; Kafka's is their rate.",
        kafka=raft("fetch-records-rate"),
        read=one(lambda node: node.counts.fetched),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.answers.refused",
        kind="counter",
        unit="{answer}",
        help="Answers of peers that were not taken: damaged, or in breach of a rule that the log names.",
        read=one(lambda node: node.counts.refused),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.requests.denied",
        kind="counter",
        unit="{request}",
        help="Requests to peers that were answered with CLUSTER_AUTHORIZATION_FAILED; Kafka's node ends at one.",
        read=one(lambda node: node.counts.denied),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.busy.time",
        kind="counter",
        unit="s",
        help="Processor time of the event loop; 1 less its rate is Kafka's.",
        kafka=raft("poll-idle-ratio-avg"),
        read=one(readings.busy),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.commit.duration",
        kind="histogram",
        unit="s",
        help="From the append of a batch by the leader until it is committed.",
        kafka=raft("commit-latency-avg", "commit-latency-max"),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.election.duration",
        kind="histogram",
        unit="s",
        help="From the first request for votes, or pre-votes, until a leader is known.",
        kafka=raft("election-latency-avg", "election-latency-max"),
    ),
    Row[MeasuredNode](
        name="kraft.quorum.flush.duration",
        kind="histogram",
        unit="s",
        help="How long the disk was waited for, once for all that was appended meanwhile.",
    ),
)
"""All metrics of a quorum node."""

ABSENT: Final = {
    "kafka.server:type=raft-channel-metrics": "Bytes and connections of Kafka's own network layer; ours is gRPC's.",
    "kafka.server:type=node-metrics": "Feature levels. FindQuorum says kraft.version; the others are the controller's.",
}
"""Kafka's metrics that a quorum node does not have, each with the reason."""

watch = declare(ROWS)
"""Binds the metrics to a node, whose values are read at each export."""
COMMIT, ELECTION, FLUSH = (histogram(row.name, row.unit, row.help) for row in ROWS if row.kind == "histogram")


def markdown() -> list[str]:
    """Returns the metrics table of the README as lines of Markdown."""
    return metric_rows.markdown(ROWS, ABSENT, _short)


def _short(name: str) -> str:
    """Returns a Kafka metric name, without its prefix if it is one of raft-metrics."""
    return name.removeprefix(RAFT)
