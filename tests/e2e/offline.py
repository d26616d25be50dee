"""What log directories say when nobody runs: each is sound, and all tell the same story (I-08, I-09, I-10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from quorate.cli.offline import load
from quorate.cli.verify import verify_path
from quorate.metadata.canonical import canonical
from quorate.nouns import Epoch, Offset
from quorate.storage.names import LOG, PARTITION_DIRECTORY, segment_bases, segment_file
from quorate.wire.batch import batches, check_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch of a node's log, from its base offset to the one after its last."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What all directories agree on: the offset up to which they all go, and the state there."""

    end_offset: Offset
    image_hash: str
    topics: frozenset[str]


def scan(log_dirs: Sequence[Path], *, cluster_id: str) -> Scan:
    """Hold the directories of a cluster's voters against each other. AssertionError for what does not fit."""
    for log_dir in log_dirs:
        assert [] == [finding for finding in verify_path(log_dir, cluster_id=cluster_id).findings if finding.fails]
    logs = [stored_log(log_dir) for log_dir in log_dirs]
    for log in logs:
        _check_alone(log)
    start, end = max(log[0].base_offset for log in logs), min(log[-1].end_offset for log in logs)
    common = [[each for each in log if start <= each.base_offset and each.end_offset <= end] for log in logs]
    assert start < end, f"the logs have nothing in common: they begin at {start} or before, one ends at {end}"
    for log_dir, log in zip(log_dirs, common, strict=True):
        _check_same(log_dirs[0], common[0], log_dir, log)
    states = [load(log_dir, as_of=end).state for log_dir in log_dirs]
    hashes = [canonical(state) for state in states]
    assert [hashes[0]] * len(hashes) == hashes, f"the states at offset {end} differ"
    return Scan(end_offset=end, image_hash=hashes[0], topics=frozenset(topic.name for topic in states[0].topics))


def stored_log(log_dir: Path) -> list[StoredBatch]:
    """Every batch of every segment, in order; each is checked. Raises Corrupt."""
    partition = log_dir / PARTITION_DIRECTORY
    found = []
    for base in segment_bases(partition):
        data = segment_file(partition, base, LOG).read_bytes()
        for position, _ in batches(data):
            header = check_batch(data, position)
            found.append(
                StoredBatch(
                    base_offset=header.base_offset,
                    end_offset=header.next_offset,
                    epoch=header.epoch,
                    data=data[position : position + header.size],
                )
            )
    assert found, f"{partition} has no batch"
    return found


def _check_alone(log: Sequence[StoredBatch]) -> None:
    """I-09: epochs do not fall. I-10: offsets are dense."""
    for before, after in pairwise(log):
        assert before.epoch <= after.epoch, (before.base_offset, before.epoch, after.base_offset, after.epoch)
        assert before.end_offset == after.base_offset, (before.base_offset, before.end_offset, after.base_offset)


def _check_same(one_dir: Path, one: Sequence[StoredBatch], other_dir: Path, other: Sequence[StoredBatch]) -> None:
    """I-08: what two logs both hold is equal, byte by byte."""
    for mine, theirs in zip(one, other, strict=True):
        assert mine == theirs, f"{one_dir} and {other_dir} part at offset {mine.base_offset}"
