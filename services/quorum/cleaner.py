"""Retention of log and snapshots by size and age, by Kafka's rules: the oldest snapshot is removed first (KIP-630).

At least one snapshot stays, and, unlike in Kafka, one that a replica is downloading (`downloads`). The log then starts
at the end of the next snapshot, and whole segments below are removed. Files are renamed first, and deleted later, as
they may still be read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

from quorate.nouns import OffsetAndEpoch
from quorate.runtime.logging.logs import logger
from services.quorum.checkpoints import Retired
from services.quorum.driver import QuorumDriver

log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """The retention limits for log and snapshots, and the intervals of the cleaner."""

    retention_bytes: int
    """`metadata.max.retention.bytes`: most bytes of log and snapshots together; -1 for no limit."""
    retention_ms: int
    """`metadata.max.retention.ms`: highest age of a snapshot's last record; -1 for no limit."""
    interval_ms: int
    """Pause between two checks of the limits, in ms."""
    delete_delay_ms: int
    """`file.delete.delay.ms`: the time between a file's renaming and its deletion."""


class Cleaner:
    """Applies the retention limits to one running node's directory."""

    def __init__(self, driver: QuorumDriver, limits: RetentionLimits) -> None:
        self._driver = driver
        self._limits = limits
        self._retired: deque[tuple[int, Retired]] = deque()

    async def run(self) -> None:
        """Cleans and deletes at intervals until cancelled; then deletes all renamed files."""
        try:
            while True:
                await asyncio.sleep(self._limits.interval_ms / 1000)
                self.clean()
                await self.delete()
        finally:
            while self._retired:
                await asyncio.to_thread(self._retired.popleft()[1].remove)

    def clean(self) -> None:
        """Drops the oldest snapshot, and the log before the next one, while a limit is exceeded and another is left.

        It stops at a snapshot that a replica is downloading. The files are renamed, and `delete` deletes them later. A
        log that is still too large gets a new segment. An OSError must end the node: the disk's content is unknown.
        """
        self._driver.settle()
        while (excess := self._excess()) is not None:
            reason, start = excess
            disk = self._driver.disk
            before = self._driver.core.log.start
            assert before < start.offset, (before, start)  # else nothing is freed, and it would clean for ever
            retired = disk.start_at(start)
            self._driver.core.log_started(start)
            due_ms = self._driver.now_ms + self._limits.delete_delay_ms
            self._retired.append((due_ms, retired))
            log.info("cleaned the log", reason=reason, before=before, start=start.offset, size=disk.size)
        self._end_segment()

    async def delete(self) -> None:
        """Deletes the files that `clean` renamed `file.delete.delay.ms` ago or longer, in a thread, as it may block."""
        while self._retired and self._retired[0][0] <= self._driver.now_ms:
            await asyncio.to_thread(self._retired.popleft()[1].remove)

    def _excess(self) -> tuple[str, OffsetAndEpoch] | None:
        """Returns why the oldest snapshot must go, and the snapshot at which the log then starts; None if none must."""
        known = self._driver.core.log
        committed = (each for each in known.snapshots if each.offset <= known.high_watermark)
        # A disk may have two of one offset. The log goes on from the one in its own epoch; the other goes with it.
        own = (each for each in committed if each.epoch == known.epochs.epoch_at(each.offset - 1))
        snapshots = sorted(own, key=lambda each: each.offset)
        for oldest, following in pairwise(snapshots):
            if self._driver.downloads.holds(oldest, now_ms=self._driver.now_ms):
                return None
            if self._is_too_large():
                return "retention.bytes", following
            if self._is_too_old(oldest):
                return "retention.ms", following
            return None
        return None

    def _is_too_large(self) -> bool:
        return 0 <= self._limits.retention_bytes < self._driver.disk.size

    def _is_too_old(self, snapshot: OffsetAndEpoch) -> bool:
        age_ms = self._driver.wall_ms - self._driver.disk.last_timestamp_ms(snapshot)
        return 0 <= self._limits.retention_ms < age_ms

    def _end_segment(self) -> None:
        """Rolls the active segment if the size is still above the limit, so that a later snapshot can free it.

        Kafka lets it grow to metadata.log.segment.bytes, ten times the limit by default, before it can be removed.
        """
        if self._is_too_large():
            self._driver.disk.log.end_segment()
