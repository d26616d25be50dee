"""The periodic work of a broker: the ISRs' check, time-outs, checkpoints, retention, files to remove.

The names and the intervals are Kafka's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from quorate.nouns import Offset
from quorate.partition_log.offset_checkpoints import TopicPartition, write_offsets
from quorate.runtime.logging.logs import logger
from services.broker.partitions import Partitions
from services.broker.replicas import Replicas
from services.broker.store import PartitionStore
from services.broker.table import Hosted
from services.broker.threads import in_thread

__all__ = ["Upkeep"]

log = logger(__name__)

EXPIRY_S: Final = 1.0
"""How often requests are looked for whose callers are gone and whose time is over."""
HIGH_WATERMARKS_S: Final = 5.0
"""`replica.high.watermark.checkpoint.interval.ms`."""
RECOVERY_POINTS_S: Final = 60.0
"""`log.flush.offset.checkpoint.interval.ms` and `log.flush.start.offset.checkpoint.interval.ms`."""
FLUSH_S: Final = 1.0
"""How often segments are looked for that are full, to flush them; Kafka does that as each is full."""
RETENTION_S: Final = 300.0
"""`log.retention.check.interval.ms`."""
IDLE_PRODUCERS_S: Final = 600.0
"""`producer.id.expiration.check.interval.ms`."""
PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""`producer.id.expiration.ms`: so long a partition knows a producer that sends nothing."""
DELETE_DELAY_S: Final = 60.0
"""`file.delete.delay.ms`: time for those who still read a file."""
AT_ONCE: Final = 100
"""So many partitions are looked at in one turn of the loop."""

_Files: TypeAlias = Iterator[tuple[Path, dict[TopicPartition, Offset]]]


class Upkeep:
    """The periodic work of one broker."""

    def __init__(self, replicas: Replicas, store: PartitionStore, partitions: Partitions) -> None:
        self._replicas = replicas
        self._store = store
        self._partitions = partitions

    async def run(self) -> None:
        """Does the periodic work until cancelled: ISRs, time-outs, checkpoints, flushes, retention, files to remove.

        Raises an ExceptionGroup with the OSError of a disk.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._every(self._replicas.settings.isr_check_interval_ms / 1000, self._check_isrs))
            tasks.create_task(self._every(EXPIRY_S, self._expire))
            tasks.create_task(self._every(HIGH_WATERMARKS_S, self._write_high_watermarks))
            tasks.create_task(self._write_recovery_points())
            tasks.create_task(self._every(FLUSH_S, self._flush_full))
            tasks.create_task(self._every(RETENTION_S, self._delete_old))
            tasks.create_task(self._every(IDLE_PRODUCERS_S, self._forget_idle_producers))
            tasks.create_task(self._every(DELETE_DELAY_S, self._remove_deleted))

    @staticmethod
    async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await work()

    async def _each(self, work: Callable[[Hosted], None]) -> None:
        """Does it to each partition that is still there, in turns of the loop."""
        for number, hosted in enumerate(self._replicas.table):
            if self._replicas.table.get(hosted.key) is hosted:
                work(hosted)
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)

    async def _check_isrs(self) -> None:
        await self._each(self._check_isr)

    def _check_isr(self, hosted: Hosted) -> None:
        if (role := hosted.leading) is not None:
            self._replicas.carry_out(hosted, role.check_isr(self._replicas.now_ms))

    async def _expire(self) -> None:
        self._replicas.expire()

    async def _write_high_watermarks(self) -> None:
        await self._write(self._store.write_high_watermarks)

    async def _write_recovery_points(self) -> None:
        """Writes them each minute, and as soon as one falls.

        Else a start after a power cut would take what was appended instead, and never flushed, for what was flushed.
        """
        fell = self._replicas.recovery_point_fell
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RECOVERY_POINTS_S):
                    await fell.wait()
            fell.clear()
            await self._write(self._store.write_starts_and_recovery_points)

    async def _write(self, files_of: Callable[[Iterable[Hosted]], _Files]) -> None:
        async with self._store.checkpoints:
            for path, offsets in tuple(files_of(self._replicas.table)):
                await in_thread(write_offsets, path, offsets)

    async def _flush_full(self) -> None:
        """Flushes the segments that are full, so that the recovery points rise, and a start need not read them."""
        for number, hosted in enumerate(self._replicas.table):
            written = hosted.log
            if self._replicas.table.get(hosted.key) is hosted and (full := written.begin_flush()) is not None:
                await in_thread(full.flush)
                written.end_flush(full)
            elif number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)

    async def _delete_old(self) -> None:
        await self._each(self._delete_old_segments)

    def _delete_old_segments(self, hosted: Hosted) -> None:
        hosted.log.remove_retired()  # of the time before
        high_watermark = hosted.partition.local.high_watermark
        if old := hosted.log.delete_old(high_watermark=high_watermark, now_ms=self._replicas.wall_ms):
            log.info("old segments are deleted", partition=str(hosted.name), count=len(old), log_start=hosted.log.start)
            self._replicas.trimmed(hosted)

    async def _forget_idle_producers(self) -> None:
        before_ms = self._replicas.wall_ms - PRODUCER_EXPIRATION_MS
        await self._each(lambda hosted: hosted.log.forget_idle_producers(before_ms=before_ms))

    async def _remove_deleted(self) -> None:
        due, self._partitions.deleted = self._partitions.deleted, []
        for path in due:
            await in_thread(self._store.remove, path)
