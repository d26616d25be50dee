"""A voter's file system fills up under it, as leader and as follower: what it says, and that nothing is lost."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from deploy.local.plan import make_plan
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.disk_log import SPARE_BYTES
from tests.e2e.calls import eventually
from tests.e2e.cluster import Cluster, control_plane, others
from tests.e2e.starting import said, start
from tests.e2e.writer import Writer, caught_up, check, writing

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own is mounted: run it as root, as CI does"),
]

VICTIM: Final = 1
DISK_BYTES: Final = 8 << 20
LEAST_BYTES: Final = 2 << 20
CHUNK: Final = bytes(64 << 10)
STROKES: Final = 10
NO_ROOM: Final = "no room on the disk"


@contextmanager
def mounted(disk: Path) -> Iterator[None]:
    """A file system in memory, for the length of the block."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A control plane, of which one voter has a small file system for itself."""
    directory = tmp_path_factory.mktemp("cluster")
    disk = make_plan(directory).log_dir(VICTIM)
    disk.mkdir(parents=True)
    settings = {"metadata.log.min.free.bytes": str(LEAST_BYTES)}
    with mounted(disk):
        async with control_plane(directory, quorum_settings={VICTIM: settings}) as running:
            yield running


@contextmanager
def filled(disk: Path, *, left: int = 0) -> Iterator[None]:
    """Somebody else takes all room but so much, for the length of the block."""
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            room = os.statvfs(disk)
            if left:
                os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - left)
            else:
                _write_until_full(file.fileno())
        yield
    finally:
        ballast.unlink()


def _write_until_full(descriptor: int) -> None:
    try:
        while True:
            os.write(descriptor, CHUNK)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


class Log:
    """What the victim has written since this was made."""

    def __init__(self, cluster: Cluster) -> None:
        self._path = cluster.plan.directory / f"{cluster.quorum(VICTIM).name}.log"
        self._from = self._path.stat().st_size

    def lines(self, *parts: str) -> list[str]:
        return [line for line in said(self._path, since=self._from) if any(part in line for part in parts)]


async def leads(cluster: Cluster, role: str) -> None:
    """Has the victim lead, or follow."""
    await cluster.heal()
    await caught_up(cluster)
    await cluster.pass_leadership(to=[VICTIM] if role == "Leader" else others(VICTIM))


@asynccontextmanager
async def full_at_one_stroke(cluster: Cluster, log: Log) -> AsyncIterator[None]:
    """Has no room for a write of the victim, for the length of the block.

    A node that asks for new room just then waits for it, and lives: then the room is given back, and taken once more.
    """
    victim = cluster.quorum(VICTIM)
    for _ in range(STROKES):
        with filled(cluster.plan.log_dir(VICTIM)):
            waits = len(log.lines(NO_ROOM))

            async def has_met_it(waits: int = waits) -> bool:
                return not cluster.running.is_up(victim) or len(log.lines(NO_ROOM)) > waits

            assert await eventually(has_met_it, bool)
            if not log.lines(NO_ROOM)[waits:]:
                yield
                return
        await caught_up(cluster)
    pytest.fail(f"the node asked first, {STROKES} times")


@pytest.mark.parametrize("role", ["Leader", "Follower"])
async def test_a_disk_that_is_full_at_one_stroke_ends_the_node_with_one_line(
    cluster: Cluster, writer: Writer, role: str
) -> None:
    await leads(cluster, role)
    victim, log = cluster.quorum(VICTIM), Log(cluster)
    async with writing(writer, f"stroke-{role}"):
        async with full_at_one_stroke(cluster, log):
            assert ExitCode.FAILED == await cluster.ended(victim)
            refused = await start("quorum", victim.settings, cluster.plan.directory)
            await writer.goes_on()  # the others have a majority
        await cluster.restart(victim)
        await caught_up(cluster)

    assert [] == log.lines("Traceback", "unexpected error")
    for fatal in (log.lines("fatal: "), refused.fatal):
        assert 1 == len(fatal), fatal
        assert fatal[0].startswith(f"fatal: {cluster.plan.log_dir(VICTIM)}/")
        assert fatal[0].endswith(": No space left on device; make room and start again")
    await check(cluster, writer)


@pytest.mark.parametrize("role", ["Leader", "Follower"])
async def test_a_disk_that_is_nearly_full_takes_no_more_and_goes_on_when_there_is_room(
    cluster: Cluster, writer: Writer, role: str
) -> None:
    await leads(cluster, role)
    victim, log = cluster.quorum(VICTIM), Log(cluster)
    pid = cluster.running.pid(victim)

    async def told() -> bool:
        # The room is looked at once a second, and little of it is logged once a minute: by the first of these tests.
        is_little = role == "Follower" or log.lines("little room on the disk of the log")
        return bool(is_little and log.lines(NO_ROOM))

    async with writing(writer, f"nearly-{role}"):
        with filled(cluster.plan.log_dir(VICTIM), left=SPARE_BYTES // 2):
            assert await eventually(told, bool)
            assert VICTIM == (await cluster.find(VICTIM)).node_id
    await caught_up(cluster)

    assert (True, pid) == (cluster.running.is_up(victim), cluster.running.pid(victim))
    assert [] == log.lines("Traceback", "unexpected error", "fatal: ")
    if role == "Leader":
        assert writer.failed["KAFKA_STORAGE_ERROR"]
    await check(cluster, writer)
