"""What a quorum node says of itself in numbers, beside Kafka's names for the same: the table that the README prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from quorate.runtime.metrics import Observed, Value, histogram, observed
from services.quorum import readings
from services.quorum.readings import Node

RAFT: Final = "kafka.server:type=raft-metrics,name="
SNAPSHOT: Final = "kafka.server:type=SnapshotEmitter,name="
CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
NS: Final = 1e-9

Read = Callable[[Node], Iterable[Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A metric, the names that Kafka has for it, and how it is read; None if it is recorded as it happens."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    kafka: tuple[str, ...] = ()
    read: Read | None = None


def raft(*names: str) -> tuple[str, ...]:
    """Kafka's raft-metrics of these names."""
    return tuple(RAFT + name for name in names)


ROWS: Final = (
    Row(
        name="kraft.quorum.state",
        kind="gauge",
        unit="1",
        help="1 for the state that this node is in (`kraft.role`), 0 for every other.",
        kafka=raft("current-state"),
        read=readings.states,
    ),
    Row(
        name="kraft.quorum.leader.id",
        kind="gauge",
        unit="1",
        help="Who leads, as far as this node knows; -1 if it does not.",
        kafka=raft("current-leader"),
        read=readings.one(readings.leader),
    ),
    Row(
        name="kraft.quorum.vote.id",
        kind="gauge",
        unit="1",
        help="Whom this node voted for in its epoch, its directory as a label; -1 for nobody.",
        kafka=raft("current-vote", "current-vote-directory-id"),
        read=readings.voted,
    ),
    Row(
        name="kraft.quorum.epoch",
        kind="gauge",
        unit="1",
        help="The epoch of this node.",
        kafka=raft("current-epoch"),
        read=readings.one(lambda node: node.core.role.epoch),
    ),
    Row(
        name="kraft.quorum.high_watermark",
        kind="gauge",
        unit="{record}",
        help="The offset below which this node knows all to be committed.",
        kafka=raft("high-watermark"),
        read=readings.one(readings.high_watermark),
    ),
    Row(
        name="kraft.quorum.log.end_offset",
        kind="gauge",
        unit="{record}",
        help="The offset after the last record.",
        kafka=raft("log-end-offset"),
        read=readings.one(lambda node: node.core.log.leo),
    ),
    Row(
        name="kraft.quorum.log.end_epoch",
        kind="gauge",
        unit="1",
        help="The epoch of the last record.",
        kafka=raft("log-end-epoch"),
        read=readings.one(lambda node: node.core.log.last.epoch),
    ),
    Row(
        name="kraft.quorum.log.flushed_offset",
        kind="gauge",
        unit="{record}",
        help="The offset below which all is on this node's disk.",
        read=readings.one(lambda node: node.core.log.flushed),
    ),
    Row(
        name="kraft.quorum.log.start_offset",
        kind="gauge",
        unit="{record}",
        help="The offset of the first record.",
        read=readings.one(lambda node: node.core.log.start),
    ),
    Row(
        name="kraft.quorum.log.size",
        kind="gauge",
        unit="By",
        help="The log and its snapshots on the disk.",
        read=readings.one(lambda node: node.disk.size),
    ),
    Row(
        name="kraft.quorum.voters",
        kind="gauge",
        unit="{node}",
        help="Voters in the set in force.",
        kafka=raft("number-of-voters"),
        read=readings.one(lambda node: len(node.core.log.voters.latest.ids)),
    ),
    Row(
        name="kraft.quorum.observers",
        kind="gauge",
        unit="{node}",
        help="Observers that have fetched lately; the leader's to say.",
        kafka=raft("number-of-observers"),
        read=readings.one(readings.observers),
    ),
    Row(
        name="kraft.quorum.voters.unreached",
        kind="gauge",
        unit="{node}",
        help="Other voters of which no address is known.",
        kafka=raft("number-unknown-voter-connections"),
        read=readings.one(readings.unreached),
    ),
    Row(
        name="kraft.quorum.voters.changing",
        kind="gauge",
        unit="1",
        help="1 while a change of the voter set is not committed, else 0; the leader's to say.",
        kafka=raft("uncommitted-voter-change"),
        read=readings.one(readings.is_changing),
    ),
    Row(
        name="kraft.quorum.voters.static_ignored",
        kind="gauge",
        unit="1",
        help="1 if controller.quorum.voters is set but the log has the voters, else 0.",
        kafka=(
            CONTROLLER + "IgnoredStaticVoters",
            "kafka.server:type=broker-metadata-metrics,name=ignored-static-voters",
        ),
        read=readings.one(readings.ignores_static),
    ),
    Row(
        name="kraft.quorum.replica.lag",
        kind="gauge",
        unit="{record}",
        help="Records that a replica does not have yet on its disk, by node; the leader's to say.",
        read=readings.lags,
    ),
    Row(
        name="kraft.quorum.snapshot.size",
        kind="gauge",
        unit="By",
        help="The latest snapshot; 0 without one.",
        kafka=(SNAPSHOT + "LatestSnapshotGeneratedBytes",),
        read=readings.one(readings.snapshot_bytes),
    ),
    Row(
        name="kraft.quorum.snapshot.age",
        kind="gauge",
        unit="s",
        help="How long ago the last record in the latest snapshot was appended.",
        kafka=(SNAPSHOT + "LatestSnapshotGeneratedAgeMs",),
        read=readings.one(readings.snapshot_age),
    ),
    Row(
        name="kraft.quorum.append.records",
        kind="counter",
        unit="{record}",
        help="Records appended as leader; Kafka's is their rate.",
        kafka=raft("append-records-rate"),
        read=readings.one(lambda node: node.counts.appended),
    ),
    Row(
        name="kraft.quorum.fetch.records",
        kind="counter",
        unit="{record}",
        help="Records taken over from a leader; Kafka's is their rate.",
        kafka=raft("fetch-records-rate"),
        read=readings.one(lambda node: node.counts.fetched),
    ),
    Row(
        name="kraft.quorum.busy.time",
        kind="counter",
        unit="s",
        help="Processor time of the event loop; 1 less its rate is Kafka's.",
        kafka=raft("poll-idle-ratio-avg"),
        read=readings.one(readings.busy),
    ),
    Row(
        name="kraft.quorum.commit.duration",
        kind="histogram",
        unit="s",
        help="From the append of a batch by the leader until it is committed.",
        kafka=raft("commit-latency-avg", "commit-latency-max"),
    ),
    Row(
        name="kraft.quorum.election.duration",
        kind="histogram",
        unit="s",
        help="From the first request for votes, or pre-votes, until a leader is known.",
        kafka=raft("election-latency-avg", "election-latency-max"),
    ),
    Row(
        name="kraft.quorum.flush.duration",
        kind="histogram",
        unit="s",
        help="How long the disk was waited for, once for all that was appended meanwhile.",
    ),
)
"""The one place where they are declared."""

ABSENT: Final = {
    "kafka.server:type=raft-channel-metrics": "Bytes and connections of Kafka's own network layer; ours is gRPC's.",
    "kafka.server:type=node-metrics": "Feature levels. FindQuorum says kraft.version; the others are the controller's.",
}
"""What Kafka has and a quorum node has not, and why."""

_OBSERVED: Final[dict[str, tuple[Observed, Read]]] = {
    row.name: (observed(row.name, row.kind, row.unit, row.help), row.read)
    for row in ROWS
    if row.kind != "histogram" and row.read is not None
}
COMMIT, ELECTION, FLUSH = (histogram(row.name, row.unit, row.help) for row in ROWS if row.kind == "histogram")


def watch(node: Node) -> None:
    """From now on the metrics are those of `node`."""
    for metric, read in _OBSERVED.values():
        metric.read_by(lambda read=read: read(node))  # type: ignore[misc]  # mypy does not infer a default's type here


def markdown() -> list[str]:
    """The table of the README, line by line."""
    lines = ["| ours | kind, unit | Kafka's | what it is |", "|---|---|---|---|"]
    for row in ROWS:
        theirs = "<br>".join(f"`{name}`" for name in map(_short, row.kafka)) or "–"
        lines.append(f"| `{row.name}` | {row.kind}, {row.unit} | {theirs} | {row.help} |")
    return [*lines, *(f"| – | | `{name}` | {why} |" for name, why in ABSENT.items())]


def _short(name: str) -> str:
    """Most are raft-metrics: those go by their last name."""
    return name.removeprefix(RAFT)
