"""Keeps the log and its snapshots within their limits, by Kafka's rules: the oldest snapshot goes first (KIP-630).

At least one snapshot stays. The log then begins where the next one ends, and whole segments below are removed. What
somebody may still be reading is renamed, and deleted a while later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

from quorate.nouns import OffsetAndEpoch
from quorate.runtime.logs import logger
from services.quorum.checkpoints import Retired
from services.quorum.driver import Driver

log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is kept, and how often it is looked."""

    retention_bytes: int
    """`metadata.max.retention.bytes`: of log and snapshots together; -1 for any number."""
    retention_ms: int
    """`metadata.max.retention.ms`: age of a snapshot's last record; -1 for any."""
    interval_ms: int
    """Pause between two looks."""
    delete_delay_ms: int
    """`file.delete.delay.ms`: how long a file lies under its other name."""


class Cleaner:
    """Cleans one node's directory while it runs."""

    def __init__(self, driver: Driver, limits: Limits) -> None:
        self._driver = driver
        self._limits = limits
        self._retired: deque[tuple[int, Retired]] = deque()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await asyncio.sleep(self._limits.interval_ms / 1000)
                self.clean()
                await self.delete()
        finally:
            while self._retired:
                self._retired.popleft()[1].remove()

    def clean(self) -> None:
        """Put aside what goes beyond the limits. An OSError ends the node: nobody knows what the disk has kept."""
        self._driver.settle()
        while (excess := self._excess()) is not None:
            reason, start = excess
            disk = self._driver.disk
            before = self._driver.core.log.start
            retired = disk.start_at(start)
            self._driver.core.log_started(start)
            due_ms = self._driver.now_ms + self._limits.delete_delay_ms
            self._retired.append((due_ms, retired))
            log.info("cleaned the log", reason=reason, before=before, start=start.offset, size=disk.size)
        self._end_segment()

    async def delete(self) -> None:
        """Delete what was put aside long enough ago; the disk may take its time, so in another thread."""
        while self._retired and self._retired[0][0] <= self._driver.now_ms:
            await asyncio.to_thread(self._retired.popleft()[1].remove)

    def _excess(self) -> tuple[str, OffsetAndEpoch] | None:
        """Why the oldest snapshot must go, and with which one the log then begins; None if it may stay."""
        known = self._driver.core.log
        snapshots = sorted(
            (each for each in known.snapshots if each.offset <= known.high_watermark), key=lambda each: each.offset
        )
        for oldest, following in pairwise(snapshots):
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
        """If it is still too much, end the segment, so that a next snapshot can make it superfluous.

        Kafka lets it grow to metadata.log.segment.bytes, ten times the limit by default, and keeps it till then.
        """
        if self._is_too_large():
            self._driver.disk.log.end_segment()
