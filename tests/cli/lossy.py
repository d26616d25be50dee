"""A directory of a Kafka controller whose later checkpoints lack users that its log has: `tests/interop/unsound`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from quorate.storage.names import LOG, PARTITION_DIRECTORY, segment_file
from quorate.wire.batch import batches

NODE: Final = Path(__file__).parents[1] / "interop" / "unsound" / "lost-scram" / "node-1"
CHECKPOINTS: Final = (23, 43, 65)
"""The first one is whole: it has mallory. Then one batch removes mallory, and sets alice and bob."""
LOST: Final = "'alice' (SCRAM-SHA-256), 'bob' (SCRAM-SHA-256)"


def lossy(directory: Path, *, log_from: int = 0) -> Path:
    """A copy, and its partition's directory in it. Its log begins at `log_from`: a checkpoint, or 0."""
    shutil.copytree(NODE, directory, ignore=shutil.ignore_patterns("*.dump.txt", "*index", "*.snapshot"))
    partition = directory / PARTITION_DIRECTORY
    if log_from:
        whole = segment_file(partition, 0, LOG)
        data = whole.read_bytes()
        (begin,) = (position for position, header in batches(data) if header.base_offset == log_from)
        segment_file(partition, log_from, LOG).write_bytes(data[begin:])
        whole.unlink()
        for before in (each for each in CHECKPOINTS if each < log_from):
            checkpoint(partition, before).unlink()
    return partition


def checkpoint(partition: Path, offset: int) -> Path:
    """The checkpoint of an offset."""
    (found,) = partition.glob(f"{offset:020d}-*.checkpoint")
    return found
