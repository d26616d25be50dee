"""What a broker does by the clock: segments that are full are flushed, beside all else."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from quorate.partition_log.names import RECOVERY_POINTS
from quorate.partition_log.offset_checkpoints import read_offsets, write_offsets
from services.broker import upkeep
from services.broker.table import Hosted
from services.broker.threads import in_thread
from services.broker.upkeep import Upkeep
from tests.partition_log.batches import NOW_MS, produced
from tests.services.broker import test_partitions
from tests.services.broker.test_partitions import BROKERS, LEVELS, ORDERS, Scene, partition, running
from tests.services.scripted import WITHIN_S

disks = test_partitions.disks


@asynccontextmanager
async def with_a_full_segment(disks: list[Path]) -> AsyncIterator[tuple[Scene, Hosted]]:
    """Two records are in it, and one in the next."""
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await scene.applied(lambda: scene.names == ["orders-0"])
        (hosted,) = scene.replicas.table
        hosted.log.append_as_leader(produced(count=2), epoch=0, now_ms=NOW_MS)
        hosted.log.roll()
        hosted.log.append_as_leader(produced(), epoch=0, now_ms=NOW_MS)
        yield scene, hosted


async def test_a_full_segment_is_flushed_in_a_thread_and_is_no_more_read_by_a_start(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, written, threads = asyncio.get_running_loop(), asyncio.Event(), set[threading.Thread]()
    sync = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        threads.add(threading.current_thread())
        sync(descriptor)

    def write(path: Path, offsets: dict[object, int]) -> None:
        if path == disks[0] / RECOVERY_POINTS and 2 in offsets.values():
            write_offsets(path, offsets)  # type: ignore[arg-type]
            loop.call_soon_threadsafe(written.set)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(upkeep, "write_offsets", write)
    for interval in ("FLUSH_S", "RECOVERY_POINTS_S"):
        monkeypatch.setattr(upkeep, interval, 0.01)
    async with with_a_full_segment(disks) as (scene, hosted):
        tidying = asyncio.ensure_future(Upkeep(scene.replicas, scene.store, scene.partitions).run())
        async with asyncio.timeout(60):
            await written.wait()
        tidying.cancel()
        with suppress(asyncio.CancelledError):
            await tidying

        assert threads
        assert threading.current_thread() not in threads
        assert {hosted.name: 2} == read_offsets(disks[0] / RECOVERY_POINTS)


async def test_a_disk_that_does_not_take_a_full_segment_ends_the_broker(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fdatasync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(upkeep, "FLUSH_S", 0.0)
    async with with_a_full_segment(disks) as (scene, hosted):
        monkeypatch.setattr(os, "fdatasync", fdatasync)
        with pytest.RaisesGroup(OSError) as failed:
            async with asyncio.timeout(60):
                await Upkeep(scene.replicas, scene.store, scene.partitions).run()
        (problem,) = failed.value.exceptions

        assert f"{hosted.log.directory}/00000000000000000000.log" in str(problem)
        assert 0 == hosted.log.recovery_point


async def test_a_write_that_fails_in_a_thread_counts_after_a_cancellation_too() -> None:
    """The system tells of it once: a later fsync of the same file, by another descriptor, does not learn it."""
    begun, goes_on = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        goes_on.wait(WITHIN_S)
        raise OSError(errno.EIO, "Input/output error")

    running = asyncio.ensure_future(in_thread(fail))
    await asyncio.to_thread(begun.wait, WITHIN_S)
    running.cancel()
    goes_on.set()

    with pytest.raises(OSError, match="Input/output error"):
        await running
