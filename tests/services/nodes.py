"""A quorum node in this process: its disk, its core and its driver are the real ones."""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from kraft.service.quorum_pb2 import CreateSnapshotRequest
from quorate.nouns import Offset, ReplicaKey
from quorate.raft.core import Raft
from quorate.raft.voters import ListenerEndpoint, VoterSet
from quorate.records import NoOpRecord, encode_record
from quorate.runtime.event_loop.clock import Clock, SystemClock
from quorate.runtime.telemetry.tracing import OFF
from quorate.storage.failpoints import set_failpoint
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_ids
from services.quorum.disk import Disk
from services.quorum.driver import QuorumDriver
from services.quorum.snapshot_upload import take_snapshot
from services.quorum.tracing import AppendTracer

NODE = ReplicaKey(1)
RECORD = encode_record(NoOpRecord(), 0)


class NoPeers:
    """A single voter has nobody to talk to."""

    def send(self, send: Any) -> None:
        raise AssertionError(send)

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing to stop."""


class Silent:
    """Peers that nobody reaches."""

    def send(self, send: Any) -> None:
        """Lost on the way."""

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing to stop."""


def open_disk(directory: Path, *, voters: int = 1, recovers: bool = False) -> Disk:
    return Disk(
        directory,
        static=VoterSet.of(*range(1, voters + 1)),
        segment_bytes=1 << 30,
        segment_ms=1 << 40,
        recovers=recovers,
    )


def driver_of(
    disk: Disk,
    *,
    linger_ms: int = 0,
    cluster_id: str = "c",
    clock: Clock | None = None,
    node: ReplicaKey = NODE,
    endpoints: Sequence[ListenerEndpoint] = (),
) -> QuorumDriver:
    """Node 1 on this disk, which has taken no turn yet."""
    clock = clock or SystemClock()
    core = Raft(
        node=node,
        endpoints=endpoints,
        cluster_id=cluster_id,
        log=disk.view(),
        election=disk.election(),
        random=random.Random(1),
        now_ms=clock.monotonic_ms(),
    )
    return QuorumDriver(core, disk, clock, AppendTracer(OFF, node_id=1), append_linger_ms=linger_ms)


@asynccontextmanager
async def sole_leader(
    directory: Path,
    *,
    failed: Callable[[BaseException], None] | None = None,
    cluster_id: str = "c",
    clock: Clock | None = None,
    node: ReplicaKey = NODE,
    endpoints: Sequence[ListenerEndpoint] = (),
) -> AsyncIterator[QuorumDriver]:
    """It leads, and its LeaderChange is committed. Nothing has failed at the end, but for what `failed` got."""
    disk = open_disk(directory)
    driver = driver_of(disk, cluster_id=cluster_id, clock=clock, node=node, endpoints=endpoints)
    failures: list[BaseException] = []
    driver.start(NoPeers(), failed or failures.append)  # type: ignore[arg-type]
    while not driver.core.log.leo:
        await driver.changed.wait()
    await committed(driver, driver.core.log.leo)
    yield driver
    driver.stop()
    await driver.stopped()
    disk.log.abandon() if failed else disk.close()
    assert failures == []


async def committed(driver: QuorumDriver, offset: Offset) -> None:
    """Wait until the high watermark is there."""
    while driver.core.log.high_watermark < offset:
        await driver.changed.wait()


async def write(driver: QuorumDriver, *, count: int = 1, size: int | None = None) -> Offset:
    """One batch of records, committed; the answer is the end of the log."""
    values = [RECORD if size is None else bytes(size)] * count
    result = driver.append(driver.core.role.epoch, driver.core.log.leo, [values])
    assert result.error == 0, result
    await committed(driver, result.end_offset)
    return result.end_offset


class HeldDisk:
    """Each flush waits until it is let go."""

    def __init__(self) -> None:
        self.flush_count = 0
        self.under_way = threading.Event()
        self._go = threading.Event()
        self.error: OSError | None = None

    def __call__(self) -> None:
        self.flush_count += 1
        self.under_way.set()
        assert self._go.wait(120)
        if self.error is not None:
            raise self.error

    def let_go(self) -> None:
        self._go.set()


@contextmanager
def held_disk() -> Iterator[HeldDisk]:
    disk = HeldDisk()
    set_failpoint("log.before_fsync", disk)
    try:
        yield disk
    finally:
        set_failpoint("log.before_fsync", None)
        disk.let_go()


async def snapshot(driver: QuorumDriver, offset: Offset) -> None:
    async def pieces() -> AsyncIterator[CreateSnapshotRequest]:
        yield CreateSnapshotRequest(end_offset=offset, epoch=driver.core.role.epoch, values=[RECORD])
        yield CreateSnapshotRequest()

    await take_snapshot(driver, pieces())


def kept(node: QuorumDriver, directory: Path) -> list[Offset]:
    """Where the snapshots end, on which the core and the disk agree; the log begins at the first, or at 0."""
    on_disk = [each.offset for each in checkpoint_ids(directory / PARTITION_DIRECTORY)]
    assert on_disk == sorted(each.offset for each in node.core.log.snapshots)
    assert node.core.log.start == node.disk.log.start
    assert node.core.log.start in (0, on_disk[0])
    return on_disk
