"""The log on disk where the simulator has a log in memory: the same histories must come of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, Offset
from quorate.partition_log import carry_out
from quorate.replication.effects import Append, Batch, Effect
from quorate.wire.batch import BatchHeader, batches, records
from tests.partition_log.batches import NOW_MS, opened, placed, produced_of

SEGMENT_BYTES: Final = 1_500
"""Some twenty batches: a kill meets full segments, flushed or not, and the torn one need not be the last."""


class StoredLog:
    """One broker's log. A value of the simulator is a record's value; the torn part of a batch is half of it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._flushed: Offset = 0
        self._log = opened(directory, segment_bytes=SEGMENT_BYTES)
        self._opened()

    @property
    def start(self) -> Offset:
        return self._log.start

    @property
    def leo(self) -> Offset:
        return self._log.leo

    @property
    def epochs(self) -> EpochCache:
        return self._log.epochs

    @property
    def first_open_offset(self) -> Offset | None:
        return self._log.first_open_offset

    @property
    def flushed(self) -> Offset:
        return self._flushed

    @flushed.setter
    def flushed(self, end: Offset) -> None:
        assert end == self._log.flush(), end
        self._flushed = end

    @property
    def batches(self) -> list[Batch]:
        return list(self._batches(self.start, self.leo))

    def size_between(self, start: Offset, end: Offset) -> int:
        """One byte a record, as in the log in memory: what waits for bytes waits as long."""
        return max(end - start, 0)

    def is_in_last_segment(self, offset: Offset) -> bool:
        return self._log.is_in_last_segment(offset)

    def read(self, start: Offset, end: Offset) -> tuple[Batch, ...]:
        return tuple(self._batches(max(start, self.start), end))

    def write(self, value: int, *, epoch: Epoch) -> Offset:
        self._log.append_as_leader(produced_of(value), epoch=epoch, now_ms=NOW_MS)
        self._flush_full()
        return self.leo

    def carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            effect = Append(tuple(replace(batch, data=self._stored(batch)) for batch in effect.batches))
        carry_out(self._log, effect, now_ms=NOW_MS)
        self._flushed = min(self._flushed, self.leo)
        self._flush_full()

    def _flush_full(self) -> None:
        """As a broker's clock; what the simulator takes for flushed, which a kill may not take, is that or more."""
        if (full := self._log.begin_flush()) is not None:
            full.flush()
            self._log.end_flush(full)

    def start_at(self, to: Offset) -> None:
        self._log.raise_start(to)
        self._flushed = max(self._flushed, to)

    def cut(self, to: Offset) -> None:
        """The process is killed, and of what it had not flushed only what is below `to` is on the disk."""
        path, size = self._tail(to)
        self._log.abandon()
        if path is not None:
            os.truncate(path, size)
        self._open(clean=False)
        assert to == self.leo, (to, self.leo)

    def reopen(self) -> None:
        """What the next process finds: after a stop in order all is flushed, and after a kill it was found before."""
        if self._flushed == self.leo:
            self._log.close()
            self._open(clean=True)

    def _open(self, *, clean: bool) -> None:
        self._log = opened(
            self._directory,
            segment_bytes=SEGMENT_BYTES,
            clean=clean,
            recovery_point=self._flushed,
            log_start=self.start,
        )
        self._flushed = min(self._flushed, self.leo)
        self._opened()

    def _opened(self) -> None:
        """The log has just been opened."""

    def _tail(self, to: Offset) -> tuple[Path | None, int]:
        """Where the file is torn, so that the log ends at `to`: in the middle of the batch there."""
        part = self._log.read(to, self.leo, max_bytes=1) if to < self.leo else None
        return (None, 0) if part is None else (part.path, part.position + part.size // 2)

    def _batches(self, start: Offset, end: Offset) -> Iterator[Batch]:
        while (part := self._log.read(start, end, max_bytes=1 << 30)) is not None:
            data = part.read()
            for position, header in batches(data):
                yield self._read_back(data, position, header)
                start = header.next_offset

    def _read_back(self, data: bytes, position: int, header: BatchHeader) -> Batch:
        (record,) = records(data, position, header)
        value = int(record.value or b"")
        return Batch(base_offset=header.base_offset, end_offset=header.next_offset, epoch=header.epoch, data=value)

    def _stored(self, batch: Batch) -> bytes:
        return placed(produced_of(int(str(batch.data))), offset=batch.base_offset, epoch=batch.epoch)
