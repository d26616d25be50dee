"""What is kept and what goes: Kafka's rules of retention, held against a node at work (KIP-630)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.raft.log import SnapshotRead
from quorate.storage.names import DELETED, PARTITION_DIRECTORY, checkpoint_ids, segment_bases
from services.quorum.cleaner import Cleaner, RetentionLimits
from services.quorum.driver import QuorumDriver
from tests.services.nodes import kept, open_disk, snapshot, sole_leader, write

UNLIMITED = -1
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[QuorumDriver]:
    """Snapshots at 2, 4 and 6, after about a kilobyte of log each, and a batch more."""
    async with sole_leader(tmp_path) as driver:
        for _ in range(3):
            await write(driver, size=1000)
            await snapshot(driver, await write(driver, size=100))
        await write(driver)
        yield driver


def cleaner(node: QuorumDriver, *, size: int = UNLIMITED, age_ms: int = UNLIMITED, delay_ms: int = 0) -> Cleaner:
    limits = RetentionLimits(retention_bytes=size, retention_ms=age_ms, interval_ms=60_000, delete_delay_ms=delay_ms)
    return Cleaner(node, limits)


@pytest.mark.parametrize(
    ("size", "age_ms", "expected"),
    [
        (UNLIMITED, UNLIMITED, [3, 5, 7]),
        (1 << 30, DAY_MS, [3, 5, 7]),
        (0, UNLIMITED, [7]),
        (UNLIMITED, 0, [7]),
        (1 << 30, 0, [7]),
    ],
)
async def test_the_oldest_go_and_one_stays(
    node: QuorumDriver, tmp_path: Path, size: int, age_ms: int, expected: list[Offset]
) -> None:
    while node.wall_ms <= node.disk.last_timestamp_ms(OffsetAndEpoch(epoch=1, offset=7)):
        await write(node)

    cleaner(node, size=size, age_ms=age_ms).clean()

    assert expected == kept(node, tmp_path)
    assert node.core.log.start == (0 if len(expected) == 3 else 7)


async def test_no_more_goes_than_must(node: QuorumDriver, tmp_path: Path) -> None:
    cleaner(node, size=node.disk.size - 1).clean()

    assert [5, 7] == kept(node, tmp_path)


@pytest.mark.parametrize("epoch", [0, 2])
async def test_a_snapshot_of_another_epoch_is_passed_over(tmp_path: Path, epoch: Epoch) -> None:
    """A disk may have two sound files of one offset; the log cannot start at both."""
    async with sole_leader(tmp_path) as node:
        for _ in range(2):
            await snapshot(node, await write(node))
        first, latest = checkpoint_ids(tmp_path / PARTITION_DIRECTORY)
        for each in (first, latest):
            second = node.disk.begin_snapshot(OffsetAndEpoch(epoch=epoch, offset=each.offset), 0)
            second.finish().close()

    async with sole_leader(tmp_path) as node:
        cleaner(node, size=0).clean()

        assert [latest.offset] * 2 == kept(node, tmp_path)
        assert [latest] == [each for each in node.core.log.snapshots if each.epoch != epoch]


async def test_a_single_snapshot_stays_however_large_and_so_does_the_log(tmp_path: Path) -> None:
    async with sole_leader(tmp_path) as node:
        await snapshot(node, await write(node))

        cleaner(node, size=0, age_ms=0).clean()

        assert [2] == kept(node, tmp_path)
        assert 0 == node.core.log.start


async def test_the_segment_ends_so_that_the_next_snapshot_frees_it(node: QuorumDriver, tmp_path: Path) -> None:
    cleaning = cleaner(node, size=500)
    cleaning.clean()
    assert [0, 8] == segment_bases(tmp_path / PARTITION_DIRECTORY)

    await snapshot(node, await write(node))
    cleaning.clean()

    assert [9] == kept(node, tmp_path)
    assert [8] == segment_bases(tmp_path / PARTITION_DIRECTORY)


async def test_what_is_read_stays_readable_until_it_is_deleted(node: QuorumDriver, tmp_path: Path) -> None:
    """A piece that was promised to a follower is read in the turn after; and a process that has the file open keeps
    it."""
    oldest = min(node.core.log.snapshots, key=lambda each: each.offset)
    expected = node.disk.read_snapshot(SnapshotRead(snapshot_id=oldest, position=0, max_bytes=100))
    cleaning = cleaner(node, size=500, delay_ms=0)

    cleaning.clean()

    aside = sorted((tmp_path / PARTITION_DIRECTORY).glob(f"*{DELETED}"))
    assert 2 == len(aside)
    assert aside[0].read_bytes().startswith(expected)
    await cleaning.delete()
    assert [] == sorted((tmp_path / PARTITION_DIRECTORY).glob(f"*{DELETED}"))


async def test_nothing_is_deleted_before_its_time(node: QuorumDriver, tmp_path: Path) -> None:
    cleaning = cleaner(node, size=500, delay_ms=DAY_MS)
    cleaning.clean()

    await cleaning.delete()

    assert 2 == len(list((tmp_path / PARTITION_DIRECTORY).glob(f"*{DELETED}")))


async def test_after_a_restart_the_log_goes_on_where_it_was_cleaned(node: QuorumDriver, tmp_path: Path) -> None:
    cleaning = cleaner(node, size=500)
    cleaning.clean()
    await snapshot(node, await write(node))
    cleaning.clean()
    leo = await write(node)
    node.stop()

    again = open_disk(tmp_path)

    assert (9, leo) == (again.log.start, again.log.leo)
    assert [9] == [each.offset for each in again.view().snapshots]
    assert [] == list((tmp_path / PARTITION_DIRECTORY).glob(f"*{DELETED}"))
    again.close()
