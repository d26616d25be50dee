"""Small metadata logs to read, written by our own batch writer, and ways to damage them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kraft import Message, Uuid
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import OffsetAndEpoch
from quorate.records import (
    PartitionChangeRecord,
    PartitionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
    encode_record,
)
from quorate.storage.names import LOG, PARTITION_DIRECTORY, checkpoint_file, segment_file
from quorate.wire.batch import ControlType, control_batch, data_batch
from quorate.wire.codec import encode

TOPIC_ID: Final = Uuid(bytes(range(16)))
NOON_MS: Final = 1_795_262_400_000
"""2026-11-21 12:00 UTC."""


def history(change_count: int = 4, name: str = "orders") -> list[list[Message]]:
    """A topic of one partition that changes its ISR: batches of records, two in the first, one in each other."""
    created = [TopicRecord(name, TOPIC_ID), PartitionRecord(0, TOPIC_ID, (1, 2), (1, 2), (), (), 1, 0, 0, 0)]
    changes = [[PartitionChangeRecord(0, TOPIC_ID, isr=(1,) if odd % 2 else (1, 2))] for odd in range(change_count)]
    return [created, *changes]


def batches(
    records: Sequence[Sequence[Message]],
    *,
    base_offset: int = 0,
    epoch: int = 1,
    first_ms: int = NOON_MS,
    every_ms: int = 60_000,
) -> list[bytes]:
    """Each batch as its bytes; a batch a minute from noon on."""
    made = []
    for number, batch in enumerate(records):
        values = [encode_record(record, record_version(record, LATEST)) for record in batch]
        at = first_ms + number * every_ms
        made.append(data_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=at, values=values))
        base_offset += len(values)
    return made


def node(directory: Path, cluster_id: str | None = None) -> Path:
    """A node's partition directory, with meta.properties above it if it has a cluster."""
    partition = directory / PARTITION_DIRECTORY
    partition.mkdir(parents=True)
    if cluster_id is not None:
        (directory / "meta.properties").write_text(f"node.id=1\nversion=1\ncluster.id={cluster_id}\n")
    return partition


def segment(partition: Path, content: Sequence[bytes], base_offset: int = 0) -> Path:
    """A segment of these batches."""
    path = segment_file(partition, base_offset, LOG)
    path.write_bytes(b"".join(content))
    return path


def checkpoint(partition: Path, records: Sequence[Message], snapshot: OffsetAndEpoch) -> Path:
    """A checkpoint with the records in one batch."""
    begin = encode(SnapshotHeaderRecord(0, NOON_MS), 0)
    end = encode(SnapshotFooterRecord(0), 0)
    values = [encode_record(record, record_version(record, LATEST)) for record in records]
    epoch = snapshot.epoch
    path = checkpoint_file(partition, snapshot)
    path.write_bytes(
        _control(0, epoch, ControlType.SNAPSHOT_HEADER, begin)
        + data_batch(base_offset=1, epoch=epoch, timestamp_ms=NOON_MS, values=values)
        + _control(1 + len(values), epoch, ControlType.SNAPSHOT_FOOTER, end)
    )
    return path


def flipped(batch: bytes) -> bytes:
    """The batch with a bit of its last byte wrong: its checksum does not fit any more."""
    return batch[:-1] + bytes((batch[-1] ^ 1,))


def _control(base_offset: int, epoch: int, kind: ControlType, value: bytes) -> bytes:
    return control_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=NOON_MS, records=[(kind, value)])
