"""Small logs on a real disk, and ways to hurt them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorate.nouns import Offset, OffsetAndEpoch
from quorate.storage.disk_log import DiskLog
from quorate.storage.failpoints import Hook, set_failpoint
from quorate.storage.names import (
    DURABLE_MARK,
    LOG,
    PARTITION_DIRECTORY,
    checkpoint_file,
    segment_bases,
    segment_file,
)
from quorate.wire.batch import data_batch


def batch(offset: Offset, *, epoch: int = 1, count: int = 1, size: int = 20, timestamp_ms: int = 1000) -> bytes:
    """A batch whose records say where they are."""
    values = [f"{offset + at}".encode().ljust(size, b".") for at in range(count)]
    return data_batch(base_offset=offset, epoch=epoch, timestamp_ms=timestamp_ms, values=values)


def write_log(
    directory: Path, *, epochs: tuple[int, ...] = (1, 1, 1, 2, 2), segment_bytes: int = 1 << 30
) -> list[bytes]:
    """A log of one batch of two records an epoch that is named, closed cleanly."""
    log = DiskLog(directory, segment_bytes=segment_bytes)
    written = [batch(log.leo + 2 * at, epoch=epoch, count=2) for at, epoch in enumerate(epochs)]
    for data in written:
        log.append(data)
    log.close()
    return written


def partition(directory: Path) -> Path:
    """Where the log's files lie."""
    return directory / PARTITION_DIRECTORY


def last_segment(directory: Path) -> Path:
    """The file of the segment that is written to."""
    return segment_file(partition(directory), segment_bases(partition(directory))[-1], LOG)


def forget_mark(directory: Path) -> None:
    """As after a crash before the mark was written."""
    (partition(directory) / DURABLE_MARK).unlink()


def name_checkpoint(directory: Path, snapshot: OffsetAndEpoch) -> Path:
    """A checkpoint of which only the name counts, since the log does not look into it."""
    path = checkpoint_file(partition(directory), snapshot)
    path.touch()
    return path


def content(log: DiskLog) -> bytes:
    """Every byte from the start of the log to its end."""
    parts = []
    offset = log.start
    while data := log.read(offset, 1 << 20):
        parts.append(data)
        offset += count_records(data)
    return b"".join(parts)


def count_records(data: bytes) -> int:
    """How many records the batches in `data` have."""
    count = at = 0
    while at < len(data):
        count += int.from_bytes(data[at + 57 : at + 61], "big")
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return count


@contextmanager
def failpoint(name: str, hook: Hook) -> Iterator[None]:
    """Arm a failpoint for as long as this lasts."""
    set_failpoint(name, hook)
    try:
        yield
    finally:
        set_failpoint(name, None)


class Crash(BaseException):
    """The process is gone: nothing catches this, and nothing is tidied up."""


def crash() -> None:
    """For a failpoint."""
    raise Crash
