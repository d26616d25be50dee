"""Metadata directories made by our own log, and the command run on them."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from kraft import Message, Uuid
from kraft.control.leader_change_message import LeaderChangeMessage
from quorate.cli import failures
from quorate.cli.app import app
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch, parse_uuid
from quorate.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
    encode_record,
    with_trace,
)
from quorate.storage.disk_log import DiskLog
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.meta_properties import MetaProperties, write_meta_properties
from quorate.storage.names import PARTITION_DIRECTORY
from quorate.storage.snapshots import SnapshotWriter
from quorate.wire.batch import ControlType, control_batch, data_batch
from quorate.wire.codec import encode

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
KAFKA_NODES = sorted(path.parent for path in FIXTURES.rglob("meta.properties"))
"""Log directories of nodes of a Kafka release."""
LOG_NAME = "00000000000000000000.log"

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_ID = parse_uuid("o6B3fqWpTcGGtv9rO14jCQ")
TOPIC_ID = parse_uuid("hJvfCk0kQ3KiQ6rECn5K3g")
BROKER_DIRECTORY = parse_uuid("QvatsVbiTYiq1DqNpEJfGA")
START_MS = 1_700_000_000_000
TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@functools.cache
def command() -> Callable[..., object]:
    """The command as Click has it: to make it of all its options takes longer than most of what it does here."""
    made: Callable[..., object] = typer.main.get_command(app)
    return made


def run(*arguments: object) -> Ran:
    """The command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = failures.run(command(), [str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def run_apart(*arguments: object, **environment: str) -> Ran:
    """The command as a process of its own, as people run it."""
    command = [sys.executable, "-m", "quorate.cli", *map(str, arguments)]
    ran = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=240, env={**os.environ, **environment}
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def leader_change(epoch: int, offset: int) -> bytes:
    """The batch with which node 1 begins an epoch."""
    voter = LeaderChangeMessage.Voter(1)
    change = encode(LeaderChangeMessage(leader_id=1, voters=(voter,), granting_voters=(voter,)), 0)
    return control_batch(
        base_offset=offset, epoch=epoch, timestamp_ms=START_MS + offset, records=[(ControlType.LEADER_CHANGE, change)]
    )


def batch(epoch: int, offset: int, *records: tuple[Message, int]) -> bytes:
    """A batch of records, each with its version."""
    values = [encode_record(record, version) for record, version in records]
    return data_batch(base_offset=offset, epoch=epoch, timestamp_ms=START_MS + offset, values=values)


def a_history() -> Sequence[bytes]:
    """Batches of two epochs: features, a broker, a topic, a change that carries a trace, a config."""
    broker = RegisterBrokerRecord(
        broker_id=2,
        incarnation_id=Uuid(bytes(range(16))),
        broker_epoch=3,
        end_points=(RegisterBrokerRecord.BrokerEndpoint("PLAINTEXT", "broker-2", 9092, 0),),
        rack="a",
        log_dirs=(BROKER_DIRECTORY,),
    )
    partition = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=(2,),
        isr=(2,),
        leader=2,
        leader_epoch=0,
        partition_epoch=0,
        directories=(BROKER_DIRECTORY,),
    )
    change = with_trace(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2), TRACEPARENT)
    return (
        leader_change(1, 0),
        batch(1, 1, (FeatureLevelRecord("metadata.version", 25), 0), (FeatureLevelRecord("group.version", 1), 0)),
        batch(1, 3, (broker, 3)),
        batch(1, 4, (BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=3, fenced=-1), 0)),
        batch(1, 5, (TopicRecord("foo.bar", TOPIC_ID), 0), (partition, 2)),
        leader_change(2, 7),
        batch(2, 8, (change, 2)),
        batch(2, 9, (ConfigRecord(2, "foo.bar", "retention.ms", "1000"), 0), (NoOpRecord(), 0)),
    )


END_OFFSET = 11
LAST_EPOCH = 2


def write_log(
    directory: Path, batches: Sequence[bytes], *, epoch: int = LAST_EPOCH, segment_bytes: int = 1 << 30
) -> Path:
    """A log directory of node 1 with these batches, closed cleanly. The answer is its partition."""
    directory.mkdir(parents=True, exist_ok=True)
    log = DiskLog(directory, segment_bytes=segment_bytes)
    for each in batches:
        log.append(each)
    log.close()
    partition = directory / PARTITION_DIRECTORY
    ElectionFile(partition, voters=(1,)).write(StoredElection(epoch=epoch, leader_id=1), version=0)
    write_meta_properties(directory, MetaProperties(cluster_id=CLUSTER_ID, node_id=1, directory_id=DIRECTORY_ID))
    return partition


def write_checkpoint(partition: Path, state: ClusterState, snapshot: OffsetAndEpoch) -> None:
    """The checkpoint of a state."""
    writer = SnapshotWriter(partition, snapshot, timestamp_ms=START_MS)
    header = SnapshotHeaderRecord(last_contained_log_timestamp=START_MS)
    writer.control([(ControlType.SNAPSHOT_HEADER, encode(header, 0))])
    writer.data(encode_record(record, version) for record, version in state.records())
    writer.finish(encode(SnapshotFooterRecord(), 0))


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a directory: its bytes, and when it was changed last."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files_of(directory)}


def files_of(directory: Path) -> Iterator[Path]:
    """Every file below a directory."""
    return (path for path in sorted(directory.rglob("*")) if path.is_file())


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Change bits of one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)
